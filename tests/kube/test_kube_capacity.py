"""The examples and formulas of "Kubernetes capacity enforcement", with their numbers.

A 48-CPU node with its reservation, a container of 250m, 500m and 400Mi, the sums of a
pod, and the limits of QoS classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.vectors import Vector, each, vectors

from nriplugin.convert.curves import Curve
from nriplugin.errors import ConfigError
from nriplugin.kube.capacity import hugepages_name, node_capacity
from nriplugin.kube.capacity_levels import (
    CapacityLevel,
    capacity_tree,
    qos_memory_limits,
    reserved_components,
)
from nriplugin.kube.kubelet_config import parse_arguments, parse_config_file
from nriplugin.kube.kubelet_merge import merge_settings
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.pod_sums import pod_limits, pod_requests

if TYPE_CHECKING:
    from nriplugin.kube.capacity import NodeCapacity
    from nriplugin.kube.capacity_levels import CapacityCgroup, CapacityTree

MIB, GIB = 1 << 20, 1 << 30
# `kubectl describe node` of the example.
CAPACITY = {"cpu": "48", "memory": "263192560Ki", "pods": "256"}
ALLOCATABLE = {"cpu": 46_000, "memory": 258_486_256 << 10, "pods": 256}
CONFIG = """
kind: KubeletConfiguration
systemReserved:
  cpu: "2"
  memory: "4Gi"
evictionHard:
  memory.available: 500Mi
"""
FLAGS = (
    *("--system-reserved=cpu=2,memory=4Gi", "--eviction-hard"),
    "memory.available<500Mi",
)


def settings_of(text: str) -> KubeletCapacitySettings:
    merged = merge_settings(parse_config_file(text, "config.yaml"))
    assert not merged.problems
    return merged.capacity


def resources(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None
) -> dict[str, Any]:
    return {"requests": requests or {}, "limits": limits or {}}


def cpu_memory(cpu: str, memory: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory}


def container(name: str, given: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"name": name, "resources": given, **more}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": list(containers), **spec},
    }


BUSYBOX = container(
    "busybox", resources(cpu_memory("250m", "300Mi"), cpu_memory("500m", "400Mi"))
)


def tree_of(
    *pods: dict[str, Any],
    settings: KubeletCapacitySettings | None = None,
    capacity: dict[str, str] | None = None,
) -> CapacityTree:
    settings = settings or KubeletCapacitySettings()
    node: NodeCapacity = node_capacity(capacity or CAPACITY, settings)
    return capacity_tree(node, settings, read_manifests(pods).pods)


def levels_of(*pods: dict[str, Any], **more: Any) -> dict[str, CapacityCgroup]:
    """Return all cgroups of a node by their names."""
    root = tree_of(*pods, **more).kubepods
    assert root is not None
    found = {root.name: root}
    waiting = [root]
    while waiting:
        for one in waiting.pop().children:
            found[one.name] = one
            waiting.append(one)
    return found


@pytest.mark.parametrize(
    "settings",
    [settings_of(CONFIG), merge_settings(flags=[parse_arguments(FLAGS, "-")]).capacity],
    ids=["file", "flags"],
)
def test_allocatable_of_the_48_cpu_node(settings: KubeletCapacitySettings) -> None:
    """Capacity less systemReserved, kubeReserved and the hard eviction threshold."""
    node = node_capacity(CAPACITY, settings)
    assert node.allocatable == ALLOCATABLE
    assert node.capacity["memory"] == 263_192_560 << 10
    assert node.eviction == {"memory": 500 * MIB}


def test_both_reservations_are_taken() -> None:
    """Allocatable lacks both, and the cgroup of all pods has the threshold on top."""
    settings = settings_of(f"{CONFIG}kubeReserved: {{cpu: 500m, memory: 1Gi}}\n")
    node = node_capacity(CAPACITY, settings)
    assert node.allocatable["cpu"] == 45_500
    assert node.allocatable["memory"] == ALLOCATABLE["memory"] - GIB
    enforced = node.available_to_pods["memory"]
    assert enforced == node.allocatable["memory"] + 500 * MIB


def test_reserved_cpus_are_counted() -> None:
    """`--reserved-cpus` replaces the amounts of CPU that are reserved."""
    settings = settings_of(
        'reservedSystemCPUs: "0-1,24"\nkubeReserved: {cpu: 500m, memory: 1Gi}\n'
    )
    node = node_capacity(CAPACITY, settings)
    assert node.allocatable["cpu"] == 45_000
    assert node.kube_reserved == {"memory": GIB}


def test_more_is_reserved_than_there_is() -> None:
    """kubelet does not start then, and the line names both amounts."""
    settings = settings_of("systemReserved: {cpu: '49'}\n")
    with pytest.raises(ConfigError) as caught:
        node_capacity(CAPACITY, settings)
    assert str(caught.value) == (
        "cpu: 49000m are reserved, expected at most the capacity, 48000m"
    )


def test_pages_that_are_set_aside_are_no_memory_for_pods() -> None:
    """Huge pages are allocated on their own, and not out of `memory` as well."""
    settings = settings_of("evictionHard: {memory.available: 500Mi}\n")
    node = node_capacity({"memory": "8Gi", "hugepages-1Gi": "2Gi"}, settings)
    assert node.allocatable == {
        "memory": 6 * GIB - 500 * MIB,
        "hugepages-1Gi": 2 * GIB,
    }


@pytest.mark.parametrize(
    ("page_bytes", "name"),
    [
        (64 << 10, "hugepages-64Ki"),
        (2 << 20, "hugepages-2Mi"),
        (16 << 30, "hugepages-16Gi"),
        (1 << 12 | 1, "hugepages-4097"),
    ],
)
def test_huge_pages_are_named_after_their_size(page_bytes: int, name: str) -> None:
    """In the largest unit in which the size is a whole number."""
    assert hugepages_name(page_bytes) == name


# Vectors


@each("k8s/seed004/kubepods-cpu")
def test_the_shares_of_all_pods(vector: Vector) -> None:
    """46 of 48 CPUs are 47104 shares, and kubelet's weight is that of the KEP."""
    given = vector.input
    values = levels_of(
        capacity={"cpu": str(given["capacity.cpu"])},
        settings=settings_of(
            f"systemReserved: {{cpu: '{given['systemReserved.cpu']}'}}\n"
        ),
    )["kubepods"].values
    assert {
        "cpu.shares (v1)": values.v1()["cpu.shares"],
        "cpu.weight (v2, linear)": values.v2()["cpu.weight"],
        "cpu.weight if quadratic were used": values.v2(curve=Curve.QUADRATIC)[
            "cpu.weight"
        ],
    } == vector.expect


@each("k8s/seed004/kubepods-memory")
def test_the_memory_of_all_pods(vector: Vector) -> None:
    """The threshold is in what is reported, and not in what is enforced."""
    given = vector.input
    settings = settings_of(
        f"systemReserved: {{memory: {given['systemReserved.memory']}}}\nevictionHard:"
        f" {{memory.available: {given['evictionHard.memory.available']}}}\n"
    )
    capacity = {"memory": given["capacity.memory"]}
    values = levels_of(capacity=capacity, settings=settings)["kubepods"].values
    reported = node_capacity(capacity, settings).allocatable["memory"]
    assert {
        "memory.max": values.v2()["memory.max"],
        "reported allocatable": f"{reported >> 10}Ki",
    } == vector.expect
    assert values.v1()["memory.limit_in_bytes"] == vector.expect["memory.max"]


@each("k8s/seed004/qosreserved")
def test_memory_limits_of_classes(vector: Vector) -> None:
    """A class may not use what the requests of those above it keep free."""
    given = vector.input
    burstable, best_effort = qos_memory_limits(
        given["allocatable"],
        given["guaranteedRequests"],
        given["burstableRequests"],
        given["percentReserve"],
    )
    assert {
        "burstable memory limit": str(burstable),
        "besteffort memory limit": str(best_effort),
    } == vector.expect


@each("k8s/seed004/pod-")
def test_a_pod_and_its_container(vector: Vector) -> None:
    """250m, 500m and 400Mi: the pod on kubelet's curve, the container on either."""
    levels = levels_of(pod("one", container("app", vector.input)))
    of_pod, app = levels["one"].values.v2(), levels["app"].values
    quadratic = app.v2(curve=Curve.QUADRATIC)
    assert {
        "pod cpu.weight": of_pod["cpu.weight"],
        "pod cpu.max": of_pod["cpu.max"],
        "pod memory.max": of_pod["memory.max"],
        "container cpu.weight (quadratic runtime)": quadratic["cpu.weight"],
        "container cpu.weight (linear runtime)": app.v2(curve=Curve.KEP)["cpu.weight"],
        "container cpu.max": quadratic["cpu.max"],
        "container memory.max": quadratic["memory.max"],
    } == vector.expect


def test_the_vectors_of_the_document_are_all_here() -> None:
    """None is left out by the beginnings of the names above."""
    assert len(vectors("k8s/seed004/")) == 4


# The pods of a node


def test_the_example_in_version_1() -> None:
    """250m are 256 shares, 500m a quota of 50000, and 400Mi 419430400 bytes."""
    levels = levels_of(pod("one", BUSYBOX))
    expected = {
        "cpu.shares": "256",
        "cpu.cfs_quota_us": "50000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": "419430400",
    }
    assert levels["busybox"].values.v1() == expected
    assert levels["one"].values.v1() == expected
    # The memory request is written nowhere.
    assert "memory.low" not in levels["one"].values.v2()


def test_a_pod_is_the_sum_of_its_containers() -> None:
    """Requests, limits and memory limits are added."""
    other = container(
        "other", resources(cpu_memory("100m", "64Mi"), cpu_memory("1", "256Mi"))
    )
    values = levels_of(pod("one", BUSYBOX, other))["one"].values
    assert values.v1() == {
        "cpu.shares": "358",
        "cpu.cfs_quota_us": "150000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": str(656 * MIB),
    }


@pytest.mark.parametrize(
    ("limits", "absent", "present"),
    [
        ({"memory": "256Mi"}, "cpu.cfs_quota_us", "memory.limit_in_bytes"),
        ({"cpu": "1"}, "memory.limit_in_bytes", "cpu.cfs_quota_us"),
    ],
)
def test_one_missing_limit_is_none_for_the_pod(
    limits: dict[str, str], absent: str, present: str
) -> None:
    """A pod has no quota if one container has none, and the same with memory."""
    other = container("other", resources(cpu_memory("100m", "64Mi"), limits))
    values = levels_of(pod("one", BUSYBOX, other))["one"].values.v1()
    assert absent not in values
    assert values[present]
    assert values["cpu.shares"] == "358"


def test_a_pod_without_resources_has_the_fewest_shares() -> None:
    """MinShares is 2, in the pod, its container and the class BestEffort."""
    levels = levels_of(pod("one", container("app", {})))
    for name in ("one", "app", "BestEffort"):
        assert levels[name].values.v1() == {"cpu.shares": "2"}, name
        assert levels[name].values.v2()["cpu.weight"] == "1"
    assert levels["one"].components == ("kubepods", "besteffort", "podone")


def test_a_pod_of_which_each_kind_of_container_counts() -> None:
    """The most that runs at a time: init containers beside the sidecars before them."""
    init = container("init", resources({"cpu": "700m"}))
    sidecar = container("side", resources({"cpu": "100m"}), restartPolicy="Always")
    app = container("app", resources({"cpu": "300m"}))
    (one,) = read_manifests([pod("one", app, initContainers=[sidecar, init])]).pods
    assert pod_requests(one.spec) == {"cpu": 800}
    (two,) = read_manifests([pod("two", app, initContainers=[init, sidecar])]).pods
    assert pod_requests(two.spec) == {"cpu": 700}


def test_overhead_comes_on_top() -> None:
    """Of requests always, and of limits only where there is one."""
    overhead = cpu_memory("50m", "32Mi")
    only_memory = container("app", resources({"cpu": "100m"}, {"memory": "64Mi"}))
    (one,) = read_manifests([pod("one", only_memory, overhead=overhead)]).pods
    assert pod_requests(one.spec) == {"cpu": 150, "memory": 96 * MIB * 1000}
    assert pod_limits(one.spec) == {"memory": 96 * MIB * 1000}


def test_a_pods_own_resources_replace_the_sums() -> None:
    """They are the pod's cgroup, and the limit of a container without one."""
    own = resources(cpu_memory("1", "1Gi"), cpu_memory("2", "2Gi"))
    levels = levels_of(pod("one", BUSYBOX, container("free", {}), resources=own))
    assert levels["one"].values.v1() == {
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": "200000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": str(2 * GIB),
    }
    assert levels["free"].values.memory_limit_bytes == 2 * GIB
    assert levels["busybox"].values.memory_limit_bytes == 400 * MIB


# The classes of a node

CLASSES = (
    pod("guaranteed", container("a", resources(limits=cpu_memory("4", "20Gi")))),
    pod("burstable", container("b", resources(cpu_memory("1500m", "30Gi")))),
    pod("another", container("c", resources(cpu_memory("500m", "0")))),
    pod("best-effort", container("d", {})),
)


def test_classes_have_the_shares_of_their_requests() -> None:
    """Burstable has the sum, at least 2; Guaranteed pods have no class above them."""
    levels = levels_of(*CLASSES)
    assert levels["Burstable"].values.v1() == {"cpu.shares": "2048"}
    assert levels["BestEffort"].values.v1() == {"cpu.shares": "2"}
    assert levels["guaranteed"].components == ("kubepods", "podguaranteed")
    assert levels["burstable"].components == ("kubepods", "burstable", "podburstable")
    assert levels_of()["Burstable"].values.v1() == {"cpu.shares": "2"}


def test_qos_reserved_limits_the_classes() -> None:
    """With the gate on, half of the requests above a class is kept free of it."""
    text = "qosReserved: {memory: 50%}\nfeatureGates: {QOSReserved: true}\n"
    levels = levels_of(
        *CLASSES,
        settings=settings_of(text),
        capacity={"cpu": "48", "memory": "100Gi"},
    )
    assert levels["Burstable"].values.memory_limit_bytes == 90 * GIB
    assert levels["BestEffort"].values.memory_limit_bytes == 75 * GIB
    assert levels_of(*CLASSES)["Burstable"].values.memory_limit_bytes is None


def test_what_is_enforced_for_pods() -> None:
    """Without `pods` in enforceNodeAllocatable they may use the whole node."""
    reserved = "systemReserved: {memory: 4Gi}\n"
    whole = settings_of(f"{reserved}enforceNodeAllocatable: []\n")
    memory = 263_192_560 << 10
    assert levels_of(settings=settings_of(reserved))["kubepods"].values.v2()[
        "memory.max"
    ] == str(memory - 4 * GIB)
    assert levels_of(settings=whole)["kubepods"].values.v2()["memory.max"] == str(
        memory
    )


def test_without_cgroups_per_qos_there_are_none() -> None:
    """kubelet then makes no cgroup for pods at all."""
    text = "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n"
    assert tree_of(*CLASSES, settings=settings_of(text)).kubepods is None


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("system-reserved", {"cpu.shares": "2048", "memory.limit_in_bytes": str(GIB)}),
        ("system-reserved-compressible", {"cpu.shares": "2048"}),
    ],
)
def test_cgroups_of_reserved_resources(level: str, expected: dict[str, str]) -> None:
    """`--system-reserved-cgroup` is limited if that is to be enforced."""
    settings = settings_of(
        "systemReserved: {cpu: '2', memory: 1Gi}\nsystemReservedCgroup: /system.slice\n"
        "cgroupDriver: systemd\n"
        f"enforceNodeAllocatable: [pods, {level}]\n"
    )
    (reserved,) = tree_of(settings=settings).reserved
    assert reserved.values.v1() == expected
    assert reserved.components == ("system",)
    assert reserved.level is CapacityLevel.NODE


@pytest.mark.parametrize(
    ("path", "components"),
    [
        ("/", ("kubepods",)),
        ("/a/b/", ("a", "b", "kubepods")),
        ("/kubelet.slice", ("kubelet.slice", "kubepods")),
    ],
)
def test_the_cgroup_of_all_pods_is_below_kubelets_root(
    path: str, components: tuple[str, ...]
) -> None:
    """cgroupRoot is a path, with either driver."""
    kubepods = tree_of(settings=settings_of(f"cgroupRoot: {path}\n")).kubepods
    assert kubepods is not None
    assert kubepods.components == components


@pytest.mark.parametrize(
    ("path", "driver", "components"),
    [
        ("/system", "cgroupfs", ("system",)),
        ("/system.slice", "cgroupfs", ("system.slice",)),
        ("/a.slice/a-b.slice", "cgroupfs", ("a.slice", "a-b.slice")),
        ("/system.slice", "systemd", ("system",)),
        ("system", "systemd", ("system",)),
        ("/a.slice/a-b_c.slice", "systemd", ("a", "b-c")),
        ("/a/b", "systemd", ("b",)),
    ],
)
def test_what_a_reserved_cgroup_is_depends_on_the_driver(
    path: str, driver: str, components: tuple[str, ...]
) -> None:
    """Without systemd's driver, a slice is a directory as any other."""
    assert reserved_components(path, driver) == components
