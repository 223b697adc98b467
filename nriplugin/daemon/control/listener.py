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
import os
import socket
import stat
import threading
from contextlib import ExitStack, suppress
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep
from typing import TYPE_CHECKING, Protocol

from nriplugin.daemon.control.forwarding import ForwardedConnection
from nriplugin.daemon.control.peers import Access, access_of, peer_of
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
_BACKLOG = 64

# The directory beside the socket with the sockets of the gRPC servers.
_PRIVATE = ".private"


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
    ) -> None:
        """Prepare the listener.

        Args:
            option: the command's option, for messages.
            path: of the socket.
            group: the group that may read; None if there is none.
            make_backend: makes the gRPC server for an access.
            look_s: how often the socket file is looked at.
        """
        self._option, self._path, self._group = option, path, group
        self._make_backend = make_backend
        self._look_s = look_s
        self._selector = DefaultSelector()
        self._connections: set[ForwardedConnection] = set()
        self._listening: socket.socket | None = None
        self._identity: tuple[int, int] | None = None  # of the socket file
        self._claim = ExitStack()
        self._private = -1  # descriptor of the directory of the servers' sockets
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
            self._claim.enter_context(claimed(self._option, self._path))
            self._open_private_directory()
            for access in (Access.ALL, Access.READING):
                if access is Access.READING and self._group is None:
                    continue
                backend = self._make_backend(access)
                backend.open(self._private_path(access))
                self._backends[access] = backend
            self._listen()
        except OSError as exc:
            self._tear_down()
            raise ConfigError(
                f"{self._option}: {self._path}: {exc.strerror}, expected a place where "
                "a socket can be made"
            ) from exc
        except BaseException:
            self._tear_down()
            raise

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

    def _open_private_directory(self) -> None:
        """Make the directory that nobody else can enter, or take the one left over.

        The gRPC servers' sockets are reached through its descriptor, so the length of
        its path does not matter.
        """
        directory = f"{self._path}{_PRIVATE}"
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY | os.O_CLOEXEC
        self._private = os.open(directory, flags)
        found = os.fstat(self._private)
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"{self._option}: {directory}: owned by user {found.st_uid}, expected "
                "this process's"
            )
        os.fchmod(self._private, 0o700)

    def _private_path(self, access: Access) -> str:
        return f"/proc/self/fd/{self._private}/{access.value}.sock"

    def _listen(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.bind(self._path)
            # Nobody can connect before `listen`, so the permissions come in time.
            if self._group is None:
                os.chmod(self._path, 0o600)
            else:
                os.chown(self._path, -1, self._group)
                os.chmod(self._path, 0o660)
            found = os.lstat(self._path)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
        self._identity = found.st_dev, found.st_ino
        self._listening = listening
        self._selector.register(listening, EVENT_READ, None)

    def _is_there(self) -> bool:
        """Whether the socket file is still the one that this process made."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        return stat.S_ISSOCK(found.st_mode) and self._identity == (
            found.st_dev,
            found.st_ino,
        )

    def _stop_listening(self) -> None:
        if self._listening is None:
            return
        self._selector.unregister(self._listening)
        if self._is_there():
            with suppress(OSError):
                os.unlink(self._path)
        self._listening.close()
        self._listening = self._identity = None

    def _tear_down(self) -> None:
        """Close everything that `open` made; servers that serve are stopped."""
        self._stop_listening()
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        backends, self._backends = self._backends, {}
        for wait in [backend.stop() for backend in backends.values()]:
            wait()
        if self._private >= 0:
            os.close(self._private)
            self._private = -1
            with suppress(OSError):
                os.rmdir(f"{self._path}{_PRIVATE}")
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
            elif one is self._listening:
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
            path = self._private_path(access)
            forwarded = ForwardedConnection(self._selector, client, path, access)
            self._connections.add(forwarded)
        except OSError as exc:
            client.close()
            text = "control: a connection is refused: %s"
            self._limited.log(logging.WARNING, text, exc.strerror or exc)

    def _limit(self, access: Access) -> None:
        """Refuse a connection that would be one too many."""
        reading = sum(one.access is Access.READING for one in self._connections)
        if access is Access.READING and reading >= MAX_READING_CONNECTIONS:
            raise ConnectionRefusedError(f"{reading} connections of the group are open")
        if len(self._connections) - reading >= MAX_CONNECTIONS:
            raise ConnectionRefusedError(f"{MAX_CONNECTIONS} connections are open")

    def _look(self) -> None:
        """Open the socket if there is none, or if its file was removed."""
        if not self._accepting or (self._listening is not None and self._is_there()):
            return
        if self._listening is not None:
            _log.warning("%s: %s is gone and made anew", self._option, self._path)
            self._tear_down()
        try:
            os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)
            self.open()
        except (NRIPluginError, OSError) as exc:
            if str(exc) != self._problem:
                self._problem = str(exc)
                _log.warning("%s", exc)
        else:
            self._problem = ""
            _log.info("%s: serving %s", self._option, self._path)
