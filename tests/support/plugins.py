"""nriplugin as a process inside a node: started, watched, stopped."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from support.looking import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

LOG = "/var/log/nriplugin.log"

RUNTIME = "unix:///run/containerd/containerd.sock"
PROXY = "unix:///run/nriplugin-cri.sock"
CRICTL = "/etc/crictl.yaml"


class Door(NamedTuple):
    """A command by which nriplugin sees containers, and its log line when ready."""

    command: tuple[str, ...]
    ready: str


NRI = Door(("run",), "synchronized:")
CRI = Door(("cri-proxy", "--listen", PROXY, "--runtime", RUNTIME), "serving unix:")


def door_of(machine: Machine) -> Door:
    """Return NRI, or the CRI proxy for a runtime that has no NRI."""
    return NRI if machine.node.nri else CRI


class Plugin:
    """`nriplugin run`, or `cri-proxy`, as a process in the guest."""

    def __init__(self, machine: Machine, *options: str) -> None:
        self._machine = machine
        machine.write(LOG, "")
        command = door_of(machine).command
        self.pid = machine.spawn("nriplugin", *command, *options, log=LOG)

    def log(self) -> str:
        """Return everything that the process has logged."""
        return self._machine.read([LOG])[LOG] or ""

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until a text was logged so many times; return the whole log."""
        deadline = time.monotonic() + PATIENCE_S
        while (log := self.log()).count(text) < times:
            assert self._machine.poll(self.pid) is None, f"the plugin ended:\n{log}"
            assert time.monotonic() < deadline, f"{text!r} was not logged:\n{log}"
            time.sleep(0.2)
        return log

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the process to end, and return its exit code."""
        return self._machine.stop(self.pid, number)


@contextmanager
def running(machine: Machine, *options: str) -> Iterator[Plugin]:
    """Run nriplugin until the context ends; it is ready at the beginning.

    Where it is the CRI proxy, crictl calls the proxy meanwhile.
    """
    plugin = Plugin(machine, *options)
    crictl = machine.read([CRICTL])[CRICTL] or ""
    try:
        plugin.wait_for(door_of(machine).ready)
        if door_of(machine) is CRI:
            machine.write(CRICTL, crictl.replace(RUNTIME, PROXY))
        yield plugin
    finally:
        machine.write(CRICTL, crictl)
        if machine.poll(plugin.pid) is None:
            plugin.end()
