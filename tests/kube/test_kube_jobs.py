"""Jobs and tasks as Volcano's scheduler and controller make them."""

from __future__ import annotations

from itertools import product

import pytest

from nriplugin.documents import load_documents
from nriplugin.kube.jobs import (
    JobInfo,
    JobPhase,
    TaskInfo,
    TaskStatus,
    job_infos,
    phase_of,
)
from nriplugin.kube.manifest_tasks import task_of_manifest
from nriplugin.kube.manifests import Manifests, read_manifests
from nriplugin.kube.podgroup import membership, task_keys
from nriplugin.kube.podgroup_object import GroupObject

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  namespace: pod-namespace
  uid: UID
  annotations: {scheduling.k8s.io/group-name: pg1, volcano.sh/task-spec: TASK}
spec:
  containers:
  - {name: app, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 2Gi}}}
  - {name: side, resources: {requests: {cpu: 250m}}}
status: {phase: PHASE}
"""
GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg1, namespace: pod-namespace}
spec: {minMember: 3, queue: research, priorityClassName: high}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mnist, namespace: ml, uid: 5f3c, annotations: {note: kept}}
spec:
  minAvailable: 3
  queue: research
  priorityClassName: high
  tasks:
  - name: ps
    replicas: 1
    template: {spec: {containers: [{name: tf}]}}
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: tf}]}}
status: {version: 4}
"""


def read(text: str) -> Manifests:
    return read_manifests(load_documents(text, "test"))


def pod(name: str, task: str = "worker", phase: str = "Pending") -> str:
    text = POD.replace("NAME", name).replace("UID", f"uid-{name}")
    return text.replace("TASK", task).replace("PHASE", phase)


def jobs_of(*texts: str) -> dict[str, JobInfo]:
    found = read("---".join(texts))
    groups = {group.job_id: group for group in found.groups}
    return job_infos(map(task_of_manifest, found.pods), groups)


@pytest.mark.parametrize(
    ("annotations", "job_id"),
    [
        ({"scheduling.k8s.io/group-name": "pg1"}, "pod-namespace/pg1"),
        ({"scheduling.volcano.sh/group-name": "pg1"}, "pod-namespace/pg1"),
        ({"scheduling.k8s.io/group-name": ""}, ""),
        ({}, ""),
        ({"scheduling.k8s.io/group-name": "x" * 254}, ""),
    ],
)
def test_the_id_of_a_job(annotations: dict[str, str], job_id: str) -> None:
    """It is NAMESPACE/GROUP; a pod without a group, or with no valid one, has none."""
    assert membership("pod-namespace", {}, annotations).job_id == job_id


def test_a_pod_is_a_task() -> None:
    """It has the pod's UID, name and namespace, its job, and priority 1."""
    [given] = read(pod("a", "ps")).pods
    task = task_of_manifest(given)
    assert (task.uid, task.name, task.namespace) == ("uid-a", "a", "pod-namespace")
    assert (task.job, task.member.task) == ("pod-namespace/pg1", "ps")
    assert (task.priority, task.status) == (1, TaskStatus.PENDING)
    assert task.demand.requests == {"cpu": 750, "memory": 1024**3 * 1000}
    assert task.demand.limits == {"memory": 2 * 1024**3 * 1000}
    assert not task.best_effort
    assert not task.keys.preemptable


@pytest.mark.parametrize("requests", ["{}", "{requests: {cpu: 0, memory: 0}}"])
def test_a_task_that_requests_nothing_is_best_effort(requests: str) -> None:
    """An amount of zero is no request."""
    text = f"kind: Pod\nspec: {{containers: [{{name: a, resources: {requests}}}]}}"
    [given] = read(text).pods
    assert task_of_manifest(given).best_effort


@pytest.mark.parametrize(
    ("labels", "annotations", "preemptable", "zone"),
    [
        ({}, {}, False, ""),
        ({}, {"volcano.sh/preemptable": "true"}, True, "*"),
        ({}, {"volcano.sh/preemptable": "T"}, True, "*"),
        ({}, {"volcano.sh/preemptable": "yes"}, False, ""),
        ({"volcano.sh/preemptable": "1"}, {}, True, ""),
        (
            {"volcano.sh/preemptable": "true"},
            {"volcano.sh/preemptable": "false"},
            False,
            "",
        ),
        ({}, {"volcano.sh/revocable-zone": "*"}, False, "*"),
        (
            {},
            {"volcano.sh/revocable-zone": "rz1", "volcano.sh/preemptable": "true"},
            True,
            "",
        ),
    ],
)
def test_preemptable_and_revocable_zone(
    labels: dict[str, str], annotations: dict[str, str], preemptable: bool, zone: str
) -> None:
    """The annotation wins over the label; the only zone is `*`."""
    keys = task_keys(labels, annotations)
    assert (keys.preemptable, keys.revocable_zone) == (preemptable, zone)


@pytest.mark.parametrize(
    ("text", "of_pod", "priority"),
    [
        ("", None, 1),
        ("", 5, 5),
        ("10", 5, 10),
        ("-3", None, -3),
        ("2147483648", 5, 5),
        ("ten", None, 1),
        ("--1", None, 1),
    ],
)
def test_the_priority_of_a_task(text: str, of_pod: int | None, priority: int) -> None:
    """Its key wins over the pod's priority; without both, it is 1."""
    given = pod("a").replace("task-spec: worker", f"task-priority: '{text}'")
    if of_pod is not None:
        given = given.replace("spec:\n", f"spec:\n  priority: {of_pod}\n")
    [one] = read(given).pods
    assert task_of_manifest(one).priority == priority


def test_a_pod_of_a_job_has_the_controllers_annotations() -> None:
    """Group JOB-UID, pod JOB-TASK-INDEX, template JOB-TASK, version as a number."""
    tasks = [task_of_manifest(one) for one in read(JOB).pods]
    assert [task.name for task in tasks] == ["mnist-ps-0", "mnist-worker-0"]
    ps, worker = tasks
    assert ps.member == ("mnist-5f3c", "mnist", "research", "ps", "0", "ml/mnist-5f3c")
    assert worker.member.task == "worker"
    assert (ps.keys.version, ps.keys.template) == ("4", "mnist-ps")


def test_the_group_of_a_job_is_its_only_one() -> None:
    """PodGroup and Job are 1:1, and the pods of all tasks are in it."""
    [job] = jobs_of(JOB).values()
    assert job.id == "ml/mnist-5f3c"
    assert job.group is not None
    assert (job.group.min_member, job.group.queue) == (3, "research")
    assert (job.group.priority_class, job.group.min_task_member) == (
        "high",
        {"ps": 1, "worker": 2},
    )
    assert (job.queue, job.job) == ("research", "mnist")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([GROUP], (0, True)),
        ([pod("a")], (1, False)),
        ([GROUP, pod("a")], (1, True)),
        ([pod("a"), GROUP], (1, True)),
        ([pod("a"), GROUP, pod("b")], (2, True)),
    ],
)
def test_a_job_is_made_by_whichever_comes_first(
    texts: list[str], expected: tuple[int, bool]
) -> None:
    """By its PodGroup or by a pod, in any order, and it is always one."""
    [job] = jobs_of(*texts).values()
    assert job.id == "pod-namespace/pg1"
    assert (len(job.tasks), job.group is not None) == expected


def test_a_job_ends_with_its_last_pod_and_its_group() -> None:
    """A pod that belongs to no group makes no job."""
    alone = pod("a").replace("scheduling.k8s.io/group-name: pg1, ", "")
    assert jobs_of(alone) == {}


@pytest.mark.parametrize("stated", ["", "Pending", "Inqueue", "Unknown", "nonsense"])
@pytest.mark.parametrize(
    ("min_available", "started", "phase"),
    [
        (3, 0, JobPhase.PENDING),
        (3, 2, JobPhase.PENDING),
        (3, 3, JobPhase.RUNNING),
        (3, 4, JobPhase.RUNNING),
        (0, 0, JobPhase.RUNNING),
    ],
)
def test_a_pending_job_runs_with_enough_pods(
    stated: str, min_available: int, started: int, phase: JobPhase
) -> None:
    """MinAvailable <= running + succeeded + failed; pending is the default."""
    assert phase_of(stated, min_available, started) is phase


@pytest.mark.parametrize(
    "phase", [one for one in JobPhase if one is not JobPhase.PENDING]
)
def test_other_phases_stay(phase: JobPhase) -> None:
    """The rule is about pending jobs alone."""
    assert phase_of(phase.value, 1, 5) is phase
    assert phase_of(phase.value, 9, 0) is phase


@pytest.mark.parametrize(
    "phases",
    list(product(["Pending", "Running", "Succeeded", "Failed"], repeat=3)),
    ids="-".join,
)
def test_what_counts_for_the_least_number(phases: tuple[str, ...]) -> None:
    """Running, succeeded and failed pods do, pending ones do not."""
    pods = [pod(str(number), phase=phase) for number, phase in enumerate(phases)]
    [job] = jobs_of(GROUP, *pods).values()
    expected = JobPhase.PENDING if "Pending" in phases else JobPhase.RUNNING
    assert job.phase is expected


def test_pods_on_other_nodes_count() -> None:
    """The PodGroup's status has the counts of all nodes."""
    status = "status: {phase: Inqueue, running: 1, succeeded: 1, failed: 1}\n"
    [job] = jobs_of(GROUP + status, pod("a")).values()
    assert job.phase is JobPhase.RUNNING


def test_without_a_group_there_is_no_phase() -> None:
    """MinMember is not known."""
    [job] = jobs_of(pod("a", phase="Running")).values()
    assert job.phase is None


def test_the_sums_of_a_job() -> None:
    """Requests and limits are added, and pods counted by status and by task."""
    pods = [pod("a", "ps", "Running"), pod("b"), pod("c", phase="Running")]
    [job] = jobs_of(*pods).values()
    sums = job.sums
    assert (sums.pods, sums.started) == (3, 2)
    assert sums.demand.requests == {"cpu": 2250, "memory": 3 * 1024**3 * 1000}
    assert sums.demand.limits == {"memory": 6 * 1024**3 * 1000}
    assert sums.by_status == {TaskStatus.RUNNING: 2, TaskStatus.PENDING: 1}
    assert sums.by_task == {
        "ps": {TaskStatus.RUNNING: 1},
        "worker": {TaskStatus.PENDING: 1, TaskStatus.RUNNING: 1},
    }


def test_the_queue_of_a_job() -> None:
    """The PodGroup's, else that of the first pod that names one."""
    member = membership("ns", {}, {"volcano.sh/queue-name": "own"})
    task = TaskInfo("u", "ns/g", "p", "ns", member)
    assert JobInfo("ns/g", {"u": task}).queue == "own"
    group = GroupObject("g", "ns", 1, {}, "theirs", "", {}, "Pending")
    assert JobInfo("ns/g", {"u": task}, group).queue == "theirs"
