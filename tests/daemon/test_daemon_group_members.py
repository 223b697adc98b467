"""The members of PodGroups, jobs and queues, over a model of a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from daemon.control_clients import daemon_of
from doors.nri.messages import container_at, pod_at
from doors.nri.nodes import FACTS, Node

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.status import status_of
from nriplugin.kube.podgroup_object import GroupObject

GIB = 1 << 30
NUMBERS: dict[str, Any] = {"shares": 512, "quota_us": 150_000, "limit_bytes": GIB}
PRESSURE = (
    "some avg10=0.00 avg60={avg} avg300=0.00 total={total}\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
)


class JobNode(Node):
    """A node on which pods of a job are created at the test's command."""

    def member(
        self, name: str, task: str = "worker", qos: str = "burstable/", **keys: str
    ) -> None:
        """Create a pod with one container."""
        annotations = {
            "scheduling.k8s.io/group-name": "train",
            "volcano.sh/task-spec": task,
            "volcano.sh/job-name": "job-1",
            **{f"volcano.sh/{key}": value for key, value in keys.items()},
        }
        parent = f"/kubepods/{qos}pod{name}"
        pod = pod_at(
            *(parent, annotations), id=name, name=name, uid=f"u-{name}", namespace="ml"
        )
        app = container_at(f"{parent}/{name}", oom_score=950, pod_id=name, **NUMBERS)
        app.id = f"c-{name}"
        self.create(app, pod)
        self._apps = {**getattr(self, "_apps", {}), name: (app, pod)}

    def run(self, name: str, *, throttled_us: int = 0, kills: int = 0) -> None:
        """Start the container of a pod, and set what the kernel has counted for it."""
        app, _ = self._apps[name]
        cgroup, files = app.linux.cgroups_path, self.kernel.files
        files[f"{cgroup}/cpu.stat"] = f"nr_throttled 2\nthrottled_usec {throttled_us}\n"
        files[f"{cgroup}/memory.events"] = f"oom_kill {kills}\n"
        files[f"{cgroup}/cpu.pressure"] = PRESSURE.format(avg="1.50", total=2000)
        files[cgroup] = ""
        self.start(app)

    def end(self, name: str) -> None:
        """End the container of a pod, as a runtime does: the cgroup goes."""
        cgroup = self._apps[name][0].linux.cgroups_path
        for path in [one for one in self.kernel.files if one.startswith(cgroup)]:
            del self.kernel.files[path]

    def groups(self, by: str = "group") -> dict[str, control.ContainerGroup]:
        """Return what status says."""
        found = status_of(daemon_of(self.plugin.lifecycle), by).groups
        return {one.name: one for one in found}

    def leave(self, name: str) -> None:
        """Remove a pod."""
        app, pod = self._apps[name]
        self.remove(app)
        self.remove_pod(pod)


def test_two_tasks_are_one_group() -> None:
    """With its tasks, the sums of requests and limits, and what it suffers from."""
    node = JobNode("{}")
    node.member("ps-0", "ps")
    node.member("worker-0")
    node.run("ps-0", throttled_us=5000, kills=1)
    node.run("worker-0", throttled_us=7000)
    [(name, group)] = node.groups().items()
    assert (name, group.containers.managed) == ("ml/train", 2)
    members = group.members
    assert (members.pods, members.running, members.ended) == (2, 2, 0)
    assert [(one.name, one.pods, one.running) for one in members.tasks] == [
        ("ps", 1, 1),
        ("worker", 1, 1),
    ]
    assert members.requests.milli_cpu == 1000
    # By the OOM score, at most a thousandth of the node below the request of 5 %.
    capacity = FACTS.memory_capacity_bytes
    assert capacity
    low = min(capacity // 20, GIB)
    assert low - capacity // 1000 - 1 <= members.requests.memory_bytes // 2 <= low
    assert (members.limits.milli_cpu, members.limits.memory_bytes) == (3000, 2 * GIB)
    assert (members.throttled_periods, members.oom_kills) == (4, 1)
    assert members.throttled_seconds == pytest.approx(0.012)
    [pressure] = members.pressure
    assert (pressure.resource, pressure.most_avg60) == ("cpu", 1.5)
    assert pressure.some_seconds == pytest.approx(0.004)


def test_members_that_have_not_started_or_have_ended() -> None:
    """What has ended asks for nothing any more; what will start does."""
    node = JobNode("{}")
    for name in ("a", "b", "c"):
        node.member(name)
    node.run("a")
    node.run("b")
    node.end("b")
    members = node.groups()["ml/train"].members
    counts = members.pods, members.running, members.ended, members.pending
    assert counts == (3, 1, 1, 1)
    assert members.requests.milli_cpu == 1000


def test_a_group_ends_with_its_last_pod() -> None:
    """And not before."""
    node = JobNode("{}")
    node.member("a")
    node.member("b")
    node.leave("a")
    assert node.groups()["ml/train"].members.pods == 1
    node.leave("b")
    assert node.groups() == {}


def test_a_pod_that_has_no_container_yet_is_a_member() -> None:
    """The listing of a runtime has such pods, too."""
    node = JobNode("{}")
    pod = pod_at(
        annotations={"scheduling.k8s.io/group-name": "g"}, id="p9", namespace="ml"
    )
    node.synchronize([], [pod])
    group = node.groups()["ml/g"]
    assert (group.members.pods, group.members.pending) == (1, 1)
    assert group.containers == control.ContainerCounts()


def test_two_sandboxes_of_a_pod_are_one_member() -> None:
    """Kubelet replaces the sandbox of a pod whose node was restarted."""
    node = JobNode("{}")
    annotations = {"scheduling.k8s.io/group-name": "g"}
    pods = [pod_at(annotations=annotations, id=one, uid="same") for one in "ab"]
    node.synchronize([], pods)
    assert node.groups()["shop/g"].members.pods == 1


def test_by_job_and_by_queue() -> None:
    """Pods that name another job or queue are apart."""
    node = JobNode("{}")
    node.member("a", **{"queue-name": "q1"})
    node.member("b", **{"queue-name": "q2", "job-name": "job-2"})
    node.member("c", **{"queue-name": "q2"})
    jobs = {name: one.members.pods for name, one in node.groups("job").items()}
    assert jobs == {"ml/job-1": 2, "ml/job-2": 1}
    queues = {name: one.members.pods for name, one in node.groups("queue").items()}
    assert queues == {"q1": 1, "q2": 2}


def test_a_pod_group_adds_what_pods_do_not_say() -> None:
    """Its queue counts for pods without one, and its MinMember decides the phase."""
    node = JobNode("{}")
    node.member("a")
    group = GroupObject(
        "train", "ml", 2, {"ps": 1}, "research", "high", {"cpu": "2"}, "Inqueue"
    )
    node.plugin.lifecycle.jobs.groups = {
        group.job_id: group,
        "ml/elsewhere": group._replace(name="elsewhere"),
    }
    assert list(node.groups("queue")) == ["research"]
    [(name, found)] = node.groups().items()
    assert name == "ml/train"
    shown = found.members.pod_group
    assert (shown.phase, shown.stated_phase) == ("Pending", "Inqueue")
    assert (shown.min_member, shown.queue, shown.priority_class) == (
        2,
        "research",
        "high",
    )
    assert dict(shown.min_resources) == {"cpu": "2"}
    assert dict(shown.min_task_member) == {"ps": 1}
    node.member("b")
    for one in "ab":
        node.run(one)
    assert node.groups()["ml/train"].members.pod_group.phase == "Running"


def test_preemptable_members_are_counted() -> None:
    """By Volcano's key."""
    node = JobNode("{}")
    node.member("a", preemptable="true")
    node.member("b")
    assert node.groups()["ml/train"].members.preemptable == 1


def test_hostile_keys_do_no_harm() -> None:
    """A text that no name can have is no group, and a control character is escaped."""
    node = JobNode("{}")
    pod = pod_at(annotations={"scheduling.k8s.io/group-name": "g" * 100_000})
    node.create(pod=pod)
    assert list(node.groups()) == ["(none)"]
