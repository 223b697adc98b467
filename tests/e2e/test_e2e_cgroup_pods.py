"""What the commands detect, cgroup, and load say about a pod that a runtime made."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.looking import PATIENCE_S

from nriplugin.cgroup.locate.identify import CgroupIdentity, parse_process_cgroups
from nriplugin.cgroup.locate.paths import Driver, RuntimeName

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("node", ["containerd-2", "v1", "systemd"], indirect=True),
]

LIMITS = {"cpu_period": 100000, "cpu_quota": 50000, "memory_limit_in_bytes": 64 << 20}


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod with a container, and what the commands say while it runs."""

    pod_uid: str
    sandbox_id: str
    container_id: str
    cgroup: str
    tree: list[Any]
    detect: Any
    load: list[Any]
    process: str
    quota: str


@pytest.fixture(scope="session")
def seen(node: Machine, kubelet: Kubelet) -> Seen:
    """Run a pod, and all commands while it runs."""
    with kubelet.sandbox("Burstable") as pod:
        container = kubelet.start(pod, "one", LIMITS)
        wait_for_both_processes(node, container)
        pid = kubelet.inspect(container)["info"]["pid"]
        path = f"/proc/{pid}/cgroup"
        process = node.read([path])[path] or ""
        return Seen(
            pod_uid=pod.uid,
            sandbox_id=pod.id,
            container_id=container.id,
            cgroup=next(iter(parse_process_cgroups(process).controllers.values()), "")
            or str(parse_process_cgroups(process).unified),
            tree=json.loads(node.check("nriplugin", "cgroup", "tree", "--json"))[
                "cgroups"
            ],
            detect=json.loads(node.check("nriplugin", "detect", "--json")),
            load=json.loads(node.check("nriplugin", "load", "--json"))["cgroups"],
            process=process,
            quota=node.check(
                "nriplugin", "cgroup", "get", "cpu.cfs_quota_us", container.id
            ),
        )


def wait_for_both_processes(node: Machine, container: Container) -> None:
    """Wait until the container's shell has started its sleep."""
    path = f"{container.cgroups[0]}/cgroup.procs"
    deadline = time.monotonic() + PATIENCE_S
    while len((node.read([path])[path] or "").split()) < 2:
        assert time.monotonic() < deadline, "the container has one process"
        time.sleep(0.2)


def test_detect_says_what_the_node_is(node: Machine, seen: Seen) -> None:
    """Version, driver and place of the pods are those that the node was made with."""
    found = seen.detect
    assert (found["version"], found["driver"]) == (node.node.cgroup, node.node.driver)
    suffix = ".slice" if node.node.driver == "systemd" else ""
    assert found["kubepods"] == f"/kubepods{suffix}"
    assert found["problem"] is None
    assert {"cpu", "cpuset", "memory", "pids"} <= set(found["controllers"])


def test_tree_has_the_pod_and_its_containers(node: Machine, seen: Seen) -> None:
    """Both containers of the pod, the sandbox's own and the other, and their values."""
    rows = [row for row in seen.tree if row["pod_uid"] == seen.pod_uid]
    assert [row["level"] for row in rows] == ["pod", "container", "container"]
    assert {row["qos_class"] for row in rows} == {"Burstable"}
    containers = {row["container_id"]: row for row in rows if row["container_id"]}
    assert containers.keys() == {seen.sandbox_id, seen.container_id}
    row = containers[seen.container_id]
    assert row["cgroup"] == seen.cgroup
    values = row["values"]
    assert values["cpu.cfs_quota_us"] == LIMITS["cpu_quota"]
    assert values["memory.limit_in_bytes"] == LIMITS["memory_limit_in_bytes"]
    assert values["pids.current"] == 2


def test_a_process_tells_its_pod(node: Machine, seen: Seen) -> None:
    """/proc/PID/cgroup of the container's process leads to pod, ID and runtime."""
    place = parse_process_cgroups(seen.process).identity()
    assert place == CgroupIdentity(
        driver=Driver(node.node.driver),
        qos_class="Burstable",
        pod_uid=seen.pod_uid,
        container_id=seen.container_id,
        runtime=RuntimeName.CONTAINERD,
    )


def test_a_container_is_found_by_its_id(node: Machine, seen: Seen) -> None:
    """`cgroup get` takes an ID for a cgroup."""
    assert seen.quota == "50000\n"


def test_load_counts_the_containers_tasks(node: Machine, seen: Seen) -> None:
    """A shell and its sleep, both asleep; the pod has the sandbox's process as well."""
    rows = {row["cgroup"]: row for row in seen.load}
    tasks = rows[seen.cgroup]["tasks"]
    assert (tasks["sleeping"], tasks["running"], tasks["unseen"]) == (2, 0, 0)
    pod = rows[seen.cgroup.rpartition("/")[0]]["tasks"]
    assert sum(pod.values()) == 3
