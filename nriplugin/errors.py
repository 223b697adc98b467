"""Every exception that leaves one of our packages, in one tree.

Library and operating system errors are turned into these at the boundary where
they appear, always with the original as the cause.
"""

from __future__ import annotations


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


class ConversionError(NRIPluginError):
    """A resource that has no valid cgroup v2 value."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {value!r}, expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected
