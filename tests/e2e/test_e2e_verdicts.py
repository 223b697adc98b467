"""Verdicts on a real kernel: three containers, each held back by another thing.

`nriplugin top` and `nriplugin why` have to say the same about each of them.
"""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

pytestmark = [on_nodes("containerd-2.4", "systemd"), pytest.mark.timeout(1800)]

MIB = 1 << 20
NO_QUOTA = {"cpu_shares": 512}
SMALL_QUOTA = {"cpu_shares": 512, "cpu_quota": 20_000, "cpu_period": 100_000}

LOOP = "echo $$ > {cgroup}/cgroup.procs; while :; do :; done"
# dd takes all of a block into memory: more than memory.high.
ALLOCATE = (
    "echo $$ > {cgroup}/cgroup.procs; "
    "exec dd if=/dev/zero of=/dev/null bs={size} count=1000"
)


class Said(NamedTuple):
    """The verdicts about a container, with their numbers."""

    top: dict[str, str]
    why: dict[str, str]


class Node:
    """The containers of one pod."""

    def __init__(self, node: Machine) -> None:
        self._node = node
        self.cpus = int(node.check("nproc"))

    @contextmanager
    def processes(self, script: str, *containers: Container) -> Iterator[None]:
        """Run a script in the cgroup of each container."""
        pids = [
            self._node.spawn(
                *("sh", "-c", script.format(cgroup=one.cgroups[0], size=80 * MIB)),
                log="/var/log/verdicts.log",
            )
            for one in containers
        ]
        yield
        for pid in pids:
            self._node.stop(pid, signal.SIGKILL)

    def said_about(self, *containers: Container) -> list[Said]:
        """Return what both commands say."""
        pods = json.loads(
            self._node.check("nriplugin", "top", "-o", "json", "--interval", "3s")
        )
        by_id = {
            one["nriplugin"]["id"]: one["nriplugin"]
            for pod in pods["items"]
            for one in pod["containers"]
        }
        return [
            Said(
                _verdicts(by_id[one.id]["verdicts"]),
                _verdicts(self._why(one)["verdicts"]),
            )
            for one in containers
        ]

    def _why(self, container: Container) -> dict[str, list[dict[str, str]]]:
        text = self._node.check("nriplugin", "why", "-o", "json", container.id)
        (found,) = json.loads(text)["containers"]
        assert isinstance(found, dict)
        return found


def is_at_memory_high(said: dict[str, str]) -> bool:
    """Return whether this is the main one of a command's verdicts."""
    return next(iter(said), "") == "memory.high"


def _verdicts(found: list[dict[str, str]]) -> dict[str, str]:
    return {one["verdict"]: one["because"] for one in found}


def test_three_containers_that_are_held_back(node: Machine, kubelet: Kubelet) -> None:
    """By the own quota, by a neighbour, and at memory.high; the main verdict first.

    On a busy machine the processes may get no CPU for longer than a look takes.
    """

    def settled(*verdicts: str, of: Sequence[Container]) -> list[Said]:
        """Return what is said as soon as these are the verdicts, or as it stays."""
        wanted = [([one], [one]) for one in verdicts]
        return keep_looking(
            lambda: guest.said_about(*of),
            lambda all_said: (
                [(list(said.top), list(said.why)) for said in all_said] == wanted
            ),
        )

    with running(node), kubelet.sandbox("Burstable") as pod:
        limited = kubelet.start(pod, "limited", SMALL_QUOTA)
        first = kubelet.start(pod, "first", NO_QUOTA)
        second = kubelet.start(pod, "second", NO_QUOTA)
        guest = Node(node)
        with guest.processes(LOOP, limited):
            throttled, idle = settled("throttled", "idle", of=(limited, first))
        loops = [one for one in (first, second) for _ in range(guest.cpus)]
        with guest.processes(LOOP, *loops):
            contended = settled("contended", "contended", of=(first, second))
        node.write(f"{first.cgroups[0]}/memory.high", str(32 * MIB))
        with guest.processes(ALLOCATE, first):
            (held,) = keep_looking(
                lambda: guest.said_about(first),
                lambda all_said: all(map(is_at_memory_high, all_said[0])),
            )
    for said in (throttled.top, throttled.why):
        assert list(said) == ["throttled"], throttled
    for said in (idle.top, idle.why):
        assert list(said) == ["idle"], idle
    for one in contended:
        for said in (one.top, one.why):
            assert list(said) == ["contended"], contended
    assert all(map(is_at_memory_high, held)), held
