"""Addresses of sockets as kubelet writes them, and the place of the one we serve."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    import grpc

SCHEME = "unix://"

# What fits into a socket address, less the zero at its end.
MAX_BYTES = 107


def parse_address(option: str, text: str) -> str:
    """Return the path in an address such as unix:///run/containerd/containerd.sock.

    Raises:
        ConfigError: anything else.
    """
    path = text.removeprefix(SCHEME)
    if path == text or not path.startswith("/") or path.endswith("/"):
        raise ConfigError(f"{option}: {text!r}, expected {SCHEME}/path/of/a.sock")
    if len(os.fsencode(path)) > MAX_BYTES:
        raise ConfigError(f"{option}: {text!r}, expected at most {MAX_BYTES} bytes")
    return path


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


def claim(option: str, path: str) -> None:
    """Make sure that a socket can be made at a path; take away one that is dead.

    gRPC would take away a living one as well, and its server would never hear of it.

    Raises:
        ConfigError: somebody serves it, or something else is there, or no directory.
    """
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            raise ConfigError(
                f"{option}: {path}, expected a directory that is there"
            ) from None
        return
    except OSError as exc:
        raise ConfigError(f"{option}: {path}: {exc.strerror}") from exc
    if kind != stat.S_IFSOCK:
        raise ConfigError(f"{option}: {path}, expected a socket or nothing there")
    if _answers(path):
        raise ConfigError(f"{option}: {path}, expected one that nobody serves already")
    os.unlink(path)


def bind(server: grpc.Server, option: str, path: str, mode: int) -> None:
    """Have a server use a socket with these permissions, once it is started.

    Raises:
        ConfigError: no socket can be made there.
    """
    # gRPC makes the socket, and there must be no moment at which it is open to all.
    before = os.umask(0o777 & ~mode)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as exc:
        raise ConfigError(
            f"{option}: {path}, expected a place where a socket can be made"
        ) from exc
    finally:
        os.umask(before)


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
