from __future__ import annotations

from typing import Any

import pytest

from nriplugin.errors import ConfigError
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.manifests import UID_PLACEHOLDER, Skipped, read_manifests
from nriplugin.kube.podspec import ContainerSpec, Role

POD_SPEC: dict[str, Any] = {"containers": [{"name": "app"}]}
TEMPLATE = {"spec": {"template": {"metadata": {"name": "x"}, "spec": POD_SPEC}}}


def pod(**fields: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "web"}, "spec": POD_SPEC, **fields}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("Pod", {"spec": POD_SPEC}),
        ("PodTemplate", {"template": {"spec": POD_SPEC}}),
        ("Deployment", TEMPLATE),
        ("StatefulSet", TEMPLATE),
        ("DaemonSet", TEMPLATE),
        ("ReplicaSet", TEMPLATE),
        ("ReplicationController", TEMPLATE),
        ("Job", TEMPLATE),
        ("CronJob", {"spec": {"jobTemplate": TEMPLATE}}),
    ],
)
def test_pods_are_found_in_every_kind(kind: str, content: dict[str, Any]) -> None:
    """A pod is named after the object that makes it."""
    metadata = {"name": "web", "namespace": "shop"}
    found = read_manifests([{"kind": kind, "metadata": metadata, **content}])
    [only] = found.pods
    assert (only.kind, only.name, only.namespace) == (kind, "web", "shop")
    assert only.spec.containers == (ContainerSpec("app", Role.APP, {}, {}),)
    assert only.uid == UID_PLACEHOLDER
    assert found.skipped == []


def test_only_a_pod_has_the_uid_of_its_cgroup() -> None:
    """A workload's own UID is another one, and so is that of a static pod's mirror."""
    known = {"name": "web", "uid": "1-2"}
    mirror = {**known, "annotations": {"kubernetes.io/config.mirror": "5e1f"}}
    found = read_manifests(
        [
            pod(metadata=known),
            pod(metadata=mirror),
            {"kind": "Job", "metadata": known, **TEMPLATE},
        ]
    )
    assert [entry.uid for entry in found.pods] == ["1-2", "5e1f", UID_PLACEHOLDER]


def test_containers_come_in_the_order_of_their_start() -> None:
    """Init containers and sidecars come first."""
    spec = {
        "containers": [{"name": "app", "resources": {"limits": {"cpu": 1}}}],
        "initContainers": [
            {"name": "setup"},
            {"name": "proxy", "restartPolicy": "Always"},
        ],
        "ephemeralContainers": [{"name": "debug", "resources": {}}],
    }
    [only] = read_manifests([pod(spec=spec)]).pods
    assert [(entry.name, entry.role.value) for entry in only.spec.containers] == [
        ("setup", "init"),
        ("proxy", "sidecar"),
        ("app", "app"),
    ]
    assert only.spec.containers[2].limits == {"cpu": 1}
    assert only.spec.containers[2].requests == {}
    assert only.spec.ephemeral == (ContainerSpec("debug", Role.EPHEMERAL, {}, {}),)


def test_requests_default_to_limits() -> None:
    """An absent request is its limit; a request of zero is not absent."""
    limits = {"cpu": "1", "memory": "1Gi"}
    assert default_requests({"cpu": 0}, limits) == {"cpu": 0, "memory": "1Gi"}


def test_lists_are_opened() -> None:
    """Lists may be nested, and their items may have no kind of their own."""
    nested = {"kind": "List", "items": [{"kind": "List", "items": [pod()]}, pod()]}
    typed = {"kind": "PodList", "items": [{"spec": POD_SPEC}]}
    assert len(read_manifests([nested, typed]).pods) == 3
    assert read_manifests([{"kind": "List", "items": []}]).pods == []


def test_what_has_no_pods_is_skipped_and_named() -> None:
    """Other kinds and other groups' kinds of the same name are skipped."""
    other = {"kind": "Job", "apiVersion": "nomad.example.com/v1"}
    service = {"kind": "Service", "metadata": {"name": "web"}}
    items = {"kind": "List", "items": [service]}
    found = read_manifests([None, service, other, items])
    assert found.pods == []
    assert found.skipped == [
        Skipped(2, "Service", "web"),
        Skipped(3, "Job", "(no name)"),
        Skipped(4, "Service", "web"),
    ]


def with_resources(resources: Any) -> dict[str, Any]:
    return pod(spec={"containers": [{"name": "app", "resources": resources}]})


LOOP: dict[str, Any] = {"kind": "List", "items": []}
LOOP["items"].append(LOOP)

CONTAINERS = "document 1 (Pod web): spec.containers"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("text", "document 1: 'text', expected a Kubernetes object"),
        ([], "document 1: [], expected a Kubernetes object"),
        ({}, "document 1: kind: None, expected one such as Pod"),
        ({"kind": 7}, "document 1: kind: 7, expected"),
        ({"kind": "List", "items": [{}]}, "document 1, items[0]: kind: None"),
        (LOOP, "expected no list this deep"),
        (pod(spec=None), "document 1 (Pod web): spec: missing, expected the spec"),
        ({"kind": "Job", "spec": {"template": 5}}, "spec.template.spec: 5, expected"),
        (pod(spec={}), f"{CONTAINERS}: missing, expected at least one"),
        (pod(spec={"containers": {"a": 1}}), f"{CONTAINERS}: {{'a': 1}}, expected a"),
        (pod(spec={"containers": ["app"]}), f"{CONTAINERS}[0]: 'app', expected"),
        (pod(spec={"containers": [{}]}), f"{CONTAINERS}[0].name: None, expected"),
        (
            pod(spec={**POD_SPEC, "runtimeClassName": ["runc"]}),
            "spec.runtimeClassName: ['runc'], expected a name",
        ),
        (with_resources(5), f"{CONTAINERS}[0].resources: 5, expected requests"),
        (
            with_resources({"limits": ["cpu"]}),
            f"{CONTAINERS}[0].resources.limits: ['cpu'], expected names",
        ),
        (
            with_resources({"limits": {"memory": "1GB"}}),
            f"{CONTAINERS}[0].resources.limits.memory: '1GB', expected a quantity",
        ),
        (
            with_resources({"limits": {"memory": "12E"}}),
            "limits.memory: '12E', expected at most 9223372036854775807",
        ),
        (
            with_resources({"requests": {"cpu": "10P"}}),
            "requests.cpu: '10P', expected at most 9223372036854775",
        ),
        (
            pod(
                spec={
                    **POD_SPEC,
                    "ephemeralContainers": [
                        {"name": "debug", "resources": {"limits": {"cpu": 1}}}
                    ],
                }
            ),
            "spec.ephemeralContainers[0].resources: {'limits': {'cpu': 1}}, expected",
        ),
        (
            with_resources({"requests": {"cpu": 2}, "limits": {"cpu": "1"}}),
            "requests.cpu: 2, expected at most the limit, '1'",
        ),
        (
            pod(spec={**POD_SPEC, "resources": {"limits": {"cpu": "x"}}}),
            "document 1 (Pod web): spec.resources.limits.cpu: 'x', expected",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(document: Any, message: str) -> None:
    """The error has document, object, field, value and what was expected."""
    with pytest.raises(ConfigError) as caught:
        read_manifests([document])
    assert message in str(caught.value)
    assert str(caught.value).startswith("document 1")


def test_labels_and_annotations_are_the_pods() -> None:
    """They are the pod's and not the workload's; numbers become text."""
    template = {
        "metadata": {"labels": {"a": "pod"}, "annotations": {"n": 5}},
        "spec": {"containers": [{"name": "app"}]},
    }
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"a": "workload"}},
        "spec": {"template": template},
    }
    bare = {"kind": "Pod", "metadata": None, "spec": template["spec"]}
    web, without = read_manifests([document, bare]).pods
    assert (web.labels, web.annotations) == ({"a": "pod"}, {"n": "5"})
    assert (without.labels, without.annotations) == ({}, {})
