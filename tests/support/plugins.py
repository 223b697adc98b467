"""Our plugin inside a node: started, watched, stopped."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

LOG = "/var/log/nriplugin.log"
PATIENCE_S = 60


class Plugin:
    """`nriplugin run` as a process in the guest."""

    def __init__(self, machine: Machine, *options: str) -> None:
        self._machine = machine
        machine.write(LOG, "")
        self.pid = machine.spawn("nriplugin", "run", *options, log=LOG)

    def log(self) -> str:
        """Return everything that it has logged."""
        return self._machine.read([LOG])[LOG] or ""

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until it has logged something so many times; return the whole log."""
        deadline = time.monotonic() + PATIENCE_S
        while (log := self.log()).count(text) < times:
            assert self._machine.poll(self.pid) is None, f"the plugin ended:\n{log}"
            assert time.monotonic() < deadline, f"{text!r} was not logged:\n{log}"
            time.sleep(0.2)
        return log

    def end(self, number: int = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        return self._machine.stop(self.pid, number)


@contextmanager
def running(machine: Machine, *options: str) -> Iterator[Plugin]:
    """Run the plugin for a while, registered and synchronized."""
    plugin = Plugin(machine, *options)
    try:
        plugin.wait_for("synchronized:")
        yield plugin
    finally:
        if machine.poll(plugin.pid) is None:
            plugin.end()
