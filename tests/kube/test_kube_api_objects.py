"""Nodes and pods as `kubectl get -o yaml` prints them, and kubelet's checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nriplugin.errors import ConfigError
from nriplugin.kube.api_objects import RunningContainer, read_active_pods, read_node
from nriplugin.kube.checkpoint_pods import checkpoint_pods

CAPACITY = {"cpu": "8", "memory": "32Gi"}


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": "one", "containers": [{"name": "app"}]},
        "status": status,
    }


def test_pods_that_have_ended_or_are_elsewhere_are_left_out() -> None:
    """A list is its items; without a node's name, pods of all nodes count."""
    pods = [pod("a"), pod("b", phase="Failed"), pod("c", phase="Succeeded")]
    pods[0]["spec"]["nodeName"] = "two"
    documents = [{"kind": "List", "items": pods}, pod("d", phase="Running"), None]
    assert [one.pod.name for one in read_active_pods(documents, None)] == ["a", "d"]
    assert [one.pod.name for one in read_active_pods(documents, "one")] == ["d"]


def test_a_pod_that_waits_for_a_node_is_on_none() -> None:
    """One without a status is yet to be created."""
    pods = [pod("a", phase="Pending"), pod("b"), pod("c", phase="Pending")]
    del pods[0]["spec"]["nodeName"], pods[1]["spec"]["nodeName"]
    for node in (None, "one"):
        assert [one.pod.name for one in read_active_pods(pods, node)] == ["b", "c"]


def test_only_running_containers_have_an_id() -> None:
    """The scheme of the ID is the runtime; sidecars are among init containers."""
    ended = {"name": "init", "containerID": "cri-o://1", "state": {"terminated": {}}}
    side = {"name": "side", "containerID": "cri-o://2", "state": {"running": {}}}
    app = {"name": "app", "containerID": "", "state": {"waiting": {}}}
    given = pod("a", initContainerStatuses=[ended, side], containerStatuses=[app])
    (one,) = read_active_pods([given], None)
    assert one.running == {"side": RunningContainer("cri-o", "2")}


@pytest.mark.parametrize(("waits", "cpu"), [("True", "1"), ("False", "2")])
def test_a_resize_that_waits_has_not_happened(waits: str, cpu: str) -> None:
    """Until kubelet has allocated them, the earlier resources are in force."""

    def limited(cpu: str) -> dict[str, Any]:
        return {"limits": {"cpu": cpu}}

    given = pod(
        "a",
        conditions=[{"type": "PodResizePending", "status": waits}],
        containerStatuses=[
            {"name": "app", "resources": limited("1")},
            {"name": "new"},  # kubelet has said nothing of its resources
        ],
        initContainerStatuses=[{"name": "side", "resources": limited("1")}],
        resources=limited("1"),
    )
    two = limited("2")
    given["spec"] |= {
        "containers": [{"name": name, "resources": two} for name in ("app", "new")],
        "initContainers": [{"name": "side", "resources": two}],
        "resources": two,
    }
    (one,) = read_active_pods([given], None)
    spec = one.pod.spec
    assert {c.name: c.limits["cpu"] for c in spec.containers} == {
        "app": cpu,
        "new": "2",
        "side": cpu,
    }
    assert spec.resources is not None
    assert spec.resources.limits == {"cpu": cpu}


@pytest.mark.parametrize("wrong", [5, "text", {"a": 1}, [5, None, "text"]])
def test_a_status_that_is_none(wrong: object) -> None:
    """What is no list of conditions or of containers says nothing."""
    status = {"conditions": wrong, "containerStatuses": wrong}
    (one,) = read_active_pods([pod("a", **status)], None)
    assert one.running == {}


def test_a_status_with_names_that_are_none() -> None:
    """A waiting resize is looked up by names; others match no container."""
    waits = {"conditions": [{"type": "PodResizePending", "status": "True"}]}
    names: list[object] = [["a"], {"a": 1}, None, 5]
    status = {**waits, "containerStatuses": [{"name": one} for one in names]}
    (one,) = read_active_pods([pod("a", **status)], None)
    assert len(one.pod.spec.containers) == 1
    nameless = pod("a", **waits, containerStatuses=[{"resources": {}}])
    nameless["spec"]["containers"] = [5, {}]
    with pytest.raises(ConfigError, match=r"containers\[0\]: 5, expected a container"):
        read_active_pods([nameless], None)


def test_a_node_has_capacity_and_allocatable() -> None:
    """They are two things; a node that has reported nothing is refused."""
    status = {"capacity": CAPACITY, "allocatable": {"cpu": "7", "memory": "30Gi"}}
    node = {"kind": "Node", "metadata": {"name": "one"}, "status": status}
    found = read_node([node], "node.yaml")
    assert (found.capacity["cpu"], found.allocatable["cpu"]) == ("8", "7")
    for documents in ([], [node, node], [pod("a")]):
        with pytest.raises(ConfigError, match=r"node.yaml: . nodes, expected one"):
            read_node(documents, "node.yaml")
    with pytest.raises(ConfigError, match=r"status.capacity: no cpu or no memory"):
        read_node([{"kind": "Node"}], "node.yaml")


def test_the_checkpoint_has_containers_and_pod_level_resources() -> None:
    """A pod is called by its UID."""
    entry = {
        "ContainerResources": {"app": {"requests": {"cpu": "1"}}, "other": None},
        "PodLevelResources": {"limits": {"cpu": "2"}},
    }
    text = json.dumps({"data": json.dumps({"entries": {"u1": entry}})})
    (one,) = read_active_pods(checkpoint_pods(text, "state"), None)
    assert (one.pod.uid, one.pod.name) == ("u1", "u1")
    assert [c.name for c in one.pod.spec.containers] == ["app", "other"]
    assert one.pod.spec.resources is not None
    assert one.pod.spec.resources.limits == {"cpu": "2"}


@pytest.mark.parametrize("text", ["", "{}", '{"data": "[]"}', '{"data": 5}'])
def test_another_shape_is_no_checkpoint(text: str) -> None:
    """The line names the file and what was expected."""
    with pytest.raises(ConfigError, match=r"state: .*expected kubelet's checkpoint"):
        checkpoint_pods(text, "state")
