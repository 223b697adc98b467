"""The same containers on a node, created without the plugin and with it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from support.odd import ODD_ON, try_all
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodes.machine import Machine

    from support.kubelet import Kubelet, Pod
    from support.odd import Outcome

# Field of `explain`'s "sent" -> field of CRI's LinuxContainerResources.
CRI_FIELDS = {
    "cpu.shares": "cpu_shares",
    "cpu.quota": "cpu_quota",
    "cpu.period": "cpu_period",
    "memory.limit": "memory_limit_in_bytes",
}


def _pod(name: str, **containers: tuple[Mapping[str, str], Mapping[str, str]]) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [
                {"name": each, "resources": {"requests": requests, "limits": limits}}
                for each, (requests, limits) in containers.items()
            ]
        },
    }


PODS = {
    "guaranteed": _pod(
        "guaranteed",
        half=({}, {"cpu": "500m", "memory": "128Mi"}),
    ),
    "burstable": _pod(
        "burstable",
        both=({"cpu": "250m", "memory": "64Mi"}, {"cpu": "1500m", "memory": "96Mi"}),
        requests=({"cpu": "1", "memory": "32Mi"}, {}),
    ),
    "mixed": _pod(
        "mixed",
        half=({"cpu": "500m"}, {"cpu": "500m", "memory": "128Mi"}),
        small=({"cpu": "1m"}, {"cpu": "100m", "memory": "64Mi"}),
    ),
    "besteffort": _pod("besteffort", one=({}, {})),
}

# Which pods run under which OCI runtime. A quota holds for what the OCI runtime does in
# the container's cgroup, too: with the least one, runc needs a minute to start it.
CASES = [
    ("guaranteed", "runc"),
    ("burstable", "runc"),
    ("besteffort", "runc"),
    ("mixed", "crun"),
]
# On cgroup v1 the plugin sends nothing, whatever the pod's class.
CASES_V1 = [("burstable", "runc"), ("mixed", "crun")]


class Key(NamedTuple):
    """Which container: of which pod, under which OCI runtime."""

    pod: str
    handler: str
    container: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A container that ran: its cgroup, its specification, and what was expected.

    `files` is what `explain` says, `sent` the numbers that the kubelet sends.
    """

    id: str
    cgroups: list[str]
    settings: dict[str, str]
    spec: Any
    files: dict[str, str]
    sent: dict[str, int]
    qos_class: str
    uid: str


@dataclass(frozen=True, slots=True)
class Observed:
    """Every container of every case: made by the runtime alone, and with the plugin.

    The odd ones (support/odd.py) may not have started.
    """

    control: dict[Key, Seen]
    plugin: dict[Key, Seen]
    odd_control: dict[str, Outcome]
    odd_plugin: dict[str, Outcome]
    log: str


def observe(machine: Machine, kubelet: Kubelet) -> Observed:
    """Run every container twice, in the same pods: first without the plugin.

    The first containers are removed before the plugin starts: it would learn the
    runtime's curve from them, and then use that instead of its default.
    """
    explained = dict(zip(PODS, kubelet.explain([*PODS.values()]), strict=True))
    with ExitStack() as stack:
        pods = {
            (name, handler): stack.enter_context(
                kubelet.sandbox(explained[name]["qos_class"], handler)
            )
            for name, handler in (CASES if machine.node.cgroup == 2 else CASES_V1)
        }
        odd = ODD_ON.get(machine.node.name, ())
        pod_of_odd = pods["burstable", "runc"]
        control = _run_all(kubelet, pods, explained)
        odd_control = try_all(kubelet, pod_of_odd, odd)
        kubelet.remove_containers(*pods.values())
        with running(machine) as plugin:
            return Observed(
                control=control,
                plugin=_run_all(kubelet, pods, explained),
                odd_control=odd_control,
                odd_plugin=try_all(kubelet, pod_of_odd, odd),
                log=plugin.log(),
            )


def _run_all(
    kubelet: Kubelet,
    pods: Mapping[tuple[str, str], Pod],
    explained: Mapping[str, Any],
) -> dict[Key, Seen]:
    seen = {}
    for (name, handler), pod in pods.items():
        for entry in explained[name]["containers"]:
            sent = {CRI_FIELDS[field]: value for field, value in entry["sent"].items()}
            container = kubelet.start(pod, entry["name"], sent)
            seen[Key(name, handler, entry["name"])] = Seen(
                id=container.id,
                cgroups=container.cgroups,
                settings=kubelet.settings(container),
                spec=kubelet.inspect(container)["info"]["runtimeSpec"],
                files={file["file"]: file["value"] for file in entry["files"]},
                sent=entry["sent"],
                qos_class=explained[name]["qos_class"],
                uid=pod.uid,
            )
    return seen
