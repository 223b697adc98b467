"""Every exception that a package of nriplugin raises for its callers.

All of them derive from NRIPluginError. An error of a library or of the operating system
is turned into one of these where it appears, with the original as its cause, so that
callers need not know which library was used. The text of each is one line that can be
shown to a user as it is.
"""

from __future__ import annotations

from errno import errorcode

# Not `os`: the packages that do no I/O import this module, and hack/check holds them to
# never importing `os`, not even through another module.
from posix import strerror


class NRIPluginError(Exception):
    """The base class of all exceptions of nriplugin."""


class ProtocolError(NRIPluginError):
    """Bytes or a message that the NRI protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """The caller asked to send something that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that leaves the connection unusable."""


class ConnectionClosed(NRIPluginError):
    """The connection has ended: end of file, reset, or closed by this side."""


class RPCError(NRIPluginError):
    """The peer answered a call with an error status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message


class ConfigError(NRIPluginError):
    """A mistake of the user; the text names field, value and what was expected."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what to print, which for several mistakes is several lines."""
        return (str(self),)


class ConfigMistakes(ConfigError):
    """Several mistakes in a file; the text has the first, `lines` has all."""

    def __init__(self, first: str, *more: str) -> None:
        count = len(more)
        also = f" (and {count} more mistake{'s'[: count != 1]})" if more else ""
        super().__init__(f"{first}{also}")
        self._lines = (first, *more)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return all mistakes."""
        return self._lines


class RequestFails(NRIPluginError):
    """The runtime's request has to fail: a failure policy `fail` demands it.

    Code that ignores failures under the policy `ignore` must let this one through.
    """


class ConversionError(NRIPluginError):
    """A resource value that cannot be converted to a valid cgroup v2 value."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {value!r}, expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class JournalError(NRIPluginError):
    """The journal of original values cannot be read or written; the text says why."""


class ControlError(NRIPluginError):
    """The control API of a daemon gives no answer, or refuses; the text says why."""


class NoDaemon(ControlError):
    """No daemon answers, or it has ended while an answer was awaited."""


class CgroupError(NRIPluginError):
    """A cgroup file could not be read, written or understood.

    `path` is absolute below the cgroup root, as the caller named it. `value` is the
    text that was to be written, or that could not be understood; None for a read that
    failed. `errno` is the kernel's, or the nearest one if no system call was made.
    """

    def __init__(
        self,
        operation: str,
        path: str,
        value: str | None,
        errno: int,
        reason: str | None = None,
    ) -> None:
        about = "" if value is None else f" {value!r}:"
        if reason is None:
            reason = f"{strerror(errno)} ({errorcode.get(errno, errno)})"
        super().__init__(f"{operation} {path}:{about} {reason}")
        self.operation = operation
        self.path = path
        self.value = value
        self.errno = errno
