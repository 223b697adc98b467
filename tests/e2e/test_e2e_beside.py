"""nriplugin beside memory-qos, a plugin of the nri-plugins project, on a real node."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.looking import PATIENCE_S
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet, Pod

# Which OCI runtime writes the files does not matter here, and crun is the faster one.
HANDLER = "crun"
# NRI 0.8, which does not show plugins the files that a container has at an update, and
# NRI 0.12, which does.
pytestmark = [on_nodes("containerd-2", "containerd-2.4"), pytest.mark.timeout(1800)]

LOG = "/var/log/memory-qos.log"
THEIR_FILE = "/etc/memory-qos.yaml"
# memory-qos sets memory.high to half of the limit, so that the other half is swapped.
THEIR_CONFIG = """
classes:
- name: swap
  swaplimitratio: 0.5
unifiedannotations: [memory.oom.group]
"""
# memory-qos sets files only of the container `theirs`. nriplugin's memoryQoS derives
# nothing without the request.
ANNOTATIONS = {
    "memory-request.cgroup2.nri.io": "16Mi",
    "class.memory-qos.nri.io/theirs": "swap",
    "memory.oom.group.memory-qos.nri.io/theirs": "1",
}
OFF = {"memory-qos.cgroup2.nri.io/container.theirs": "off"}
THEIRS = {
    "memory.high": str(2**26),
    "memory.swap.max": "max",
    "memory.oom.group": "1",
}

OUR_FILE = "/etc/nriplugin-beside.yaml"
OUR_CONFIG = "memoryQoS: {enabled: true}"

CREATED = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 2**27,
}
UPDATE = {
    "cpu_share": 2048,
    "cpu_quota": 80_000,
    "cpu_period": 100_000,
    "memory": 2**28,
}
OURS = {"cpu.weight": "59", "cpu.max": "50000 100000", "memory.max": str(2**27)}
OURS_UPDATED = {
    "cpu.weight": "174",
    "cpu.max": "80000 100000",
    "memory.max": str(2**28),
}

# How docs/coexistence.md shows it, which depends on the version of NRI.
CONFLICT = (
    "failed to create containerd container: "
    "failed to get NRI adjustment for container: "
    'plugins "60-memory-qos" and "50-nriplugin" both tried to set {} memory.high'
)
FIELD = {"containerd-2": "unified resource", "containerd-2.4": "CgroupsUnified"}


@contextmanager
def beside(machine: Machine, *, theirs: str, ours: str) -> Iterator[None]:
    """Run memory-qos and nriplugin, both registered, with these indexes.

    The plugin with the lower index is asked first.
    """
    machine.write(OUR_FILE, OUR_CONFIG)
    machine.write(THEIR_FILE, THEIR_CONFIG)
    machine.write(LOG, "")
    pid = machine.spawn(
        *("/node/bin/memory-qos", "-name", "memory-qos", "-idx", theirs),
        *("-config", THEIR_FILE, "-v"),
        log=LOG,
    )
    try:
        wait_for_log(machine, pid, "Connected to containerd")
        # The runtime registers one plugin after the other, so then it has both.
        with running(machine, "--idx", ours, "--config", OUR_FILE):
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


def has_files_of_both(kubelet: Kubelet, pod: Pod) -> None:
    """Start the container `theirs`, resize it, and look at the kernel's files."""
    container = kubelet.start(pod, "theirs", CREATED)
    settings = kubelet.settings(container)
    assert {file: settings[file] for file in THEIRS} == THEIRS
    assert {file: settings[file] for file in OURS} == OURS

    updated = kubelet.update(container, **UPDATE)
    assert updated.code == 0, updated.stderr
    settings = kubelet.settings(container)
    assert {file: settings[file] for file in THEIRS} == THEIRS
    assert {file: settings[file] for file in OURS} == OURS_UPDATED


def test_an_earlier_plugins_files_are_left_to_it(
    node: Machine, kubelet: Kubelet
) -> None:
    """memory-qos sets memory.high first; nriplugin keeps its value, at a resize too.

    nriplugin sets the file of a container that memory-qos leaves alone.
    """
    with (
        beside(node, theirs="10", ours="99"),
        kubelet.sandbox("Burstable", HANDLER, ANNOTATIONS) as pod,
    ):
        has_files_of_both(kubelet, pod)
        ours = kubelet.settings(kubelet.start(pod, "ours", CREATED))
    # 16 MiB and nine tenths of the way from there to 128, in whole pages.
    assert ours["memory.high"] == str(122_470_400)


def test_a_later_plugin_that_sets_our_file_fails_the_container(
    node: Machine, kubelet: Kubelet
) -> None:
    """The error names both plugins and the file.

    The container runs with no plugin. One whose annotation turns nriplugin's handler
    off runs with both plugins and has the files of both.
    """
    with kubelet.sandbox("Burstable", HANDLER, ANNOTATIONS) as pod:
        with beside(node, theirs="60", ours="50"):
            failure = kubelet.try_start(pod, "theirs", CREATED)
            with kubelet.sandbox("Burstable", HANDLER, {**ANNOTATIONS, **OFF}) as other:
                has_files_of_both(kubelet, other)
        assert isinstance(failure, str), "the container was created"
        assert CONFLICT.format(FIELD[node.node.name]) in failure
        kubelet.start(pod, "theirs", CREATED)
