"""Reads files of the host, which may be mounted below some directory.

A symbolic link is followed as the host itself would follow it: `/var/run` may lead to
`/run`, and below a host root that must not become the `/run` of this container.
"""

from __future__ import annotations

import os

# As many links as the kernel follows.
_MAX_LINKS = 40

# No configuration is larger; the bound is for a file that pretends to be one.
_MAX_BYTES = 4 << 20


class HostFiles:
    """The files below a host root."""

    def __init__(self, root: str) -> None:
        """Take the directory at which the host's `/` is mounted."""
        self.root = root.rstrip("/")

    def path(self, path: str) -> str:
        """Return where a path of the host is for this process, with no link in it."""
        pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                done[-1:] = []
                continue
            here = "/".join((self.root, *done, part))
            try:
                target = os.readlink(here)
            except OSError:  # no link, or nothing there
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(f"{path}: more than {_MAX_LINKS} symbolic links")
            if target.startswith("/"):
                done = []
            pending += [one for one in reversed(target.split("/")) if one not in "."]
        return "/".join((self.root, *done)) or "/"

    def read(self, path: str) -> str:
        """Return the text of a file of the host; raises OSError."""
        with open(self.path(path), "rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")

    def read_or_none(self, path: str) -> str | None:
        """Return the text of a file, or None if there is no such file to read."""
        try:
            return self.read(path)
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether the host has a file or directory of that name."""
        return os.path.exists(self.path(path))

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; none if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []
