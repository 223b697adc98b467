"""One blocking connection to a D-Bus message bus, kept between calls.

jeepney builds and parses the messages. The socket is handled here: jeepney's own
blocking connection waits for the bus's first reply without a limit, while here every
call, connecting included, has one deadline, because a write to a cgroup must not hang
when the message bus does.

Import this module late: only nodes where systemd owns the cgroups need jeepney.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    MessageType,
    Parser,
    message_bus,
    new_method_call,
)
from jeepney.auth import AuthenticationError, Authenticator

from nriplugin.errors import NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM_BUS = "/run/dbus/system_bus_socket"
TIMEOUT_S = 2.0

# After the bus did not answer in time, calls fail at once for this long. Otherwise
# every write of a batch would wait for the whole timeout.
PAUSE_S = 30.0

_CHUNK_BYTES = 4096
_BEGIN = b"BEGIN\r\n"


class BusError(NRIPluginError):
    """A call that failed; `name` is D-Bus's name of the error.

    The name is empty if there was no reply.
    """

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.name = name


class Bus:
    """Calls methods over a unix socket; may be used by several threads."""

    def __init__(
        self,
        path: str = SYSTEM_BUS,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._parser = Parser()
        self._serial = 0
        self._deadline = 0.0
        self._paused_until = float("-inf")

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        with self._lock:
            self._disconnect()

    def call(
        self,
        destination: str,
        path: str,
        interface: str,
        method: str,
        signature: str | None = None,
        body: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """Call a method and return the values of its reply.

        If the connection turns out to be closed, a new one is made and the call is sent
        again. So only methods that may be executed twice can be called.

        Raises:
            BusError: no bus, no reply in time, or an error as the reply; in one line.
        """
        address = DBusAddress(path, bus_name=destination, interface=interface)
        message = new_method_call(address, method, signature, body)
        with self._lock:
            if self._clock() < self._paused_until:
                raise BusError(f"{self.path}: it did not answer a moment ago")
            self._deadline = self._clock() + self._timeout_s
            try:
                return self._call(message)
            except TimeoutError as exc:
                self._disconnect()
                self._paused_until = self._clock() + PAUSE_S
                reason = f"{self.path}: no answer within {self._timeout_s:g} s"
                raise BusError(reason) from exc
            except AuthenticationError as exc:
                self._disconnect()
                raise BusError(f"{self.path}: {_line(exc)}") from exc
            except OSError as exc:
                self._disconnect()
                raise BusError(f"{self.path}: {exc.strerror or _line(exc)}") from exc
            except (ValueError, TypeError, LookupError, struct.error) as exc:
                # jeepney raises any of these for bytes that are not a message.
                self._disconnect()
                raise BusError(f"{self.path}: not D-Bus: {_line(exc)}") from exc

    def _call(self, message: Any) -> tuple[Any, ...]:  # noqa: ANN401 # jeepney's
        if self._socket is not None:
            try:
                return self._exchange(message)
            except ConnectionError:
                self._disconnect()
        self._connect()
        return self._exchange(message)

    def _connect(self) -> None:
        self._parser = Parser()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._timed().connect(self.path)
        authenticator = Authenticator()
        for line in authenticator:
            self._timed().sendall(line)
            authenticator.feed(self._receive())
        self._timed().sendall(_BEGIN)
        self._exchange(message_bus.Hello())

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, message: Any) -> tuple[Any, ...]:  # noqa: ANN401 # jeepney's
        self._serial += 1
        self._timed().sendall(message.serialise(serial=self._serial))
        while True:
            reply = self._parser.get_next_message()
            if reply is None:
                self._parser.add_data(self._receive())
                continue
            fields = reply.header.fields
            if fields.get(HeaderFields.reply_serial) != self._serial:
                continue  # a signal, such as NameAcquired
            if reply.header.message_type is MessageType.error:
                name = str(fields.get(HeaderFields.error_name, ""))
                text = reply.body[0] if reply.body else name
                raise BusError(_line(text), name)
            return tuple(reply.body)

    def _receive(self) -> bytes:
        data = self._timed().recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionResetError("the bus closed the connection")
        return data

    def _timed(self) -> socket.socket:
        """Return the socket, with a timeout of what is left until the deadline."""
        left_s = self._deadline - self._clock()
        if left_s <= 0:
            raise TimeoutError
        assert self._socket is not None
        self._socket.settimeout(left_s)
        return self._socket


def _line(text: object) -> str:
    return " ".join(str(text).split())
