"""The control socket: accepts connections, and checks who makes them.

The socket file has mode 0600, or 0660 and a group. Beyond that, the user and groups of
every client are asked of the kernel, and they decide which gRPC server its connection
is forwarded to: the one with all methods, or the one with those that change nothing.
Each of the two has its own threads, so clients of the second cannot use up the first.

One thread does all of this ("control"). It also makes the socket anew if the file was
removed, for example with its directory, and tries again if another process serves it.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep
from typing import TYPE_CHECKING, Protocol

from nriplugin.daemon.control.forwarding import ForwardedConnection
from nriplugin.daemon.control.peers import Access, access_of, peer_of
from nriplugin.daemon.control.socket_files import (
    ListeningSocket,
    PrivateDirectory,
    make_directory_of,
)
from nriplugin.errors import ConfigError, NRIPluginError
from nriplugin.loglimit import LimitedLog
from nriplugin.sockets import claimed

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

# How often the socket file is looked at.
LOOK_S = 5.0

# How many connections there may be at once: from root, and from the group.
MAX_CONNECTIONS = 64
MAX_READING_CONNECTIONS = 64


class Backend(Protocol):
    """A gRPC server, as the listener sees it."""

    def open(self, path: str) -> None:
        """Serve a socket."""

    def stop(self) -> Callable[[], object]:
        """Begin to stop; the result waits for calls that are under way."""


class ControlListener:
    """Serves one control socket. `open` and `start` begin, `close` ends."""

    def __init__(
        self,
        option: str,
        path: str,
        group: int | None,
        make_backend: Callable[[Access], Backend],
        look_s: float = LOOK_S,
        opened: Callable[[], None] | None = None,
    ) -> None:
        """Prepare the listener.

        Args:
            option: the command's option, for messages.
            path: of the socket.
            group: the group that may read; None if there is none.
            make_backend: makes the gRPC server for an access.
            look_s: how often the socket file is looked at.
            opened: called whenever the socket has been made.
        """
        self._opened = opened
        self.path = path
        self._option, self._group = option, group
        self._make_backend = make_backend
        self._look_s = look_s
        self._selector = DefaultSelector()
        self._connections: set[ForwardedConnection] = set()
        self._listening: ListeningSocket | None = None
        self._claim = ExitStack()
        self._private: PrivateDirectory | None = None  # with the servers' sockets
        self._backends: dict[Access, Backend] = {}
        self._limited = LimitedLog(_log)
        self._problem = ""  # what was logged last about the socket
        # A byte on it wakes the thread, to stop accepting or to end.
        self._wake, self._woken = socket.socketpair()
        self._accepting = True
        self._stopping = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Make the socket.

        Raises:
            AddressTaken: another process serves it.
            ConfigError: it cannot be made.
        """
        try:
            self._claim.enter_context(claimed(self._option, self.path))
            self._private = PrivateDirectory(self._option, self.path)
            for access in (Access.ALL, Access.READING):
                if access is Access.READING and self._group is None:
                    continue
                backend = self._make_backend(access)
                backend.open(self._private.path_of(access.value))
                self._backends[access] = backend
            self._listening = ListeningSocket(self._option, self.path, self._group)
            self._selector.register(self._listening.socket, EVENT_READ, None)
        except OSError as exc:
            self._tear_down()
            raise ConfigError(
                f"{self._option}: {self.path}: {exc.strerror}, expected a place where "
                "a socket can be made"
            ) from exc
        except BaseException:
            self._tear_down()
            raise
        if self._opened is not None:
            self._opened()

    def start(self) -> None:
        """Start the thread; if the socket is not open, it tries to open it."""
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait a moment for calls that are under way, then end all connections."""
        self._accepting = False
        self._wake.send(b"1")
        waits = [backend.stop() for backend in list(self._backends.values())]
        for wait in waits:
            wait()
        self._stopping = True
        self._wake.send(b"1")
        if self._thread is not None:
            self._thread.join()
        self._tear_down()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    # The socket

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._selector.unregister(self._listening.socket)
            self._listening.close()
            self._listening = None

    def _tear_down(self) -> None:
        """Close everything that `open` made; servers that serve are stopped."""
        self._stop_listening()
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        backends, self._backends = self._backends, {}
        for wait in [backend.stop() for backend in backends.values()]:
            wait()
        if self._private is not None:
            self._private.close()
            self._private = None
        self._claim.close()

    # The thread

    def _run(self) -> None:
        self._selector.register(self._woken, EVENT_READ, None)
        look_at = 0.0 if self._listening is None else monotonic() + self._look_s
        while not self._stopping:
            try:
                self._serve_once(max(0.0, look_at - monotonic()))
                if monotonic() >= look_at:
                    look_at = monotonic() + self._look_s
                    self._look()
            except Exception as exc:  # noqa: BLE001 - a defect must not end the thread
                self._limited.log(logging.ERROR, "control: %r", exc, exc_info=exc)
                sleep(0.1)

    def _serve_once(self, timeout_s: float) -> None:
        """Wait for sockets that are ready, and go on with each."""
        for key, events in self._selector.select(timeout_s):
            one, connection = key.fileobj, key.data
            assert isinstance(one, socket.socket)
            if connection is not None:
                if not connection.ready(one, events):
                    self._connections.discard(connection)
            elif one is self._woken:
                one.recv(16)
                if not self._accepting:
                    self._stop_listening()
            elif self._listening is not None and one is self._listening.socket:
                self._accept(one)

    def _accept(self, listening: socket.socket) -> None:
        """Accept a connection, and forward it to the server that its peer may use."""
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as exc:  # no descriptor is free
            self._limited.log(logging.WARNING, "control: accept: %s", exc.strerror)
            sleep(0.1)
            return
        try:
            peer = peer_of(client)
            access = access_of(peer, self._group)
            if access is Access.NONE:
                raise PermissionError(f"user {peer.uid} may not use it")
            self._limit(access)
            assert self._private is not None
            path = self._private.path_of(access.value)
            forwarded = ForwardedConnection(self._selector, client, path, access)
            self._connections.add(forwarded)
        except OSError as exc:
            client.close()
            text = "control: a connection is refused: %s"
            self._limited.log(logging.WARNING, text, exc.strerror or exc)

    def _limit(self, access: Access) -> None:
        """Refuse a connection that would be one too many."""
        found = sum(one.access is access for one in self._connections)
        if access is Access.READING and found >= MAX_READING_CONNECTIONS:
            raise ConnectionRefusedError(f"{found} connections of the group are open")
        if access is Access.ALL and found >= MAX_CONNECTIONS:
            raise ConnectionRefusedError(f"{found} connections of root are open")

    def _look(self) -> None:
        """Open the socket if there is none, or if its file was removed."""
        if not self._accepting:
            return
        if self._listening is not None:
            if self._listening.is_there():
                return
            _log.warning("%s: %s is gone and made anew", self._option, self.path)
            self._tear_down()
        try:
            make_directory_of(self.path)
            self.open()
        except (NRIPluginError, OSError) as exc:
            if str(exc) != self._problem:
                self._problem = str(exc)
                _log.warning("%s", exc)
        else:
            self._problem = ""
            _log.info("%s: serving %s", self._option, self.path)
