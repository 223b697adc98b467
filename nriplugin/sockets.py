"""Addresses of sockets as kubelet writes them, and the place of the one we serve.

An address is a URL, as kubelet reads it: `%41` in it is the letter A of the file's
name. Inside the package a socket is named by the path of its file, and gRPC, which
decodes what it is given once more, gets an address only from `target_of`.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

SCHEME = "unix://"

# What fits into a socket address, less the zero at its end.
MAX_BYTES = 107

# What a URL takes for something else than a part of its path, and a `%` that encodes
# nothing.
_NOT_A_PATH = re.compile(r"[?#]|%(?![0-9A-Fa-f]{2})")


def parse_address(option: str, text: str) -> str:
    """Return the path in an address such as unix:///run/containerd/containerd.sock.

    Raises:
        ConfigError: anything else.
    """
    encoded = text.removeprefix(SCHEME)
    if encoded == text or encoded[:1] != "/" or encoded[-1:] == "/":
        raise ConfigError(f"{option}: {text!r}, expected {SCHEME}/path/of/a.sock")
    if _NOT_A_PATH.search(encoded):
        expected = "%3F for ?, %23 for # and %25 for %"
        raise ConfigError(f"{option}: {text!r}, expected {expected}")
    path = unquote_to_bytes(os.fsencode(encoded))
    # A zero ends a path, and gRPC takes a comma for the end of an address.
    if b"\0" in path or b"," in path:
        raise ConfigError(f"{option}: {text!r}, expected no zero byte and no comma")
    if len(path) > MAX_BYTES:
        raise ConfigError(f"{option}: {text!r}, expected at most {MAX_BYTES} bytes")
    return os.fsdecode(path)


def target_of(path: str) -> str:
    """Return what gRPC calls the socket at a path."""
    return f"unix:{quote(os.fsencode(path))}"


def parse_mode(option: str, text: str) -> int:
    """Return permissions given in octal.

    Raises:
        ConfigError: anything else, or what would let nobody in.
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
    """Have the right to make a socket at a path; take away a dead one that is there.

    gRPC would take away a living one as well, and its server would never hear of it.
    So a process of ours holds a lock on a file beside the socket for as long as it
    serves, and the kernel ends the lock with the process. The file itself stays: if it
    were removed, a process that has just opened it could lock a file that the next one
    does not find.

    Raises:
        ConfigError: another process serves it, something else is there, or no
            directory.
    """
    lock = _lock(option, path)
    try:
        _make_room(option, path)
        yield
    finally:
        os.close(lock)


def bind(server: grpc.Server, option: str, path: str, mode: int) -> None:
    """Make the socket of a server with these permissions.

    Clients can connect from then on, and are answered once the server is started.

    Raises:
        ConfigError: no socket can be made there.
    """
    # gRPC makes the socket, and there must be no moment at which it is open to all.
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
    """Lock the file beside a socket; return its descriptor, which holds the lock."""
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
    """Take away the socket that a dead process has left."""
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


def _taken(option: str, path: str) -> ConfigError:
    return ConfigError(
        f"{option}: {path}: another process serves it, expected one that is free"
    )


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A server whose queue is full would have us wait.
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
