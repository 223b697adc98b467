"""The ways in which a suite is run, and nriplugin in a guest."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine

WITHOUT = "without nriplugin"
WITH = "with nriplugin"
# kubelet's MemoryQoS is off, and nriplugin's memoryQoS does the same.
INSTEAD = "with nriplugin's memoryQoS in place of kubelet's"

CONFIG = "/etc/nriplugin/config.yaml"
OF_INSTEAD = """\
memoryQoS:
  enabled: true
  throttlingFactor: 0.9
"""


@contextmanager
def plugin_of(way: str, machine: Machine) -> Iterator[None]:
    """Run nriplugin in the guest, as the way wants it; it must live until the end."""
    if way == WITHOUT:
        yield
        return
    options: tuple[str, ...] = ()
    if way == INSTEAD:
        machine.check("mkdir", "-p", "/etc/nriplugin")
        machine.write(CONFIG, OF_INSTEAD)
        options = ("--config", CONFIG)
    with running(machine, *options) as plugin:
        yield
        code = machine.poll(plugin.pid)
        if code is not None:
            raise AssertionError(f"nriplugin ended with {code}:\n{plugin.log()}")
