from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from nriplugin.convert import Curve
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.settings import EngineConfig, Settings
from nriplugin.errors import ConfigError
from nriplugin.explain import TYPICAL_NODE, explain_pod
from nriplugin.kube.manifests import read_manifests

if TYPE_CHECKING:
    from nriplugin.explained import ExplainedContainer, ExplainedPod


def explained(
    resources: dict[str, Any],
    curve: Curve = Curve.QUADRATIC,
    **metadata: str,
) -> ExplainedPod:
    document = {
        "kind": "Pod",
        "metadata": {"name": "web", **metadata},
        "spec": {"containers": [{"name": "app", "resources": resources}]},
    }
    [pod] = read_manifests([document]).pods
    return explain_pod(pod, facts=TYPICAL_NODE._replace(curve=curve))


def container(resources: dict[str, Any], **options: Any) -> ExplainedContainer:
    [only] = explained(resources, **options).containers
    return only


def test_the_whole_way() -> None:
    """From quantities to v1 numbers to v2 files, each with its rule and fields."""
    only = container(
        {"requests": {"cpu": "500m"}, "limits": {"cpu": 1, "memory": "1Gi"}}
    )
    assert only.requests == {"cpu": "500m", "memory": "1Gi"}
    assert only.defaulted == ("memory",)
    assert only.limits == {"cpu": 1, "memory": "1Gi"}
    assert only.sent == {
        "cpu.shares": 512,
        "cpu.quota": 100_000,
        "cpu.period": 100_000,
        "memory.limit": 1 << 30,
    }
    assert {file.file: (file.value, file.fields) for file in only.files} == {
        "cpu.weight": ("59", ("cpu.shares",)),
        "cpu.max": ("100000 100000", ("cpu.quota", "cpu.period")),
        "memory.max": ("1073741824", ("memory.limit",)),
    }
    assert all(file.rule for file in only.files)
    assert only.dropped == only.clamped == ()


def test_every_source_field_was_sent_or_is_absent() -> None:
    """The rules name fields as `sent` does, so that a reader can look them up."""
    only = container({"limits": {"cpu": 1, "memory": "1Gi"}})
    assert {field for file in only.files for field in file.fields} == set(only.sent)


@pytest.mark.parametrize(
    ("curve", "weight"),
    [(Curve.KEP, "39"), (Curve.QUADRATIC, "100"), (Curve.PROPORTIONAL, "100")],
)
def test_the_curve_is_the_one_asked_for(curve: Curve, weight: str) -> None:
    """The result names the curve."""
    pod = explained({"requests": {"cpu": 1}}, curve)
    assert pod.curve == curve.value
    assert pod.containers[0].files[0].value == weight


def test_without_limits_there_is_no_limit() -> None:
    """The kubelet sends the least shares, and a period alone."""
    only = container({})
    assert only.sent == {"cpu.shares": 2, "cpu.period": 100_000}
    files = {file.file: file.value for file in only.files}
    assert files == {"cpu.weight": "1", "cpu.max": "max 100000"}


@pytest.mark.parametrize(
    ("resources", "qos", "directory", "slice_path"),
    [
        (
            {},
            "BestEffort",
            "/besteffort",
            "/kubepods-besteffort.slice/kubepods-besteffort",
        ),
        (
            {"requests": {"cpu": 1}},
            "Burstable",
            "/burstable",
            "/kubepods-burstable.slice/kubepods-burstable",
        ),
        ({"limits": {"cpu": 1, "memory": 1}}, "Guaranteed", "", "/kubepods"),
    ],
)
def test_the_pods_cgroup(
    resources: dict[str, Any], qos: str, directory: str, slice_path: str
) -> None:
    """Follows from the QoS class and the UID, for both drivers."""
    pod = explained(resources, uid="7b0f-11")
    assert pod.qos_class == qos
    assert pod.cgroups == {
        "cgroupfs": f"/kubepods{directory}/pod7b0f-11",
        "systemd": f"/kubepods.slice{slice_path}-pod7b0f_11.slice",
    }


def test_an_unknown_uid_is_recognisable() -> None:
    """Both paths show that the UID is not known."""
    assert all("pod<uid>" in path for path in explained({}).cgroups.values())


def test_a_uid_that_no_cgroup_can_have_is_refused() -> None:
    """Such a UID could name another directory."""
    with pytest.raises(ConfigError, match="expected a name without"):
        explained({}, uid="../x")


def test_a_value_that_no_file_can_hold_is_refused() -> None:
    """The message names the container and the field."""
    with pytest.raises(ConfigError, match=r"^container app: cpu\.quota: \d+, expected"):
        explained({"limits": {"cpu": "1G"}})


def test_it_is_ready_for_json() -> None:
    """The result consists of plain values."""
    pod = explained({"limits": {"cpu": 0.5}})
    assert json.loads(json.dumps(dataclasses.asdict(pod)))["qos_class"] == "Burstable"


def test_a_sidecars_estimate_is_its_smallest_siblings() -> None:
    """As on the node: so its limit is all that is protected, and nothing without."""
    small = {"requests": {"memory": "64Mi"}}
    document = {
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "initContainers": [
                {"name": name, "restartPolicy": "Always", "resources": given}
                for name, given in (
                    ("proxy", small),
                    ("limited", {**small, "limits": {"memory": "128Mi"}}),
                )
            ],
            "containers": [
                {"name": "app", "resources": {"requests": {"memory": "4Gi"}}},
            ],
        },
    }
    [pod] = read_manifests([document]).pods
    facts = TYPICAL_NODE._replace(memory_capacity_bytes=64 << 30)
    config = EngineConfig(base=Settings(MemoryQoSSettings(enabled=True)))
    found = {
        one.name: {file.file: file.value for file in one.files}
        for one in explain_pod(pod, config, facts).containers
    }
    assert "memory.low" not in found["proxy"]
    assert found["limited"]["memory.low"] == str(128 << 20)
