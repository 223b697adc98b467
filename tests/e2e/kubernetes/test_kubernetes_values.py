"""Workloads through a real API server, scheduler and kubelet, to the kernel's files.

All workloads run twice: without the plugin, and with it. What kubelet writes above the
containers must be the same; what the containers have must be what `explain` says of the
pods as the API server shows them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import FreshNode, on_nodes
from support.cluster import TOP, container_ids, keep_looking
from support.explained import explain
from support.plugins import running
from support.workloads import (
    container,
    cpu_memory,
    deployment,
    job,
    pod,
    resources,
    runtime_class,
    sidecar,
    spec,
    stateful_set,
)

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.cluster import Cluster, Levels

pytestmark = pytest.mark.timeout(3600)
SYSTEMD, CGROUPFS = FreshNode("kubernetes-systemd"), FreshNode("kubernetes")
each_node = on_nodes(SYSTEMD, long=(CGROUPFS, FreshNode("kubernetes-crio")))

OVERHEAD = cpu_memory("50m", "32Mi")
# An init container tells its log what its cgroup has, which is gone when others run.
SHOW = """
cd /sys/fs/cgroup
for file in cpu.weight cpu.max memory.max; do echo $file: $(cat $file); done
"""


def workloads(node: str, prefix: str) -> list[dict[str, Any]]:
    """Return one workload of each kind: of every QoS class, with everything in pods.

    The node has one CPU for two sets of them. Limits are high where they can be,
    because a container's quota holds for runc, too, while it starts the container.
    """
    small = resources(cpu_memory("20m", "32Mi"), cpu_memory("1", "64Mi"))
    burstable = resources(cpu_memory("60m", "64Mi"), cpu_memory("1", "128Mi"))
    guaranteed = resources(limits=cpu_memory("200m", "96Mi"))
    together = resources(cpu_memory("60m", "96Mi"), cpu_memory("1500m", "192Mi"))
    web = spec(
        node,
        container("app", burstable),
        init=[
            container("prepare", small, command=["sh", "-c", SHOW]),
            sidecar("proxy", small),
        ],
    )
    parts = spec(
        node,
        container("one"),
        container("two", resources({"cpu": "20m"})),
        resources=together,
    )
    heavy = spec(
        node,
        container("app", resources({"cpu": "50m"}, cpu_memory("1", "96Mi"))),
        runtimeClassName="heavy",
    )
    return [
        runtime_class("heavy", "crun", OVERHEAD),
        deployment(f"{prefix}-web", web),
        stateful_set(f"{prefix}-db", spec(node, container("app", guaranteed))),
        job(f"{prefix}-batch", spec(node, container("app"))),
        pod(f"{prefix}-together", parts),
        pod(f"{prefix}-heavy", heavy),
    ]


class Expected(NamedTuple):
    """What kubelet writes for a pod, worked out by hand.

    kubelet's curve is the one of the KEP: 1 + (shares - 2) * 9999 / 262142.
    """

    qos_class: str
    weight: str
    max: str
    memory: str


PODS = {
    # 60 and 20 milli-CPUs; the init container has ended before.
    "web": Expected("Burstable", "4", "200000 100000", str(192 << 20)),
    "db": Expected("Guaranteed", "8", "20000 100000", str(96 << 20)),
    "batch": Expected("BestEffort", "1", "max 100000", "max"),
    "together": Expected("Burstable", "3", "150000 100000", str(192 << 20)),
    # 50 and the overhead of 50; the overhead is added to limits, too.
    "heavy": Expected("Burstable", "4", "105000 100000", str(128 << 20)),
}
# Above the pods: the whole CPU, and twice the 240 milli-CPUs of Burstable pods.
ABOVE = {"kubepods": "39", "Burstable": "19", "BestEffort": "1"}


class Seen(NamedTuple):
    """The pods as the API server shows them, their cgroups, and an init container's."""

    pods: dict[str, Any]
    levels: dict[str, Levels]
    prepare: dict[str, str]


@pytest.fixture(scope="module")
def seen(node: Machine, cluster: Cluster) -> dict[bool, Seen]:
    """All workloads, without the plugin (False), and once more with it (True).

    The first ones stay, because a pod's end takes a node longer than its start.
    """
    without = run_all(cluster, "without")
    with running(node):
        return {False: without, True: run_all(cluster, "with")}


def run_all(cluster: Cluster, prefix: str) -> Seen:
    names = [f"{prefix}-{name}" for name in PODS]
    cluster.apply(*workloads(cluster.node, prefix))
    found = cluster.running(*names)
    levels = cluster.all_levels([found[name] for name in names])
    pods = {name: found[f"{prefix}-{name}"] for name in PODS}
    log = cluster.kubectl("logs", pods["web"]["metadata"]["name"], "-c", "prepare")
    prepare = dict(line.split(": ") for line in log.splitlines())
    return Seen(pods, dict(zip(PODS, levels, strict=True)), prepare)


@each_node
@pytest.mark.parametrize("name", PODS)
def test_containers_have_what_explain_says(
    node: Machine, seen: dict[bool, Seen], name: str
) -> None:
    """Of the pod as the API server shows it, sidecars included."""
    (explained,) = explain(node, [seen[True].pods[name]])
    for container_name, held in seen[True].levels[name].containers.items():
        files = explained[container_name]
        assert files
        assert {file: held.get(file) for file in files} == files, container_name


@each_node
def test_an_init_container_has_what_explain_says(
    node: Machine, seen: dict[bool, Seen]
) -> None:
    """And what it has without the plugin."""
    (explained,) = explain(node, [seen[True].pods["web"]])
    assert seen[True].prepare == explained["prepare"]
    assert seen[True].prepare == seen[False].prepare


@each_node
@pytest.mark.parametrize("name", PODS)
def test_containers_have_what_they_have_without_the_plugin(
    seen: dict[bool, Seen], name: str
) -> None:
    """By default, the plugin sets what the runtime would set by itself."""
    without, with_plugin = (seen[which].levels[name] for which in (False, True))
    assert with_plugin.containers == without.containers


@each_node
@pytest.mark.parametrize("name", PODS)
def test_pods_have_what_they_have_without_the_plugin(
    seen: dict[bool, Seen], name: str
) -> None:
    """A pod's cgroup is kubelet's own."""
    without, with_plugin = (seen[which].levels[name] for which in (False, True))
    assert with_plugin.pod == without.pod


@each_node
def test_what_is_above_the_pods_is_left_to_kubelet(
    cluster: Cluster, seen: dict[bool, Seen]
) -> None:
    """kubelet renews the weights of the QoS classes from time to time."""
    pods = [seen[True].pods[name] for name in ("web", "batch")]

    def weights() -> dict[str, str]:
        burstable, best_effort = cluster.all_levels(pods)
        return {
            "kubepods": burstable.kubepods["cpu.weight"],
            "Burstable": burstable.qos["cpu.weight"],
            "BestEffort": best_effort.qos["cpu.weight"],
        }

    assert keep_looking(weights, lambda found: found == ABOVE) == ABOVE


@each_node
@pytest.mark.parametrize("name", PODS)
def test_pods_have_what_kubernetes_promises(seen: dict[bool, Seen], name: str) -> None:
    """Sums, sidecars, the pod's own resources and overhead."""
    expected, pod_now = PODS[name], seen[True].pods[name]
    held = seen[True].levels[name].pod
    assert pod_now["status"]["qosClass"] == expected.qos_class
    assert (held["cpu.weight"], held["cpu.max"]) == (expected.weight, expected.max)
    assert held["memory.max"] == expected.memory


@each_node
def test_every_container_was_looked_at(seen: dict[bool, Seen]) -> None:
    """The sidecar among them; the init container has ended."""
    found = {name: set(each.containers) for name, each in seen[True].levels.items()}
    app = {"app"}
    assert found == {
        "web": {"app", "proxy"},
        "db": app,
        "batch": app,
        "together": {"one", "two"},
        "heavy": app,
    }


def differences(node: Machine) -> list[dict[str, Any]]:
    """Return what `nriplugin capacity --check` names, run in the guest."""
    done = node.run("nriplugin", "capacity", "--check", "-o", "json")
    assert done.code in (0, 1), done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["differences"]
    assert bool(found) == bool(done.code)
    return found


# CRI-O does not tell the overhead of a pod.
@on_nodes(SYSTEMD, long=(CGROUPFS,))
def test_capacity_expects_what_kubelet_has_written(
    node: Machine, seen: dict[bool, Seen]
) -> None:
    """On all four levels; then one value is changed, and only that one is named."""
    found = keep_looking(lambda: differences(node), lambda found: not found)
    assert found == []
    app = container_ids(seen[True].pods["web"])["app"]
    (path,) = node.check("find", TOP, "-path", f"*{app}*/cpu.max").split()
    before = (node.read([path])[path] or "").strip()
    node.write(path, "77000 100000")
    try:
        (difference,) = differences(node)
    finally:
        node.write(path, before)
    assert f"{TOP}{difference['cgroup']}/cpu.max" == path
    assert (difference["held"], difference["wanted"]) == ("77000 100000", before)
