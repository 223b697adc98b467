"""`nriplugin capacity` beside a real kubelet: it expects what kubelet has written.

The command is run in the guest without options, so its pods are those of kubelet's
checkpoint and of the runtime. It is compared with the API server, and with the cgroups
as the test bed finds them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import FreshNode, on_nodes
from support.cluster import TOP, keep_looking, wait_for
from support.plugins import running
from support.workloads import (
    container,
    cpu_memory,
    job,
    pod,
    resources,
    runtime_class,
    sidecar,
    spec,
)

from nriplugin.kube.quantity import parse

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.cluster import Cluster, Files, Levels

pytestmark = [
    on_nodes(long=(FreshNode("kubernetes"), FreshNode("kubernetes-systemd"))),
    pytest.mark.timeout(3600),
]

DROP_IN = "/etc/kubernetes/kubelet.conf.d/50-capacity.conf"
KIND = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
# With each driver: an empty cgroup that kubelet is told to limit.
RESERVED = {"cgroupfs": "/reserved", "systemd": "/reserved.slice"}
RESERVATIONS = """
systemReserved: {{cpu: 100m, memory: 128Mi, pid: "1000"}}
kubeReserved: {{cpu: 50m, memory: 64Mi}}
evictionHard: {{memory.available: 5%}}
systemReservedCgroup: {reserved}
enforceNodeAllocatable: [pods, system-reserved]
"""
TIERED = "memoryReservationPolicy: TieredReservation\nmemoryThrottlingFactor: 0.8\n"
PLUGIN_CONFIG = "/etc/nriplugin-capacity.yaml"
MIB = 1 << 20

SMALL = resources(cpu_memory("20m", "16Mi"), cpu_memory("1", "64Mi"))
BURSTABLE = resources(cpu_memory("60m", "64Mi"), cpu_memory("1", "128Mi"))
GUARANTEED = resources(limits=cpu_memory("100m", "96Mi"))
# An init container that asks for more than the others do together.
INIT = resources({"cpu": "120m"}, {"cpu": "1"})
TOGETHER = resources(cpu_memory("40m", "48Mi"), cpu_memory("1500m", "192Mi"))


def workloads(node: str) -> list[dict[str, Any]]:
    """Return pods of all classes, with everything that a pod can have."""
    web = spec(
        node,
        container("app", BURSTABLE),
        init=[
            sidecar("proxy", SMALL),
            container("prepare", INIT, command=["true"]),
        ],
    )
    mixed = spec(
        node,
        container("app", resources(limits=cpu_memory("100m", "64Mi"))),
        init=[container("fetch", command=["true"])],
    )
    return [
        runtime_class("heavy", "crun", cpu_memory("50m", "32Mi")),
        pod("web", web),
        pod("db", spec(node, container("app", GUARANTEED))),
        pod("batch", spec(node, container("app"))),
        # Only its init container makes it Burstable.
        pod("mixed", mixed),
        pod("together", spec(node, container("app"), resources=TOGETHER)),
        # Without limits.
        pod(
            "heavy",
            spec(
                node,
                container("app", resources({"cpu": "30m"})),
                runtimeClassName="heavy",
            ),
        ),
        job("done", spec(node, container("app", SMALL, command=["true"]))),
    ]


NAMES = ("web", "db", "batch", "mixed", "together", "heavy")


class Seen(NamedTuple):
    """What the command says, and what is there."""

    silent: str  # of --check
    report: Any
    levels: dict[str, Levels]


def capacity(node: Machine, *options: str, code: int = 0) -> str:
    """Run the command in the guest; it must end with this exit code."""
    done = node.run("nriplugin", "capacity", *options)
    assert done.code == code, f"{done.stdout}{done.stderr}"
    assert not done.stderr
    return done.stdout


def differences(node: Machine) -> list[dict[str, Any]]:
    """Return what --check names."""
    done = node.run("nriplugin", "capacity", "--check", "-o", "json")
    assert done.code in (0, 1), done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["differences"]
    assert bool(found) == bool(done.code)
    return found


def settled(node: Machine) -> list[dict[str, Any]]:
    """Return what --check still names when kubelet has renewed the QoS classes."""
    return keep_looking(lambda: differences(node), lambda found: not found)


def look(cluster: Cluster) -> Seen:
    """Look at a node on which all pods run and nothing changes."""
    node = cluster.machine
    assert settled(node) == []
    pods = cluster.pods()
    levels = cluster.all_levels([pods[name] for name in NAMES])
    return Seen(
        capacity(node, "--check"),
        json.loads(capacity(node, "-o", "json")),
        dict(zip(NAMES, levels, strict=True)),
    )


def configure(cluster: Cluster, text: str) -> None:
    """Restart kubelet with settings, and wait until it serves and has reported."""
    node = cluster.machine
    node.write(DROP_IN, KIND + text)
    node.check("/node/bin/kubernetes", "restart")
    node.check("sh", "-c", "until crictl version >/dev/null; do sleep 1; done")


@pytest.fixture(scope="module")
def plain(node: Machine, cluster: Cluster) -> Seen:
    """All pods, by a kubelet without reservations."""
    cluster.apply(*workloads(cluster.node))
    cluster.running(*NAMES)
    wait_for(
        lambda: cluster.get("job", "done")["status"],
        lambda status: status.get("succeeded") == 1,
    )
    return look(cluster)


@pytest.fixture(scope="module")
def reserving(node: Machine, cluster: Cluster, plain: Seen) -> Seen:
    """The same pods, after kubelet was told of reservations."""
    reserved = RESERVED[node.node.driver]
    if node.node.driver == "systemd":
        node.check("systemctl", "start", reserved[1:])
    else:
        node.check("mkdir", f"{TOP}{reserved}")
    configure(cluster, RESERVATIONS.format(reserved=reserved))
    return look(cluster)


def of_level(report: Any, level: str, name: str) -> Any:
    """Return the only level of a report that is called so."""
    waiting, found = [report["tree"]], []
    while waiting:
        one = waiting.pop()
        waiting += one["below"]
        if (one["level"], one["name"]) == (level, name):
            found.append(one)
    assert len(found) == 1, (level, name)
    return found[0]


def as_kept(files: Files) -> Files:
    """Return files as the kernel shows them, which keeps memory in whole pages."""
    return {
        file: str(int(value) // 4096 * 4096)
        if file.startswith("memory.") and value.isdecimal()
        else value
        for file, value in files.items()
    }


def same_values(cluster: Cluster, seen: Seen) -> None:
    """Compare all values of a report with the cgroups that the test bed has found."""
    report, some = seen.report, seen.levels["web"]
    expected = {
        ("node", "kubepods"): some.kubepods,
        ("qos", "Burstable"): some.qos,
        ("qos", "BestEffort"): seen.levels["batch"].qos,
    }
    for name, held in seen.levels.items():
        of_pod = of_level(report, "pod", f"{cluster.namespace}/{name}")
        expected["pod", of_pod["name"]] = held.pod
        for one in of_pod["below"]:
            if one["cgroup"] is None:
                assert one["init"], one
                continue
            files = held.containers[one["name"]]
            values = as_kept(one["v2"])
            assert {file: files.get(file) for file in values} == values, one["cgroup"]
    for (level, name), files in expected.items():
        values = as_kept(of_level(report, level, name)["v2"])
        assert values
        assert {file: files.get(file) for file in values} == values, name


def test_check_is_silent(plain: Seen) -> None:
    """With pods of all classes, and one that has ended and is in the checkpoint."""
    assert re.fullmatch(r"All \d+ cgroups hold the values .*\n", plain.silent)


def test_all_four_levels_are_as_kubelet_wrote_them(
    cluster: Cluster, plain: Seen
) -> None:
    """Overhead, sidecars, init containers that have ended, resources of whole pods."""
    same_values(cluster, plain)


def test_the_report_is_that_of_the_api_server(cluster: Cluster, plain: Seen) -> None:
    """Capacity, Allocatable, and what `kubectl describe node` says is allocated."""
    same_as_the_api_server(cluster, plain)


def same_as_the_api_server(cluster: Cluster, seen: Seen) -> None:
    def amounts(told: dict[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
        return {
            key: {
                name: parse(amount)
                for name, amount in told[key].items()
                if name in ("cpu", "memory") or name.startswith("hugepages-")
            }
            for key in ("capacity", "allocatable")
        }

    def reported() -> dict[str, dict[str, Any]]:
        return amounts(cluster.get("node", cluster.node)["status"])

    ours = amounts(seen.report)
    assert keep_looking(reported, lambda found: found == ours) == ours
    described = cluster.plane.kubectl("describe", "node", cluster.node)
    for name in ("cpu", "memory"):
        found = re.search(
            rf"^  {name} +(\S+) \((\d+)%\) +(\S+) \((\d+)%\)", described, re.M
        )
        assert found, described
        allocated = seen.report["allocated"][name]
        assert parse(allocated["requests"]) == parse(found[1]), described
        assert parse(allocated["limits"]) == parse(found[3]), described
        assert allocated["requestsPercent"] == int(found[2])
        assert allocated["limitsPercent"] == int(found[4])


# A level, the file of it that is changed, and the value.
CHANGES = [
    ("node", "kubepods", "cpu.weight", "77"),
    ("qos", "Burstable", "cpu.weight", "78"),
    ("pod", "{namespace}/together", "cpu.max", "77000 100000"),
    ("pod", "{namespace}/db", "memory.max", str(88 * MIB)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[1])
def test_one_value_changed_by_hand_is_named(
    node: Machine, cluster: Cluster, plain: Seen, change: tuple[str, str, str, str]
) -> None:
    """Exactly that one, with the cgroup, the file, both values and who may have."""
    level, name, file, value = change
    found = of_level(plain.report, level, name.format(namespace=cluster.namespace))
    path = f"{TOP}{found['cgroup']}/{file}"
    before = (node.read([path])[path] or "").strip()

    def changed() -> list[Any]:
        node.write(path, value)
        return differences(node)

    try:
        # kubelet renews the weights of QoS classes once a minute, also in between.
        (difference,) = keep_looking(changed, bool)
    finally:
        node.write(path, before)
    assert difference["cgroup"] == found["cgroup"]
    assert (difference["file"], difference["held"]) == (file, value)
    assert difference["wanted"] == found["v2"][file]
    assert difference["likely"].startswith("likely ")


def test_with_reservations_check_is_silent(
    cluster: Cluster, plain: Seen, reserving: Seen
) -> None:
    """kubelet's drop-in is read, and the cgroup of all pods is smaller."""
    assert re.fullmatch(r"All \d+ cgroups hold the values .*\n", reserving.silent)
    same_values(cluster, reserving)
    same_as_the_api_server(cluster, reserving)
    before = int(plain.report["tree"]["v2"]["memory.max"])
    after = int(reserving.report["tree"]["v2"]["memory.max"])
    assert before - after == 192 * MIB


def test_the_cgroup_of_reserved_resources(
    node: Machine, cluster: Cluster, reserving: Seen
) -> None:
    """It has what kubelet was told to reserve for the system."""
    (reserved,) = reserving.report["reservedCgroups"]
    assert reserved["cgroup"] == RESERVED[node.node.driver]
    paths = {file: f"{TOP}{reserved['cgroup']}/{file}" for file in reserved["v2"]}
    held = node.read(list(paths.values()))
    assert {file: (held[path] or "").strip() for file, path in paths.items()} == (
        as_kept(reserved["v2"])
    )
    assert reserved["v2"]["memory.max"] == str(128 * MIB)


def test_values_of_the_plugin_are_meant(
    node: Machine, cluster: Cluster, reserving: Seen
) -> None:
    """A request of 128Mi is memory.low, and `why` names kubelet's checkpoint."""
    node.write(PLUGIN_CONFIG, "memoryQoS: {enabled: true}\n")
    given = resources(cpu_memory("10m", "128Mi"), cpu_memory("1", "256Mi"))
    with running(node, "--config", PLUGIN_CONFIG):
        cluster.apply(pod("protected", spec(cluster.node, container("app", given))))
        (made,) = cluster.running("protected").values()
        held = keep_looking(
            lambda: cluster.levels(made).containers["app"]["memory.low"],
            lambda low: low == "134217728",
        )
        assert held == "134217728"
        assert settled(node) == []
        told = node.check("nriplugin", "why", f"{cluster.namespace}/protected")
    assert "request from kubelet's checkpoint" in " ".join(told.split())


def test_use_of_pods(node: Machine, cluster: Cluster, reserving: Seen) -> None:
    """`top` has every pod by its UID, with the fields of PodMetrics."""
    found = json.loads(node.check("nriplugin", "top", "-o", "json"))
    assert found["kind"] == "PodMetricsList"
    items = {item["nriplugin"]["uid"]: item for item in found["items"]}
    for name, one in cluster.pods().items():
        if name not in NAMES:
            continue
        item = items[one["metadata"]["uid"]]
        assert item["nriplugin"]["qosClass"] == one["status"]["qosClass"]
        for part in item["containers"]:
            assert parse(part["usage"]["memory"]) > 0
        assert item["nriplugin"]["oomKills"] == 0
        assert item["nriplugin"]["tasks"]["sleeping"] > 0
        assert item["nriplugin"]["pressure"]["memory"]["some"]["avg10"] >= 0


def test_kubelets_own_protection(
    node: Machine, cluster: Cluster, reserving: Seen
) -> None:
    """With TieredReservation, new pods and all cgroups above them are as expected.

    kubelet does not go back to the containers that there were, so those differ.
    """
    reserved = RESERVED[node.node.driver]
    configure(cluster, RESERVATIONS.format(reserved=reserved) + TIERED)
    node_of = cluster.node
    cluster.apply(
        pod("tiered", spec(node_of, container("app", BURSTABLE))),
        pod("tiered-db", spec(node_of, container("app", GUARANTEED))),
    )
    pods = cluster.running("tiered", "tiered-db")
    uids = [one["metadata"]["uid"] for one in pods.values()]
    new = [form for uid in uids for form in (uid, uid.replace("-", "_"))]

    def look_above() -> list[dict[str, Any]]:
        """Return differences at the new pods and above all pods."""
        return [
            one
            for one in differences(node)
            if one["level"] in ("node", "qos") or any(u in one["cgroup"] for u in new)
        ]

    assert keep_looking(look_above, lambda found: not found) == []
    burstable, guaranteed = cluster.all_levels(list(pods.values()))
    assert burstable.pod["memory.low"] == str(64 * MIB)
    assert guaranteed.pod["memory.min"] == str(96 * MIB)
    files = {one["file"] for one in differences(node)}
    assert files <= {"memory.low", "memory.min", "memory.high"}
