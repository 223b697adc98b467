from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import CONTAINERD, VERSIONS, GoRuntimeError, release_of

if TYPE_CHECKING:
    from support.gopeers import CallLog, GoRuntime, Observed, Starter

pytestmark = pytest.mark.needs_go

POD = {"id": "p1", "name": "web", "namespace": "default", "uid": "u1"}
CONTAINER = {"id": "c1", "podSandboxId": "p1", "name": "server"}

# A CRI-O with each version, or the last before it.
CRIO = {
    "0.6.1": "1.31.0",
    "0.8.0": "1.32.0",
    "0.10.0": "1.34.0",
    "0.11.0": "1.36.0",
    "0.12.5": "1.37.0",
}

# A pod's life in the order in which a runtime tells it, since which release. The
# operations that are questions have commands of their own.
LIFE = [
    ("RunPodSandbox", (0, 2)),
    ("UpdatePodSandbox", (0, 10)),
    ("PostUpdatePodSandbox", (0, 10)),
    ("CreateContainer", (0, 2)),
    ("PostCreateContainer", (0, 2)),
    ("StartContainer", (0, 2)),
    ("PostStartContainer", (0, 2)),
    ("UpdateContainer", (0, 2)),
    ("PostUpdateContainer", (0, 2)),
    ("StopContainer", (0, 2)),
    ("RemoveContainer", (0, 2)),
    ("StopPodSandbox", (0, 2)),
    ("RemovePodSandbox", (0, 2)),
]
COMMANDS = {
    "CreateContainer": "create",
    "UpdateContainer": "update",
    "StopContainer": "stop",
}


def perform(runtime: GoRuntime, name: str, **arguments: object) -> dict[str, Any]:
    """Make the runtime tell its plugins of something."""
    if name in COMMANDS:
        return runtime(COMMANDS[name], **arguments)
    return runtime("event", event=name, **arguments)


def resources_of(update: dict[str, Any]) -> dict[str, Any]:
    """Return the resources of an update."""
    resources: dict[str, Any] = update["linux"]["resources"]
    return resources


def test_each_event_arrives_once_in_order(observed: Observed) -> None:
    """A plugin hears of every step of a pod's life, once, in order, with its ids."""
    runtime, log, _ = observed
    known = [name for name, since in LIFE if since <= runtime.release]
    for name in known:
        perform(runtime, name, pod=POD, container=CONTAINER)
    assert log.calls() == [
        (name, "p1", "" if name.endswith("PodSandbox") else "c1") for name in known
    ]


@pytest.mark.parametrize("command", ["create", "update", "stop"])
def test_an_answer_updates_another_container(observed: Observed, command: str) -> None:
    """Updates of other containers in an answer reach the runtime."""
    pod = {**POD, "annotations": {"update": "c000003"}}
    reply = observed.runtime(command, pod=pod, container=CONTAINER)
    other = [u for u in reply["update"] if u["containerId"] == "c000003"]
    assert [resources_of(u)["unified"] for u in other] == [{"cpu.weight": "42"}]


def test_an_update_without_an_entry_leaves_the_request(observed: Observed) -> None:
    """Where a plugin says nothing, nothing replaces kubelet's request."""
    asked = {"cpu": {"shares": {"value": "77"}}}
    reply = observed.runtime("update", pod=POD, container=CONTAINER, resources=asked)
    assert reply["update"] == []


def test_resources_become_unified_keys(runtime: GoRuntime, nriplugin: Starter) -> None:
    """nriplugin answers with cgroup v2 files, and leaves kubelet's numbers alone."""
    runtime.start(containers=3)
    with nriplugin():
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        assert sync["updates"] == []

        adjust = runtime.create()
        assert adjust["linux"]["resources"]["unified"] == {
            "cpu.weight": "59",
            "cpu.max": "50000 100000",
            "memory.max": "268435456",
        }
        assert not adjust["linux"]["resources"].get("memory", {}).get("limit")

        unlimited = {
            "cpu": {"shares": {"value": "1024"}, "quota": {"value": "-1"}},
            "memory": {"limit": {"value": "-1"}},
            "unified": {"memory.max": "123"},
        }
        container = {**CONTAINER, "linux": {"resources": unlimited}}
        adjust = runtime.create(pod=POD, container=container)
        assert adjust["linux"]["resources"]["unified"] == {
            "cpu.weight": "100",
            "cpu.max": "max 100000",
        }

        assert runtime.create(pod=POD, container=CONTAINER) is None

        asked: dict[str, dict[str, Any]] = {
            "cpu": {
                "shares": {"value": "2048"},
                "quota": {"value": "150000"},
                "period": {"value": "50000"},
                "cpus": "0-1",
            },
            "memory": {"limit": {"value": "536870912"}},
        }
        reply = runtime("update", pod=POD, container=CONTAINER, resources=asked)
        (update,) = reply["update"]
        assert update["containerId"] == "c1"
        resources = resources_of(update)
        for group, fields in asked.items():
            assert fields.items() <= resources[group].items()
        assert resources["unified"] == {
            "cpu.weight": "174",
            "cpu.max": "150000 50000",
            "memory.max": "536870912",
        }

        assert runtime("stop", pod=POD, container=CONTAINER)["update"] == []
        assert runtime("plugins")["connected"] == 1


@pytest.mark.parametrize(
    "version",
    [v for v in VERSIONS if release_of(v) >= (0, 10)],
    scope="module",
)
def test_a_validator_sees_and_rejects(
    runtime: GoRuntime, observer: Starter, log: CallLog
) -> None:
    """Since NRI 0.10 a plugin is shown the whole adjustment, and may reject it."""
    assert runtime("validate_supported")["supported"]
    runtime.start()
    with observer("--validate"):
        runtime.wait_sync()
        log.skip()
        assert runtime.create(pod=POD, container=CONTAINER)
        create, validate = log.lines()
        assert create["method"] == "CreateContainer"
        assert validate["method"] == "ValidateContainerAdjustment"
        assert (validate["pod"], validate["container"]) == ("p1", "c1")
        assert validate["seen"] == "c1"

        pod = {**POD, "annotations": {"reject": "not on my node"}}
        with pytest.raises(GoRuntimeError, match="not on my node"):
            runtime.create(pod=pod, container=CONTAINER)
        assert runtime.create(pod=POD, container=CONTAINER)
        assert runtime("plugins")["connected"] == 1


def test_the_runtime_introduces_itself(
    runtime: GoRuntime, observer: Starter, log: CallLog
) -> None:
    """Configure tells the runtime's name and version, before anything else."""
    runtime.start()
    with observer():
        runtime.wait_sync()
    first, second = log.lines()
    assert first["method"] == "Configure"
    assert first["runtime"] == ["containerd", CONTAINERD[runtime.version]]
    assert first["config"] == ""
    assert second["method"] == "Synchronize"


@pytest.mark.parametrize("name", ["v2", "cri-o", "other"])
def test_no_runtime_is_asked_for_events_it_lacks(
    runtime: GoRuntime, observer: Starter, name: str
) -> None:
    """However a runtime calls itself, the subscription stays within what it knows."""
    versions = CRIO if name == "cri-o" else CONTAINERD
    runtime.start(name=name, version=versions[runtime.version])
    with observer("--validate"):
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        assert runtime.create()


@pytest.mark.parametrize("differ", [False, True])
def test_what_is_measured_is_what_was_asked_for(
    observed: Observed, differ: bool
) -> None:
    """Replicas, or containers of which no two are alike; with the pod's annotations."""
    annotations = {"a.cgroup2.nri.io": "x" * 100}
    runtime, log, _ = observed
    reply = runtime("bench", count=4, warmup=2, annotations=annotations, differ=differ)
    assert len(reply["nanos"]) == 4
    lines = log.lines("CreateContainer")
    assert all("a.cgroup2.nri.io" in line["annotations"] for line in lines)
    assert len({line["limit"] for line in lines}) == (6 if differ else 1)
