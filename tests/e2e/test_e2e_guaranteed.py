"""A Guaranteed container's page cache can be reclaimed, although it is protected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet

# Reclaim is the kernel's, so one OCI runtime on each of two kernels shows it.
pytestmark = [
    pytest.mark.parametrize(
        ("node", "handler"),
        [("containerd-2", "crun"), ("crio", "runc")],
        indirect=["node"],
    ),
    pytest.mark.timeout(1800),
]

MIB = 1 << 20
LIMIT = 64 * MIB
# By hand: 0.9 of the limit, in whole pages.
PROTECTED = "60395520"
CONFIG = "memoryQoS: {enabled: true, raiseAncestors: true}"

# Half of the limit is the program's own memory (dd's block), the rest is page cache of
# a disk that is larger than the limit. The disk is opened first: a container may not.
READ = """
exec 3</dev/vda
echo $$ >"$1/cgroup.procs"
exec dd bs=32M count=7 of=/dev/null <&3
"""


@pytest.fixture(scope="module")
def plugin(node: Machine) -> Iterator[None]:
    node.write("/tmp/guaranteed.yaml", CONFIG)
    with running(node, "--config", "/tmp/guaranteed.yaml"):
        yield


def test_a_guaranteed_container_reads_more_than_its_limit(
    node: Machine, plugin: None, kubelet: Kubelet, handler: str
) -> None:
    """The kernel reclaims page cache when the pod is at its limit, and kills nothing.

    memory.min protects less than the limit, so some of the page cache can be reclaimed.
    """
    with kubelet.sandbox("Guaranteed", handler) as pod:
        app = kubelet.start(pod, "app", {"memory_limit_in_bytes": LIMIT})
        (own,) = app.cgroups
        parent = own.rpartition("/")[0]
        node.write(f"{parent}/memory.max", str(LIMIT))  # as kubelet does
        held = node.read([f"{own}/memory.min", f"{parent}/memory.min"])
        assert [value and value.strip() for value in held.values()] == [PROTECTED] * 2
        read = node.run("sh", "-c", READ, "sh", own, timeout_s=1200)
        events = node.check("cat", f"{parent}/memory.events")
        assert read.code == 0, (read, events)
        counts = dict(line.split() for line in events.splitlines())
        assert counts["oom_kill"] == "0"
        assert int(counts["max"]) > 0  # it did reach the limit
