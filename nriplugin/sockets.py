"""Unix sockets: reading their addresses, and serving at one of them.

An address is a URL, as in kubelet's configuration: `%41` in it stands for the letter A
in the file's name. Inside the package a socket is named by the path of its file. gRPC
decodes `%` once more, so it gets addresses only from `target_of`.

To serve at a path, a process holds the lock beside it (`claimed`) for as long as it
serves, and makes the socket with the wanted permissions from the start (`bind`).
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

SCHEME = "unix://"

# struct sockaddr_un has 108 bytes for the path, with a zero at the end.
MAX_BYTES = 107

# Characters that end the path of a URL, and a `%` without two hexadecimal digits.
_NOT_A_PATH = re.compile(r"[?#]|%(?![0-9A-Fa-f]{2})")


class AddressTaken(ConfigError):
    """Another process serves the socket."""


def parse_address(option: str, text: str) -> str:
    """Return the path in an address such as unix:///run/containerd/containerd.sock.

    Raises:
        ConfigError: the text is not such an address, or the path cannot be used.
    """
    encoded = text.removeprefix(SCHEME)
    if encoded == text or encoded[:1] != "/" or encoded[-1:] == "/":
        raise ConfigError(f"{option}: {text!r}, expected {SCHEME}/path/of/a.sock")
    if _NOT_A_PATH.search(encoded):
        expected = "%3F for ?, %23 for # and %25 for %"
        raise ConfigError(f"{option}: {text!r}, expected {expected}")
    # Imported only here: a daemon that was given no address needs none of it.
    from urllib.parse import unquote_to_bytes

    path = unquote_to_bytes(os.fsencode(encoded))
    # A zero byte ends a path for the kernel, and a comma ends an address for gRPC.
    if b"\0" in path or b"," in path:
        raise ConfigError(f"{option}: {text!r}, expected no zero byte and no comma")
    if len(path) > MAX_BYTES:
        raise ConfigError(f"{option}: {text!r}, expected at most {MAX_BYTES} bytes")
    return os.fsdecode(path)


def target_of(path: str) -> str:
    """Return the address of the socket at a path, as gRPC wants it."""
    from urllib.parse import quote

    return f"unix:{quote(os.fsencode(path))}"


def parse_mode(option: str, text: str) -> int:
    """Return permissions given in octal.

    Raises:
        ConfigError: the text is not octal, or the owner could not read and write.
    """
    try:
        mode = int(text, 8)
    except ValueError:
        mode = 0
    if not 0o600 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise ConfigError(f"{option}: {text!r}, expected octal such as 0600 or 0660")
    return mode


@contextmanager
def claimed(option: str, path: str) -> Iterator[None]:
    """Hold the right to make a socket at a path; remove a socket that nobody serves.

    gRPC removes any socket at the path before it makes its own, even one that another
    server is using. So each process of nriplugin locks a file beside the socket for as
    long as it serves; the kernel ends the lock with the process. The lock file is never
    removed: otherwise one process could hold the lock on a removed file while the next
    one locks a new file of the same name.

    Raises:
        AddressTaken: another process serves the socket.
        ConfigError: the path is not a socket, or its directory does not exist.
    """
    lock = _lock(option, path)
    try:
        _make_room(option, path)
        yield
    finally:
        os.close(lock)


def bind(server: grpc.Server, option: str, path: str, mode: int) -> None:
    """Make the socket of a server with these permissions.

    From then on clients can connect; they are answered once the server is started.

    Raises:
        ConfigError: no socket can be made at the path.
    """
    # gRPC makes the socket file itself. With the umask the file has its permissions
    # from the first moment; a chmod afterwards would come too late.
    before = os.umask(0o777 & ~mode)
    try:
        server.add_insecure_port(target_of(path))
    except RuntimeError as exc:
        raise ConfigError(
            f"{option}: {path}, expected a place where a socket can be made"
        ) from exc
    finally:
        os.umask(before)


def _lock(option: str, path: str) -> int:
    """Lock the file beside a socket; return the descriptor that holds the lock."""
    if not os.path.isdir(os.path.dirname(path)):
        raise ConfigError(f"{option}: {path}, expected a directory that is there")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(f"{path}.lock", flags, 0o600)
    except OSError as exc:
        raise ConfigError(f"{option}: {path}.lock: {exc.strerror}") from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(lock)
        if isinstance(exc, BlockingIOError):
            raise _taken(option, path) from exc
        raise ConfigError(f"{option}: {path}.lock: {exc.strerror}") from exc
    return lock


def _make_room(option: str, path: str) -> None:
    """Remove the socket that a dead process has left behind."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        if kind != stat.S_IFSOCK:
            raise ConfigError(f"{option}: {path}, expected a socket or nothing there")
        if _answers(path):
            raise _taken(option, path)
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise ConfigError(f"{option}: {path}: {exc.strerror}") from exc


def _taken(option: str, path: str) -> AddressTaken:
    return AddressTaken(
        f"{option}: {path}: another process serves it, expected one that is free"
    )


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A blocking connect would wait for a server whose queue is full.
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
