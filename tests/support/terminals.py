"""Commands on a terminal: a pseudo-terminal of a chosen size."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CommandOnTerminal:
    """A running command, and what it has written to the terminal so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode().replace("\r\n", "\n")

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 65536)
            except OSError as exc:
                if exc.errno == errno.EIO:  # the command has closed the terminal
                    return
                raise
            if not part:
                return
            self._parts.append(part)


@contextmanager
def on_terminal(
    *arguments: str, columns: int = 80, rows: int = 60, **environ: str
) -> Iterator[CommandOnTerminal]:
    """Run a command of nriplugin on a terminal of this size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {**ENVIRON, "TERM": "xterm", **environ}
    for name in ("COLUMNS", "LINES", *(() if "NO_COLOR" in environ else ("NO_COLOR",))):
        env.pop(name, None)
    command = [sys.executable, "-m", "nriplugin", *arguments]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env
    ) as p:
        os.close(slave)
        running = CommandOnTerminal(p, master)
        try:
            yield running
        finally:
            p.kill()
            p.wait(PATIENCE_S)
            running.wait()
            os.close(master)
