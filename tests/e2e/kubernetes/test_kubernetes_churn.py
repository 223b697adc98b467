"""Pods that come and go, while systemd, kubelet and containerd disturb.

systemd writes a unit's own values again at a `daemon-reload`; kubelet and containerd
are restarted while pods start. Every pod must have the values that `explain` says, and
keep them or have them repaired. A container that starts while the plugin has no
connection is adopted.

NRIPLUGIN_CHURN is the number of pods; hack/conformance has a hundred.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.bed import FreshNode, on_nodes
from support.cluster import keep_looking, wait_for
from support.explained import differing, explain
from support.plugins import running
from support.workloads import container, cpu_memory, pod, resources, spec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nodes.machine import Machine
    from support.cluster import Cluster

pytestmark = [
    on_nodes(long=(FreshNode("kubernetes-systemd"),)),
    pytest.mark.timeout(7200),
]

PODS = int(os.environ.get("NRIPLUGIN_CHURN", "6"))
AT_ONCE = 3
RELOADS = PODS // 2
RESIDENT = "resident"

CONFIG_FILE = "/etc/nriplugin-churn.yaml"
CONFIG = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true, percent: 50}
adopt: {enabled: true}
repair: {enabled: true, everySeconds: 10}
"""
GIVEN = resources(cpu_memory("20m", "64Mi"), cpu_memory("1", "128Mi"))


def as_expected(cluster: Cluster, config: Path, names: Sequence[str]) -> None:
    """Wait until the pods run and the kernel has what `explain` says of them."""
    pods = cluster.running(*names)
    expected = dict(
        zip(names, explain(cluster.machine, list(pods.values()), config), strict=True)
    )
    found = keep_looking(
        lambda: differing(
            dict(zip(names, cluster.all_levels(list(pods.values())), strict=True)),
            expected,
        ),
        lambda found: not found,
    )
    assert not found


def start(cluster: Cluster, names: Sequence[str]) -> None:
    given = spec(cluster.node, container("app", GIVEN))
    cluster.apply(*(pod(name, given) for name in names))


def test_every_pod_has_its_values(
    node: Machine, cluster: Cluster, tmp_path: Path
) -> None:
    """A third of the way kubelet is restarted, then containerd, while pods start.

    The reloads are spread over all batches, and are done while pods start, too.
    """
    config = tmp_path / "nriplugin.yaml"
    config.write_text(CONFIG)
    node.write(CONFIG_FILE, CONFIG)
    batches = [
        [f"pod-{number}" for number in range(first, min(first + AT_ONCE, PODS))]
        for first in range(0, PODS, AT_ONCE)
    ]
    disturbances = {
        len(batches) // 3: ("/node/bin/kubernetes", "restart"),
        len(batches) * 2 // 3: ("/node/bin/runtime", "restart"),
    }
    reloads = 0
    with running(node, "--config", CONFIG_FILE) as plugin:
        start(cluster, [RESIDENT])
        as_expected(cluster, config, [RESIDENT])
        for number, names in enumerate(batches, 1):
            start(cluster, names)
            if number - 1 in disturbances:
                node.check(*disturbances[number - 1])
            while reloads < RELOADS * number // len(batches):
                node.check("systemctl", "daemon-reload")
                reloads += 1
            as_expected(cluster, config, [RESIDENT, *names])
            cluster.delete(names)
        assert reloads == RELOADS
        as_expected(cluster, config, [RESIDENT])
        assert node.poll(plugin.pid) is None
        # kubelet gets all the others to end.
        wait_for(
            lambda: [each["metadata"]["name"] for each in cluster.get("pods")["items"]],
            lambda names: names == [RESIDENT],
        )
