"""Every handler's files, read back from the kernel, under every runtime and driver."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

pytestmark = pytest.mark.timeout(1800)

# containerd-2 has nothing that both its successor and its predecessor lack.
NODES = ("containerd-2.4", "containerd-1.7", "containerd-1.6", "crio", "systemd")
each_node = on_nodes(*NODES)
# The OCI runtimes of each node.
PAIRS = [(node, handler) for node in NODES for handler in ("runc", "crun")]
# Throttling is the kernel's, so one OCI runtime shows it; only crun under systemd puts
# the container's processes into another cgroup.
THROTTLED = [pair for pair in PAIRS if pair[1] == "runc" or pair == ("systemd", "crun")]
each_runtime = pytest.mark.parametrize(("node", "handler"), PAIRS, indirect=["node"])

MIB = 1 << 20

CONFIG = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true}
cpuQoS: {enabled: true}
memoryQoSLevel: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [pids.max, memory.high]}
rules:
- name: by name and class
  match: {namespace: test, container: ruled, qosClass: Guaranteed}
  memoryQoS: {oomGroup: true, swap: 0, raiseAncestors: true}
"""
ANNOTATIONS = {
    "cpu-burst.cgroup2.nri.io/container.burst": "50%",
    "memory-request.cgroup2.nri.io/container.burst": "64Mi",
    "pids.max.cgroup2.nri.io/container.burst": "77",
    "qos-level.cgroup2.nri.io/container.idle": "BE",
    "memory-qos.cgroup2.nri.io/container.idle": "off",
    "memory.high.cgroup2.nri.io/container.hungry": str(64 * MIB),
    "memory-qos.cgroup2.nri.io/container.hungry": "off",
}
GIVEN = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 128 * MIB,
}

# By hand. The request of `burst` is 64 MiB of 128: 64 + 0.9 * 64, in whole pages.
BURST = {
    "cpu.max": "50000 100000",
    "cpu.max.burst": "25000",
    "memory.max": str(128 * MIB),
    "memory.high": "127504384",
    "memory.low": str(64 * MIB),
    "pids.max": "77",
}
# 0.8 * 128 MiB, in whole pages; cpu.weight shows nothing of interest beside cpu.idle.
IDLE = {"cpu.idle": "1", "cpu.max": "50000 100000", "memory.high": "107372544"}
RULED = {
    "memory.min": "120795136",  # 0.9 * 128 MiB, in whole pages
    "memory.oom.group": "1",
    "memory.swap.max": "0",
    "memory.high": "max",
}
# (what kubelet asks for, what the kernel holds then)
UPDATES: list[tuple[dict[str, int], dict[str, str]]] = [
    (
        {"cpu_quota": 20_000, "cpu_period": 100_000},
        {"cpu.max": "20000 100000", "cpu.max.burst": "10000"},
    ),
    (
        {"cpu_quota": 100_000, "cpu_period": 100_000},
        {"cpu.max": "100000 100000", "cpu.max.burst": "50000"},
    ),
    (
        {"memory": 256 * MIB},
        {
            "memory.max": str(256 * MIB),
            "memory.high": "248299520",  # 64 + 0.9 * 192
            "memory.low": str(64 * MIB),
            "cpu.max.burst": "50000",
        },
    ),
]


@dataclass
class Seen:
    """What became of the containers of one OCI runtime."""

    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    updates: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    idle_after_update: dict[str, str] = field(default_factory=dict)
    pod: dict[str, str] = field(default_factory=dict)
    ancestors: dict[str, str] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    alive: bool = False


@pytest.fixture(scope="module")
def seen(node: Machine, kubelet: Kubelet) -> dict[str, Any]:
    """All containers, under both OCI runtimes; and the plugin's log at the end."""
    node.write("/tmp/handlers.yaml", CONFIG)
    found: dict[str, Any] = {}
    with running(node, "--config", "/tmp/handlers.yaml") as plugin:
        for handler in ("runc", "crun"):
            found[handler] = one = Seen()
            with kubelet.sandbox("Burstable", handler, ANNOTATIONS) as pod:
                parent = pod_directory(node, kubelet.start(pod, "idle", GIVEN))
                node.write(f"{parent}/cpu.max", "40000 100000")
                throttled = (node.node.name, handler) in THROTTLED
                for name in ("burst", "hungry") if throttled else ("burst",):
                    kubelet.start(pod, name, GIVEN)
                containers = pod.containers
                for name, container in containers.items():
                    one.settings[name] = settings_of(kubelet, container)
                one.pod = read(node, parent, "cpu.max.burst")
                for options, files in UPDATES:
                    update = kubelet.update(containers["burst"], **options)
                    held = eventually(kubelet, containers, files)
                    one.updates.append((update.stderr, held))
                update = kubelet.update(containers["idle"], cpu_share=2048)
                assert update.code == 0, update.stderr
                one.idle_after_update = eventually(
                    kubelet, {"burst": containers["idle"]}, {"cpu.idle": "1"}
                )
                if throttled:
                    one.events, one.alive = go_beyond(node, containers["hungry"])
            # One is removed by the runtime, so that the plugin hears of a pod's end.
            remove = handler == "crun"
            with kubelet.sandbox("Guaranteed", handler, remove=remove) as pod:
                ruled = kubelet.start(pod, "ruled", GIVEN)
                one.settings["ruled"] = settings_of(kubelet, ruled)
                parent = pod_directory(node, ruled)
                for path in (parent, parent.rpartition("/")[0]):
                    one.ancestors[path] = read(node, path, "memory.min")["memory.min"]
        found["log"] = plugin.log()
    return found


def settings_of(kubelet: Kubelet, container: Container) -> dict[str, str]:
    """Return a container's settings, of these as they are where its processes are."""
    held = kubelet.settings(container)
    own = processes_in(kubelet.machine, container)
    inner = read(kubelet.machine, own, "memory.oom.group", "memory.swap.max")
    return {**held, **{file: value for file, value in inner.items() if value}}


def processes_in(node: Machine, container: Container) -> str:
    """Return the cgroup with the processes: crun with systemd has one more below."""
    (own,) = container.cgroups
    inner = f"{own}/container"
    return inner if read(node, inner, "cgroup.procs")["cgroup.procs"] else own


def pod_directory(node: Machine, container: Container) -> str:
    (own,) = container.cgroups
    return own.rpartition("/")[0]


def read(node: Machine, directory: str, *files: str) -> dict[str, str]:
    contents = node.read([f"{directory}/{file}" for file in files])
    return {
        path.rpartition("/")[2]: (content or "").strip()
        for path, content in contents.items()
    }


def eventually(
    kubelet: Kubelet, containers: dict[str, Container], files: dict[str, str]
) -> dict[str, str]:
    """Return files as soon as they hold what they should, or as they stay."""
    (own,) = containers["burst"].cgroups

    def look() -> dict[str, str]:
        return read(kubelet.machine, own, *files)

    return keep_looking(look, lambda held: held == files)


def go_beyond(node: Machine, container: Container) -> tuple[dict[str, int], bool]:
    """Have a container take more than its memory.high; return the kernel's counts."""
    (own,) = container.cgroups
    # dd takes all of a block into memory: more than memory.high, less than memory.max.
    # The kernel may hold it back for long.
    pid = node.spawn(
        *("crictl", "exec", container.id),
        *("dd", "if=/dev/zero", "of=/dev/null", f"bs={80 * MIB}", "count=1000"),
        log="/var/log/hungry.log",
    )

    def look() -> dict[str, int]:
        text = read(node, own, "memory.events")["memory.events"]
        return {k: int(v) for k, v in (line.split() for line in text.splitlines())}

    events = keep_looking(look, lambda counts: counts["high"] > 0)
    processes = read(node, processes_in(node, container), "cgroup.procs")
    alive = bool(processes["cgroup.procs"])
    node.stop(pid, 9)
    return events, alive


@each_runtime
def test_burst_and_memory_qos(seen: dict[str, Any], handler: str) -> None:
    """What annotations ask for is in the kernel, clamped and rounded, at the start."""
    settings = seen[handler].settings["burst"]
    assert {file: settings[file] for file in BURST} == BURST


@each_runtime
def test_the_pod_bursts_as_well(seen: dict[str, Any], handler: str) -> None:
    """The sum over its containers, which is 25000 here, before the container starts."""
    assert seen[handler].pod == {"cpu.max.burst": "25000"}


@each_runtime
def test_best_effort_is_idle(seen: dict[str, Any], handler: str) -> None:
    """Whether the runtime writes cpu.idle, or the plugin does it directly."""
    settings = seen[handler].settings["idle"]
    assert {file: settings[file] for file in IDLE} == IDLE


@each_runtime
def test_idle_stays_when_shares_are_updated(seen: dict[str, Any], handler: str) -> None:
    """The kernel refuses a weight beside cpu.idle; the update must succeed anyway."""
    assert seen[handler].idle_after_update == {"cpu.idle": "1"}


@each_runtime
def test_rules_reach_the_kernel(seen: dict[str, Any], handler: str) -> None:
    """A rule by namespace, container and QoS class."""
    settings = seen[handler].settings["ruled"]
    assert {file: settings[file] for file in RULED} == RULED


@each_runtime
def test_ancestors_are_raised(seen: dict[str, Any], handler: str) -> None:
    """A container's memory.min has no effect unless its ancestors have as much."""
    pod, kubepods = seen[handler].ancestors.values()
    assert pod == RULED["memory.min"]
    assert int(kubepods) >= int(pod)


@each_runtime
@pytest.mark.parametrize("step", range(len(UPDATES)))
def test_updates_are_derived_anew(
    seen: dict[str, Any], handler: str, step: int
) -> None:
    """Lower and higher quotas with their burst, and a new memory limit."""
    error, held = seen[handler].updates[step]
    assert not error
    assert held == UPDATES[step][1]


@pytest.mark.parametrize(("node", "handler"), THROTTLED, indirect=["node"])
def test_memory_high_throttles_and_does_not_kill(
    seen: dict[str, Any], handler: str
) -> None:
    """The kernel counts how often the container was held back; it kills no process."""
    events = seen[handler].events
    assert seen[handler].settings["hungry"]["memory.high"] == str(64 * MIB)
    assert events["high"] > 0
    assert (events["oom"], events["oom_kill"], events["max"]) == (0, 0, 0)
    assert seen[handler].alive


@each_node
def test_nothing_was_refused(node: Machine, seen: dict[str, Any]) -> None:
    """No write failed and no annotation was refused.

    The warnings are about protection that has no effect, because no rule raises the
    cgroups above these containers: about the configuration, and about the containers.
    """
    lines = re.findall(r".*(?:WARNING|ERROR).*", seen["log"])
    others = [line for line in lines if "WARNING configuration: " not in line]
    assert len(others) == 1, others
    (line,) = others
    assert "memory.low of containers has no effect: /" in line
    assert line.endswith("set memoryQoS.raiseAncestors: true")
