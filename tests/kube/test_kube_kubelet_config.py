"""What kubelet's files and flags say about MemoryQoS and the runtime's socket."""

from __future__ import annotations

import pytest

from nriplugin.kube.kubelet_config import parse_arguments, parse_config_file


def test_a_configuration_file() -> None:
    found = parse_config_file(
        "cgroupDriver: systemd\n"
        "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"
        "featureGates: {MemoryQoS: true, Other: false}\n"
        "memoryThrottlingFactor: 0.9\n"
        "memoryReservationPolicy: TieredReservation\n",
        "config.yaml",
    )
    assert found.driver == "systemd"
    assert found.runtime_endpoint == "unix:///run/crio/crio.sock"
    assert found.memory_qos is True
    assert found.throttling_factor == "0.9"
    assert found.reservation_policy == "TieredReservation"


@pytest.mark.parametrize(
    "text", ["a: 1", "featureGates: [MemoryQoS]", "featureGates: {MemoryQoS: maybe}"]
)
def test_what_is_not_there_is_none(text: str) -> None:
    found = parse_config_file(text, "config.yaml")
    assert found.memory_qos is None
    assert found.throttling_factor is None
    assert found.runtime_endpoint is None


@pytest.mark.parametrize(
    ("flag", "gate"),
    [
        ("--feature-gates=MemoryQoS=true", True),
        ("--feature-gates=A=true,MemoryQoS=False", False),
        ("--feature-gates=A=true, MemoryQoS=1", True),
        ("--feature-gates=A=true", None),
        ("--feature-gates=MemoryQoS", None),
        ("--v=2", None),
    ],
)
def test_feature_gates_of_the_command_line(flag: str, gate: bool | None) -> None:
    words = ["kubelet", flag, "--container-runtime-endpoint", "unix:///x.sock"]
    found = parse_arguments(words)
    assert found.memory_qos is gate
    assert found.runtime_endpoint == "unix:///x.sock"
