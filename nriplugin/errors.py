"""Every exception that leaves one of our packages, in one tree.

Library and operating system errors are turned into these at the boundary where
they appear, always with the original as the cause.
"""

from __future__ import annotations

from errno import errorcode

# The table of texts alone: what computes imports this module, and must not reach `os`.
from posix import strerror


class NRIPluginError(Exception):
    """The root: catch this to catch everything of ours."""


class ProtocolError(NRIPluginError):
    """Bytes or messages that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something illegal."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that leaves the connection unusable."""


class ConnectionClosed(NRIPluginError):
    """The connection is gone: end of file, reset, or closed by us."""


class RPCError(NRIPluginError):
    """The peer answered a call with an error status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message


class ConfigError(NRIPluginError):
    """A mistake of the user's, in one line: field, value, what was expected."""


class RequestFails(NRIPluginError):
    """A request that is to fail, because the user wants it so: never "ignore" this."""


class ConversionError(NRIPluginError):
    """A resource that has no valid cgroup v2 value."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {value!r}, expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class JournalError(NRIPluginError):
    """The journal of original values cannot be read or written: one line, and why."""


class CgroupError(NRIPluginError):
    """The kernel refused to read or write a file, or we refused to ask it.

    `path` is absolute below the root, as the caller named it; `value` is what was to be
    written, or what could not be understood; None when it was only read.
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
