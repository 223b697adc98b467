from __future__ import annotations

from typing import Any

import pytest

from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.templates import MAX_TEMPLATES, find_templates

ROLLOUT = """\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  strategy:
    canary:
      steps: [{setWeight: 20}, {pause: {}}]
      analysis: {templates: [{templateName: success-rate}]}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {level: 3}}
    spec:
      containers:
      - name: web
        resources: {requests: {cpu: 500m, memory: 256Mi}, limits: {memory: 256Mi}}
status: {currentPodHash: 5d8f, template: {spec: {containers: [{name: old}]}}}
"""

PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template: &pod
        spec:
          containers:
          - {name: pytorch, resources: {limits: {nvidia.com/gpu: 1, cpu: 4}}}
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template: *pod
"""


def places(text: str) -> list[tuple[str, str, int | None]]:
    found = read_manifests(load_documents(text, "test"))
    assert found.skipped == []
    return [(one.name, one.path, one.replicas) for one in found.pods]


def test_a_rollouts_template() -> None:
    """It is found in the specification, not in the status, and has its metadata."""
    assert places(ROLLOUT) == [("web", "spec.template", 5)]
    [pod] = read_manifests(load_documents(ROLLOUT, "test")).pods
    assert (pod.kind, pod.namespace) == ("Rollout", "shop")
    assert (pod.labels, pod.annotations) == ({"app": "web"}, {"level": "3"})


def test_a_pytorch_jobs_templates() -> None:
    """Each replica type has one, also where a YAML alias makes both of them equal."""
    assert places(PYTORCH_JOB) == [
        ("mnist", "spec.pytorchReplicaSpecs.Master.template", 1),
        ("mnist", "spec.pytorchReplicaSpecs.Worker.template", 3),
    ]


TEMPLATE = {"spec": {"containers": [{"name": "app"}]}}


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"spec": {"podTemplate": TEMPLATE}}, "spec.podTemplate"),
        ({"spec": {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}}}, None),
        ({"spec": {"podSets": [{"template": TEMPLATE}]}}, "spec.podSets[0].template"),
        ({"spec": {"templates": [{}, TEMPLATE]}}, "spec.templates[1]"),
        ({"template": TEMPLATE}, "template"),
    ],
)
def test_a_template_is_found_by_its_key(content: Any, path: str | None) -> None:
    """The key has the word template in it, and may be that of a list."""
    path = path or "spec.leaderWorkerTemplate.workerTemplate"
    assert [one.path for one in find_templates(content, "x")] == [path]


@pytest.mark.parametrize(
    "content",
    [
        {"spec": {"containers": [{"name": "amended"}]}},
        {"spec": {"prometheus": TEMPLATE}},
        {"spec": {"template": {"spec": {"containers": []}}}},
        {"spec": {"template": {"spec": {"containers": "app"}}}},
        {"spec": {"template": {"spec": {"domain": {"cpu": 1}}}}},
        {"metadata": {"template": TEMPLATE}},
    ],
)
def test_what_is_no_template(content: Any) -> None:
    """Neither containers without a template around them, nor a template without any."""
    assert find_templates(content, "x") == []


def test_replicas_that_are_no_number_are_not_known() -> None:
    """A replica count may be a template variable, a truth value, or absent."""
    for replicas in ("{{ n }}", True, -1, None):
        content = {"spec": {"replicas": replicas, "template": TEMPLATE}}
        assert [one.replicas for one in find_templates(content, "x")] == [None]


def test_a_value_that_contains_itself_ends() -> None:
    """A cycle of YAML aliases is entered once, and templates beside it are found."""
    text = """\
kind: Loop
spec: &loop
  self: *loop
  list: &list [*loop, *list]
  template: {spec: {containers: [{name: app}]}}
"""
    assert places(text) == [("(no name)", "spec.template", None)]
    for cyclic in ("spec: &a {template: *a}", "spec: &a {spec: *a, containers: *a}"):
        [document] = load_documents(f"kind: Loop\n{cyclic}", "test")
        assert find_templates(document, "x") == []


def test_the_walk_is_bounded() -> None:
    """In depth silently; in templates and values with an error that says where."""
    deep: Any = {"template": TEMPLATE}
    for _ in range(20):
        deep = {"spec": deep}
    assert find_templates(deep, "x") == []
    many = {"spec": {"pods": [{"template": TEMPLATE}] * (MAX_TEMPLATES + 1)}}
    with pytest.raises(ConfigError, match=r"^x: spec.pods\[64\].template: expected at"):
        find_templates(many, "x")
    wide: Any = 1
    for _ in range(10):
        wide = [wide] * 10
    with pytest.raises(ConfigError, match=r"^x: spec.*: expected at most 100000 val"):
        find_templates({"spec": wide}, "x")


def test_a_mistake_in_a_template_is_named_with_its_path() -> None:
    """The path is that of the template in the object."""
    text = PYTORCH_JOB.replace("cpu: 4", "cpu: four")
    with pytest.raises(ConfigError) as caught:
        places(text)
    assert str(caught.value).startswith(
        "document 1 (PyTorchJob mnist): spec.pytorchReplicaSpecs.Master.template.spec."
        "containers[0].resources.limits.cpu: 'four'"
    )
