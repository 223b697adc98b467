"""The files of the control API: its socket, and a directory for sockets behind it."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

from nriplugin.errors import ConfigError

_BACKLOG = 128
_PRIVATE = ".private"


def make_directory_of(path: str) -> None:
    """Make the directory of a socket if it is missing; everyone may enter it.

    Raises:
        OSError: it cannot be made.
    """
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory)
        # Whatever the umask is: the socket itself is protected.
        os.chmod(directory, 0o755)  # noqa: S103


class ListeningSocket:
    """A socket that listens, and its file."""

    def __init__(self, option: str, path: str, group: int | None) -> None:
        """Make the socket with mode 0600; with 0660 and a group, if there is one.

        Raises:
            OSError: it cannot be made.
            ConfigError: this process may not give a file to the group.
        """
        self._path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.bind(path)
            # Nobody can connect before `listen`, so the permissions come in time.
            if group is None:
                os.chmod(path, 0o600)
            else:
                _give(option, path, group)
                os.chmod(path, 0o660)
            found = os.lstat(path)
            self._identity = found.st_dev, found.st_ino
            self.socket.listen(_BACKLOG)
        except BaseException:
            self.socket.close()
            raise

    def is_there(self) -> bool:
        """Whether the file is still the one that was made."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        identity = found.st_dev, found.st_ino
        return stat.S_ISSOCK(found.st_mode) and identity == self._identity

    def close(self) -> None:
        """Close the socket and remove its file, unless another has its place."""
        if self.is_there():
            with suppress(OSError):
                os.unlink(self._path)
        self.socket.close()


class PrivateDirectory:
    """A directory beside the socket that nobody else can enter.

    It is used through its descriptor, so the length of its path does not matter.
    """

    def __init__(self, option: str, path: str) -> None:
        """Make the directory of the socket at a path, or take the one left over.

        Raises:
            OSError: it cannot be made.
            ConfigError: it belongs to another user.
        """
        self._path = f"{path}{_PRIVATE}"
        with suppress(FileExistsError):
            os.mkdir(self._path, 0o700)
        flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags)
        try:
            owner = os.fstat(self._descriptor).st_uid
            if owner != os.geteuid():
                raise ConfigError(
                    f"{option}: {self._path}: owned by user {owner}, expected the "
                    "user of this process"
                )
            os.fchmod(self._descriptor, 0o700)
        except BaseException:
            os.close(self._descriptor)
            raise

    def path_of(self, name: str) -> str:
        """Return a path by which this process reaches a file in the directory."""
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def close(self) -> None:
        """Remove the directory if it is empty."""
        os.close(self._descriptor)
        with suppress(OSError):
            os.rmdir(self._path)


def _give(option: str, path: str, group: int) -> None:
    try:
        os.chown(path, -1, group)
    except PermissionError as exc:
        raise ConfigError(
            f"{option}-group: {group}, expected a group that this process belongs to, "
            "or the capability CAP_CHOWN"
        ) from exc
