from __future__ import annotations

import pytest

from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError
from nriplugin.kube.manifests import Manifests, read_manifests
from nriplugin.kube.podgroup_object import GroupObject

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: tensorflow-dist-mnist
  namespace: ml
  uid: 5f3c
  annotations: {volcano.sh/preemptable: "true", note: kept}
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: research
  priorityClassName: high
  plugins: {env: [], svc: []}
  tasks:
  - name: ps
    replicas: 1
    template:
      metadata: {annotations: {own: "1", volcano.sh/job-name: wrong}}
      spec:
        containers:
        - {name: tensorflow, resources: {limits: {cpu: 1, memory: 2Gi}}}
  - replicas: 2
    minAvailable: 1
    template:
      spec:
        containers:
        - {name: tensorflow, resources: {limits: {cpu: 2, memory: 4Gi}}}
status: {version: 2, retryCount: 1}
"""


def read(text: str) -> Manifests:
    return read_manifests(load_documents(text, "test"))


def test_a_task_is_a_pod_with_the_controllers_annotations() -> None:
    """The first pod of each task has the name, index and group of Volcano."""
    found = read(JOB)
    ps, worker = found.pods
    assert (ps.kind, ps.namespace, ps.name) == (
        "Job",
        "ml",
        "tensorflow-dist-mnist-ps-0",
    )
    assert (ps.path, ps.replicas) == ("spec.tasks[0].template", 1)
    assert ps.added == {
        "volcano.sh/task-index": "0",
        "volcano.sh/task-spec": "ps",
        "scheduling.k8s.io/group-name": "tensorflow-dist-mnist-5f3c",
        "volcano.sh/job-name": "tensorflow-dist-mnist",
        "volcano.sh/queue-name": "research",
        "volcano.sh/job-version": "2",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/template-uid": "tensorflow-dist-mnist-ps",
        "volcano.sh/preemptable": "true",
    }
    assert ps.annotations == {"own": "1", **ps.added}
    assert ps.labels == {
        "volcano.sh/task-index": "0",
        "volcano.sh/task-spec": "ps",
        "volcano.sh/job-name": "tensorflow-dist-mnist",
        "volcano.sh/queue-name": "research",
        "volcano.sh/job-namespace": "ml",
    }
    # Volcano names a task that has no name after its place.
    assert worker.name == "tensorflow-dist-mnist-default1-0"
    assert (worker.path, worker.replicas) == ("spec.tasks[1].template", 2)
    assert worker.annotations["volcano.sh/task-spec"] == "default1"


def test_what_a_job_leaves_out() -> None:
    """A Job that does not exist yet has no UID; the queue is the default one."""
    text = JOB.replace("  uid: 5f3c\n", "").replace("  queue: research\n", "")
    text = text.replace("status: {version: 2, retryCount: 1}", "").replace(
        "  minAvailable: 3\n", ""
    )
    found = read(text)
    assert found.pods[0].added["scheduling.k8s.io/group-name"] == (
        "tensorflow-dist-mnist-<uid>"
    )
    assert found.pods[0].added["volcano.sh/queue-name"] == "default"
    assert found.pods[0].added["volcano.sh/job-version"] == "0"
    assert found.pods[0].added["volcano.sh/job-retry-count"] == "0"
    [group] = found.groups
    assert (group.queue, group.min_member) == ("default", 2)


def test_what_the_controller_makes_of_a_tasks_policies() -> None:
    """The NUMA policy is an annotation, and the partition of a pod a label."""
    policies = "topologyPolicy: restricted, partitionPolicy: {partitionSize: 2}"
    job = load_documents(JOB, "test")[0]
    job["spec"]["tasks"][0] |= load_documents(f"{{{policies}}}", "test")[0]
    ps, worker = read_manifests([job]).pods
    assert ps.annotations["volcano.sh/numa-topology-policy"] == "restricted"
    assert ps.labels["volcano.sh/partition-id"] == "0"
    assert "volcano.sh/numa-topology-policy" not in worker.annotations
    assert "volcano.sh/partition-id" not in worker.labels


@pytest.mark.parametrize(
    ("given", "copied"),
    [
        (("min-available",), ("min-available",)),
        (("max-unavailable",), ("max-unavailable",)),
        (("min-available", "max-unavailable"), ("min-available",)),
    ],
)
def test_one_budget_of_a_job_is_copied(
    given: tuple[str, ...], copied: tuple[str, ...]
) -> None:
    """The most pods that may be unavailable count only without a least number."""
    job = load_documents(JOB, "test")[0]
    job["metadata"]["annotations"] = {f"volcano.sh/jdb-{one}": "1" for one in given}
    added = read_manifests([job]).pods[0].added
    found = tuple(one.removeprefix("volcano.sh/jdb-") for one in added if "jdb" in one)
    assert found == copied


def test_the_group_of_a_job() -> None:
    """The controller makes one PodGroup for a Job."""
    assert read(JOB).groups == [
        GroupObject(
            name="tensorflow-dist-mnist-5f3c",
            namespace="ml",
            min_member=3,
            min_task_member={"ps": 1, "default1": 1},
            queue="research",
            priority_class="high",
            min_resources={},
            phase="Pending",
            job="tensorflow-dist-mnist",
        )
    ]


def test_a_pod_group_is_read() -> None:
    """A PodGroup of `kubectl get -o yaml` has its numbers and phase; no pods."""
    text = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg1, namespace: ml}
spec:
  minMember: 4
  minTaskMember: {ps: 1, worker: 3}
  minResources: {cpu: "7", memory: 14Gi}
  priorityClassName: high
  queue: research
status: {phase: Running, running: 4}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg2}
"""
    found = read(text)
    assert (found.pods, found.skipped) == ([], [])
    assert found.groups == [
        GroupObject(
            "pg1",
            "ml",
            4,
            {"ps": 1, "worker": 3},
            "research",
            "high",
            {"cpu": "7", "memory": "14Gi"},
            "Running",
            started=4,
        ),
        GroupObject("pg2", None, 0, {}, "default", "", {}, "Pending"),
    ]


GROUP = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nspec: "
VOLCANO = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VOLCANO + "{}", "spec.tasks: missing, expected a list of tasks"),
        (VOLCANO + "{tasks: 5}", "spec.tasks: 5, expected a list of tasks"),
        (VOLCANO + "{tasks: [5]}", "spec.tasks[0]: 5, expected a task"),
        (VOLCANO + "{tasks: [{}]}", "spec.tasks[0].template: missing, expected a pod"),
        (
            VOLCANO + "{tasks: [{template: {}}]}",
            "spec.tasks[0].template.spec: missing, expected the spec of a pod",
        ),
        (
            JOB.replace("replicas: 2", "replicas: two").replace(
                "    minAvailable: 1\n", ""
            ),
            "spec.tasks[1].replicas: 'two', expected a number of pods",
        ),
        (GROUP + "5", "spec: 5, expected fields"),
        (GROUP + "{minMember: -1}", "spec.minMember: -1, expected a number of pods"),
        (GROUP + "{minResources: {cpu: x}}", "spec.minResources.cpu: 'x', expected a"),
        (
            GROUP + "{minTaskMember: {ps: true}}",
            "spec.minTaskMember.ps: True, expected a number of pods",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    """The error has the field, the value and what was expected."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert message in str(caught.value)
