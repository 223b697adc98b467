"""What concerns nriplugin of kubelet: mistakes, cgroup driver, MemoryQoS, checkpoint.

The gate MemoryQoS is on by default from Kubernetes 1.37 on, but sets nothing unless
`memoryThrottlingFactor` or `memoryReservationPolicy` is configured. Before, it is off;
turned on, it throttles at a factor of 0.9 without further configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.finding import note, ok, warning
from nriplugin.daemon.doctor.runtime_files import CONTAINERD
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.errors import NRIPluginError
from nriplugin.kube.kubelet_values import MEMORY_QOS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

TIERED = "TieredReservation"


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say what kubelet is told, and where that meets nriplugin."""
    if not host.kubelet.sources and not host.kubelet.problems:
        yield note(
            "kubelet",
            "No kubelet and no configuration of one is to be seen below "
            f"{host.node.host_root}.",
            "Nothing to do on a machine without kubelet. A pod needs hostPID, or the "
            "node's /var/lib/kubelet below the host root.",
        )
        return
    yield from _settings(host)
    yield from _driver_conflict(host)
    yield from _memory_qos(host)
    yield from _checkpoint(host)


def _settings(host: ExaminedHost) -> Iterator[CheckFinding]:
    places = ", ".join(host.kubelet.sources) or "no file that can be read"
    yield ok("kubelet", f"kubelet's settings are in {places}.")
    for line in host.kubelet.problems:
        yield warning(
            "kubelet-settings",
            f"kubelet's settings have a mistake. {line}.",
            "Correct it and restart kubelet, which refuses such a value or passes over "
            "it. Until then nriplugin takes it as not set.",
        )


def _driver_conflict(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Compare kubelet's cgroup driver with the runtime's."""
    kubelet = host.kubelet.settings
    of_kubelet = kubelet.capacity.driver
    for settings in host.runtimes:
        if not settings.files:
            continue
        by_default = "cgroupfs" if settings.name == CONTAINERD else "systemd"
        of_runtime = by_default
        if settings.systemd is not None:
            of_runtime = "systemd" if settings.systemd else "cgroupfs"
        expected = of_kubelet or "cgroupfs"
        if of_runtime == expected:
            yield ok(
                "driver-conflict", f"kubelet and {settings.name} both use {of_runtime}."
            )
            continue
        said = "not configured, so by default"
        if of_kubelet is not None:
            said = kubelet.place("cgroupDriver")
        wanted = f'cgroup_manager = "{expected}"'
        if settings.name == CONTAINERD:
            value = str(expected == "systemd").lower()
            wanted = f"SystemdCgroup = {value} for the default runtime"
        yield warning(
            "driver-conflict",
            f"kubelet's cgroup driver is {expected} ({said}), and {settings.name}'s "
            f"is {of_runtime}. From Kubernetes 1.31 on kubelet takes the runtime's, "
            "where the runtime tells it (containerd 2, CRI-O); else pods do not start.",
            f"Set {wanted} in {settings.main_file}, or cgroupDriver: {of_runtime} in "
            "kubelet's configuration.",
        )


def _memory_qos(host: ExaminedHost) -> Iterator[CheckFinding]:
    settings = host.kubelet.settings.capacity
    # Not the default: kubelet may be older than 1.37.
    gate = settings.feature_gates.get(MEMORY_QOS)
    gate_place = host.kubelet.settings.place(f"featureGates.{MEMORY_QOS}")
    files = ["memory.high"] * (settings.memory_throttling_factor is not None)
    if settings.memory_reservation_policy == TIERED:
        files += ["memory.min", "memory.low"]
    if gate is False or (gate is None and not files):
        text = f"kubelet's MemoryQoS is off in {gate_place}."
        if gate is None:
            text = (
                "kubelet's MemoryQoS is not configured. From Kubernetes 1.37 on it is "
                "on by default, but sets no file without memoryThrottlingFactor or "
                f"memoryReservationPolicy: {TIERED}."
            )
        yield ok("memory-qos", text)
        return
    if gate and not files:
        text = (
            f"kubelet's MemoryQoS is on in {gate_place}: before Kubernetes 1.37 it "
            "sets memory.high, from 1.37 on nothing without memoryThrottlingFactor."
        )
    else:
        since = "" if gate else " (if kubelet is 1.37 or newer)"
        text = f"kubelet's MemoryQoS sets {', '.join(files)}{since}."
    if not _own_memory_qos(host):
        yield note(
            "memory-qos",
            text,
            "Nothing to do: memoryQoS is off in nriplugin's configuration. Leave it "
            "off, or turn kubelet's off first.",
        )
        return
    yield warning(
        "memory-qos",
        f"{text} memoryQoS is on in nriplugin, too. kubelet's values win, except on "
        "NRI before 0.10 (containerd up to 2.1, CRI-O up to 1.33), where nriplugin "
        "cannot see them and replaces them.",
        "Keep one: featureGates: {MemoryQoS: false} in kubelet's configuration, or "
        "memoryQoS: {enabled: false} in nriplugin's.",
    )


def _checkpoint(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say whether memory requests can be read from kubelet's checkpoint."""
    from nriplugin.config import Config
    from nriplugin.node.kubelet_checkpoint import read_checkpoint

    config = host.config if isinstance(host.config, Config) else Config()
    section, needed = config.kubelet_checkpoint, config.engine.uses_memory_requests
    unused = "" if needed else " No handler that needs memory requests is on."
    if not section.enabled:
        yield note(
            "kubelet-checkpoint",
            f"kubeletCheckpoint is off: memory requests are estimated.{unused}",
            "Set kubeletCheckpoint: {enabled: true}, unless they are to be estimated.",
        )
        return
    try:
        _, requests = read_checkpoint(host.files.path(section.path))
    except (OSError, NRIPluginError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        text = (
            f"kubelet's checkpoint {section.path} cannot be read: {reason}. Memory "
            f"requests are estimated from oom_score_adj.{unused}"
        )
        advice = (
            "kubelet has the file from Kubernetes 1.33 on. A pod needs the component "
            "kubelet-checkpoint (deploy/README.md); if kubelet's root is another "
            "directory, set kubeletCheckpoint.path."
        )
        if needed:
            yield warning("kubelet-checkpoint", text, advice)
        else:
            yield note("kubelet-checkpoint", text, advice)
        return
    yield ok(
        "kubelet-checkpoint",
        f"kubelet's checkpoint {section.path} can be read, with {len(requests)} pods: "
        f"memory requests are exact.{unused}",
    )


def _own_memory_qos(host: ExaminedHost) -> bool:
    """Whether nriplugin's configuration has memoryQoS on, for some containers."""
    from nriplugin.config import Config

    if not isinstance(host.config, Config):
        return False
    engine = host.config.engine
    every = [engine.base, *(rule.settings for rule in engine.rules)]
    return any(settings.of(MemoryQoSSettings).enabled for settings in every)
