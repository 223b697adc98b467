"""The findings about kubelet: the driver, and its MemoryQoS beside nriplugin's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.checkpoints import checkpoint_text

from nriplugin.daemon.doctor.kubelet import check

if TYPE_CHECKING:
    from support.hosts import FakeHost

OPTIONS = "containerd.runtimes.{}.options]\nSystemdCgroup = true\n"
ON = "memoryQoS: {enabled: true}"
GOOD = checkpoint_text({"7b0f": {"app": "64Mi"}}).decode()
V2 = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'."
V3 = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'."


def test_a_machine_without_kubelet(host: FakeHost) -> None:
    assert host.one(check, "kubelet")[0] == "note"
    host.kubelet("cgroupDriver: systemd\n")
    level, text, _ = host.one(check, "kubelet")
    assert level == "ok"
    assert "config.yaml" in text


@pytest.mark.parametrize(
    ("kubelet", "path", "runtime", "level"),
    [
        ("systemd", "containerd/config.toml", V2 + OPTIONS.format("runc"), "ok"),
        ("systemd", "containerd/config.toml", V3 + OPTIONS.format("runc"), "ok"),
        ("cgroupfs", "containerd/config.toml", V3 + OPTIONS.format("runc"), "warning"),
        # Only the default runtime counts.
        ("systemd", "containerd/config.toml", V3 + OPTIONS.format("crun"), "warning"),
        (
            *("systemd", "containerd/config.toml"),
            V3 + OPTIONS.format("crun") + "[plugins.'io.containerd.cri.v1.runtime'."
            "containerd]\ndefault_runtime_name = 'crun'\n",
            "ok",
        ),
        ("cgroupfs", "containerd/config.toml", "version = 2\n", "ok"),
        ("systemd", "crio/crio.conf", "", "ok"),
        ("cgroupfs", "crio/crio.conf", "", "warning"),
        (
            *("cgroupfs", "crio/crio.conf"),
            *("[crio.runtime]\ncgroup_manager = 'cgroupfs'\n", "ok"),
        ),
    ],
)
def test_the_drivers_of_kubelet_and_runtime(
    host: FakeHost, kubelet: str, path: str, runtime: str, level: str
) -> None:
    """The runtime's default counts if its configuration does not say."""
    host.kubelet(f"cgroupDriver: {kubelet}\n")
    host.write(f"/etc/{path}", runtime)
    found = host.one(check, "driver-conflict")
    assert found[0] == level
    key = "cgroup_manager = " if "crio" in path else "SystemdCgroup = "
    assert found[2].startswith(f"Set {key}") is (level == "warning")


@pytest.mark.parametrize(
    ("kubelet", "own", "level", "words"),
    [
        ("a: 1", "on", "ok", "is not configured"),
        ("featureGates: {MemoryQoS: false}", "on", "ok", "is off in"),
        (
            *("featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.9", "on"),
            *("ok", "is off in"),
        ),
        ("featureGates: {MemoryQoS: true}", "off", "note", "before Kubernetes 1.37"),
        ("featureGates: {MemoryQoS: true}", "on", "warning", "before Kubernetes 1.37"),
        ("memoryThrottlingFactor: 0.9", "on", "warning", "sets memory.high (if"),
        ("memoryThrottlingFactor: 0.9", "rule", "warning", "sets memory.high (if"),
        ("memoryThrottlingFactor: 0.9", "", "note", "sets memory.high (if"),
        (
            "featureGates: {MemoryQoS: true}\nmemoryReservationPolicy: "
            "TieredReservation",
            *("on", "warning", "sets memory.min, memory.low."),
        ),
        ("memoryReservationPolicy: None", "on", "ok", "is not configured"),
    ],
)
def test_memory_qos_of_kubelet_and_of_nriplugin(
    host: FakeHost, kubelet: str, own: str, level: str, words: str
) -> None:
    """Only files that kubelet really sets are a conflict, and only with ours on."""
    host.kubelet(f"{kubelet}\n")
    texts = {
        "on": "memoryQoS: {enabled: true}\n",
        "off": "memoryQoS: {enabled: false}\n",
        "rule": "rules: [{match: {namespace: a}, memoryQoS: {enabled: true}}]\n",
    }
    if own:
        host.config = str(host.directory / "config.yaml")
        (host.directory / "config.yaml").write_text(texts[own])
    found = host.one(check, "memory-qos")
    assert found[0] == level
    assert words in found[1]


def test_flags_of_the_kubelet_process_win(host: FakeHost) -> None:
    """`--feature-gates` is read as kubelet reads it."""
    host.kubelet("featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.9\n")
    assert host.one(check, "memory-qos")[0] == "note"
    host.process(5, "/usr/bin/kubelet --feature-gates=A=true,MemoryQoS=false")
    assert host.one(check, "memory-qos")[0] == "ok"


def test_mistakes_in_kubelets_settings_are_named(host: FakeHost) -> None:
    """Each is a finding of its own, with file and line."""
    host.kubelet("cgroupDriver: systemd\n")
    assert host.find(check, "kubelet-settings") == []
    host.kubelet("cgroupDriver: systemd\nsystemReserved:\n  cpu: 2\ncpuCfsQuota: no\n")
    assert host.one(check, "kubelet")[0] == "ok"
    misspelt, wrong = host.find(check, "kubelet-settings")
    assert (misspelt[0], wrong[0]) == ("warning", "warning")
    assert (
        "config.yaml:4: 'cpuCfsQuota' is unknown, expected cpuCFSQuota" in misspelt[1]
    )
    assert "config.yaml:3: systemReserved.cpu: 2, expected a quantity" in wrong[1]


@pytest.mark.parametrize(
    ("config", "text", "level", "said"),
    [
        ("{}", None, "note", "cannot be read: No such file or directory"),
        (ON, None, "warning", "cannot be read: No such file or directory"),
        (ON, "garbage", "warning", "cannot be read: JSON is malformed"),
        (ON, GOOD, "ok", "can be read, with 1 pods: memory requests are exact."),
        ("{}", GOOD, "ok", "No handler that needs memory requests is on."),
        ("kubeletCheckpoint: {enabled: false}", GOOD, "note", "is off"),
    ],
)
def test_whether_memory_requests_can_be_exact(
    host: FakeHost, config: str, text: str | None, level: str, said: str
) -> None:
    """The checkpoint is read as the daemon would read it."""
    host.kubelet("cgroupDriver: systemd\n")
    file = host.directory / "config.yaml"
    file.write_text(config)
    host.config = str(file)
    if text is not None:
        host.write("/var/lib/kubelet/allocated_pods_state", text)
    found = host.one(check, "kubelet-checkpoint")
    assert found[0] == level
    assert said in found[1]
    assert bool(found[2]) is (level != "ok")
