"""nriplugin beside memory-qos, a plugin of the nri-plugins project, on a real node."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.bed import on_nodes
from support.plugins import PATIENCE_S, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet

# Which OCI runtime writes the files does not matter here, and crun is the faster one.
HANDLER = "crun"
pytestmark = [on_nodes("containerd-2"), pytest.mark.timeout(600)]

LOG = "/var/log/memory-qos.log"
THEIR_FILE = "/etc/memory-qos.yaml"
# memory-qos sets memory.high to half of the limit, so that the other half is swapped.
THEIR_CONFIG = """
classes:
- name: swap
  swaplimitratio: 0.5
unifiedannotations: [memory.oom.group]
"""
# The request, without which nriplugin's memoryQoS derives nothing here.
OUR_ANNOTATIONS = {"memory-request.cgroup2.nri.io": "16Mi"}
ANNOTATIONS = {
    **OUR_ANNOTATIONS,
    "class.memory-qos.nri.io": "swap",
    "memory.oom.group.memory-qos.nri.io": "1",
}
THEIRS = {
    "memory.high": str(2**25),
    "memory.swap.max": "max",
    "memory.oom.group": "1",
}

OUR_FILE = "/etc/nriplugin-beside.yaml"
OUR_CONFIG = "memoryQoS: {enabled: true}"

CREATED = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 2**26,
}
UPDATE = {
    "cpu_share": 2048,
    "cpu_quota": 80_000,
    "cpu_period": 100_000,
    "memory": 2**27,
}
OURS = {"cpu.weight": "59", "cpu.max": "50000 100000", "memory.max": str(2**26)}
OURS_UPDATED = {
    "cpu.weight": "174",
    "cpu.max": "80000 100000",
    "memory.max": str(2**27),
}


class Order(NamedTuple):
    """The index of either plugin; the one with the lower index is asked first."""

    theirs: str
    ours: str


# As docs/coexistence.md shows it.
CONFLICT = (
    "failed to create containerd container: "
    "failed to get NRI adjustment for container: "
    'plugins "60-memory-qos" and "50-nriplugin" both tried to set '
    "unified resource memory.high"
)

THEIRS_FIRST = Order("10", "99")
OURS_FIRST = Order("60", "50")


@contextmanager
def beside(machine: Machine, order: Order, *options: str) -> Iterator[None]:
    """Run memory-qos and nriplugin, both registered."""
    machine.write(THEIR_FILE, THEIR_CONFIG)
    machine.write(LOG, "")
    pid = machine.spawn(
        *("/node/bin/memory-qos", "-name", "memory-qos", "-idx", order.theirs),
        *("-config", THEIR_FILE, "-v"),
        log=LOG,
    )
    try:
        wait_for_log(machine, pid, "Connected to containerd")
        # The runtime registers one plugin after the other, so then it has both.
        with running(machine, "--idx", order.ours, *options):
            yield
    finally:
        if machine.poll(pid) is None:
            machine.stop(pid)


def wait_for_log(machine: Machine, pid: int, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in (log := machine.read([LOG])[LOG] or ""):
        assert machine.poll(pid) is None, f"memory-qos ended:\n{log}"
        assert time.monotonic() < deadline, f"{text!r} was not logged:\n{log}"
        time.sleep(0.2)


@pytest.mark.parametrize("order", [THEIRS_FIRST, OURS_FIRST])
def test_the_kernel_has_the_files_of_both(
    node: Machine, kubelet: Kubelet, order: Order
) -> None:
    """Each plugin sets files of its own; a resize keeps memory-qos's files."""
    with (
        beside(node, order),
        kubelet.sandbox("Burstable", HANDLER, ANNOTATIONS) as pod,
    ):
        container = kubelet.start(pod, "app", CREATED)
        settings = kubelet.settings(container)
        assert {file: settings[file] for file in THEIRS} == THEIRS
        assert {file: settings[file] for file in OURS} == OURS

        updated = kubelet.update(container, **UPDATE)
        assert updated.code == 0, updated.stderr
        settings = kubelet.settings(container)
        assert {file: settings[file] for file in THEIRS} == THEIRS
        assert {file: settings[file] for file in OURS} == OURS_UPDATED


def test_a_file_that_an_earlier_plugin_set_is_left_to_it(
    node: Machine, kubelet: Kubelet
) -> None:
    """memory-qos is asked first and sets memory.high; nriplugin keeps its value."""
    node.write(OUR_FILE, OUR_CONFIG)
    with beside(node, THEIRS_FIRST, "--config", OUR_FILE):
        with kubelet.sandbox("Burstable", HANDLER, ANNOTATIONS) as pod:
            settings = kubelet.settings(kubelet.start(pod, "app", CREATED))
        with kubelet.sandbox("Burstable", HANDLER, OUR_ANNOTATIONS) as pod:
            alone = kubelet.settings(kubelet.start(pod, "app", CREATED))
    assert {file: settings[file] for file in THEIRS} == THEIRS
    assert {file: settings[file] for file in OURS} == OURS
    # 16 MiB and nine tenths of the way from there to 64, in whole pages.
    assert alone["memory.high"] == str(62_074_880)


def test_a_plugin_that_comes_after_us_and_sets_our_file_fails_the_container(
    node: Machine, kubelet: Kubelet
) -> None:
    """The error names both plugins and the file; with no plugin the container runs."""
    node.write(OUR_FILE, OUR_CONFIG)
    with kubelet.sandbox("Burstable", HANDLER, ANNOTATIONS) as pod:
        with beside(node, OURS_FIRST, "--config", OUR_FILE):
            failure = kubelet.try_start(pod, "app", CREATED)
        assert isinstance(failure, str), "the container was created"
        assert CONFLICT in failure
        kubelet.start(pod, "app", CREATED)
