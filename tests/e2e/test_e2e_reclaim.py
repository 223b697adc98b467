"""Proactive reclaim on nodes: a container loses page cache and is not held back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from e2e.test_e2e_memory_policies import Group, until
from support.bed import on_nodes
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = pytest.mark.timeout(1800)
MIB = 1 << 20
HIGH = 160 * MIB
CONFIG_FILE = "/tmp/reclaim.yaml"
CONFIG = """
policies: {intervalSeconds: 2}
unifiedAnnotations: {enabled: true, allowed: [memory.high]}
proactiveReclaim:
  enabled: %s
  percent: 20
  keepBytes: 4194304
  refaultsPerSecond: 10000
  cpuPercent: 100
  restSeconds: 2
"""
LIMIT = {"memory_limit_in_bytes": 192 * MIB}
ANNOTATIONS = {
    "memory.high.cgroup2.nri.io/container.cached": str(HIGH),
    "proactive-reclaim.cgroup2.nri.io/container.left": "off",
}


@on_nodes("containerd-2.4", "systemd")
def test_reclaim_takes_cache_and_no_container_is_held_back(
    node: Machine, kubelet: Kubelet
) -> None:
    """Of two that have read files, one loses its page cache.

    The policy is switched on afterwards, because a slow node reads less than it takes.
    """
    node.write(CONFIG_FILE, CONFIG % "false")
    with (
        running(node, "--config", CONFIG_FILE),
        kubelet.sandbox("Burstable", "runc", ANNOTATIONS) as pod,
    ):
        containers = [kubelet.start(pod, name, LIMIT) for name in ("left", "cached")]
        left, cached = (Group(node, container) for container in containers)
        node.write("/proc/sys/vm/drop_caches", "3")
        read = []
        for turn, group in enumerate((left, cached)):
            # Each reads every second file, so that both have enough on every node.
            files = "find /usr/lib /usr/bin -xdev -type f -size +200k | sort"
            own = f'{files} | awk "NR % 2 == {turn}" | head -c 20000'
            cat = f"{own} | xargs cat | head -c 60000000 > /dev/null"
            pid = group.spawn(f"sh -c '{cat}'")
            assert until(lambda pid=pid: node.poll(pid) is not None)  # type: ignore[misc]
            read.append(group.used)
        assert min(read) > 16 * MIB
        node.write(CONFIG_FILE, CONFIG % "true")
        assert until(lambda: cached.used < 12 * MIB)
        assert left.used > read[0] * 3 // 4
        assert cached.high_events == 0
