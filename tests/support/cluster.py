"""A namespace of a real cluster whose pods run on one node, driven by kubectl.

A pod's cgroups are searched for in the guest, by the pod's UID and the containers' IDs,
so that the tests do not rely on nriplugin's own knowledge of paths.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nodes.shell import NodeError

from support import looking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nodes.control_plane import ControlPlane
    from nodes.machine import Machine

# An init container with a small quota takes minutes on a machine that is busy.
PATIENCE_S = 900
POLL_S = 0.5
TOP = "/sys/fs/cgroup"
FILES = (
    *("cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle"),
    *("memory.max", "memory.high", "memory.low", "memory.min"),
    *("memory.swap.max", "memory.oom.group", "pids.max"),
)
# What kubelet reports while it has not finished a resize.
UNSETTLED = ("PodResizePending", "PodResizeInProgress")

Files = dict[str, str]
T = TypeVar("T")


class Levels(NamedTuple):
    """The files of a pod's cgroups, from the top to its containers."""

    kubepods: Files
    qos: Files
    pod: Files
    containers: dict[str, Files]


class Cluster:
    """One namespace, one node."""

    def __init__(self, plane: ControlPlane, machine: Machine, namespace: str) -> None:
        self.plane = plane
        self.machine = machine
        self.namespace = namespace

    @property
    def node(self) -> str:
        """Return the node's name."""
        return self.machine.node.name

    def kubectl(self, *args: str, stdin: str = "") -> str:
        """Run kubectl in the namespace; it must succeed."""
        return self.plane.kubectl("--namespace", self.namespace, *args, stdin=stdin)

    def get(self, *args: str) -> Any:
        """Return objects as the API server shows them."""
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def pods(self) -> dict[str, Any]:
        """Return the tests' own pods by their label `app`, which no other pod has."""
        return {
            pod["metadata"]["labels"]["app"]: pod
            for pod in self.get("pods", "-l", "app")["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Make or change objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def running(self, *names: str) -> dict[str, Any]:
        """Wait until all containers of these pods run; return the pods."""

        def look() -> dict[str, Any]:
            pods = self.pods()
            return {name: pods.get(name) for name in names}

        pods: dict[str, Any] = wait_for(
            look, lambda pods: all(map(is_ready, pods.values()))
        )
        return pods

    def delete(self, names: Sequence[str]) -> None:
        """Have pods removed; kubelet ends them in its own time."""
        self.kubectl("delete", "pod", *names, "--wait=false")

    def resize(self, name: str, patch: Mapping[str, Any]) -> Any:
        """Patch a pod's resources in place; return the pod when kubelet has settled."""
        self.patch_resize(name, patch)
        return self.settled(name)

    def patch_resize(self, name: str, patch: Mapping[str, Any]) -> None:
        """Ask for other resources of a running pod."""
        self.kubectl(
            *("patch", "pod", name, "--subresource", "resize", "--type", "strategic"),
            *("--patch", json.dumps({"spec": patch})),
        )

    def settled(self, name: str) -> Any:
        """Wait until kubelet has done what the pod's specification asks for."""
        return wait_for(lambda: self.get("pod", name), is_settled)

    def levels(self, pod: Mapping[str, Any]) -> Levels:
        """Read the cgroups of a pod on all four levels."""
        return self.all_levels([pod])[0]

    def all_levels(self, pods: Sequence[Mapping[str, Any]]) -> list[Levels]:
        """Read the cgroups of pods on all four levels, in one go."""
        found = self.machine.check("find", TOP, "-type", "d", "-path", "*kubepods*")
        places = [_places(pod, found.split()) for pod in pods]
        wanted = {
            f"{directory}/{file}"
            for place in places
            for directory in (
                place.kubepods,
                place.qos,
                place.pod,
                *place.containers.values(),
            )
            for file in FILES
        }
        contents = self.machine.read(sorted(wanted))

        def files(directory: str) -> Files:
            found = {file: contents[f"{directory}/{file}"] for file in FILES}
            return {file: text.strip() for file, text in found.items() if text}

        return [
            Levels(
                files(place.kubepods),
                files(place.qos),
                files(place.pod),
                {name: files(path) for name, path in place.containers.items()},
            )
            for place in places
        ]


class Places(NamedTuple):
    """The directories of a pod's cgroups; a Guaranteed pod has no class of its own."""

    kubepods: str
    qos: str
    pod: str
    containers: dict[str, str]


def _places(pod: Mapping[str, Any], directories: Sequence[str]) -> Places:
    uid = pod["metadata"]["uid"]
    ends = tuple(
        f"pod{form}{end}"
        for form in (uid, uid.replace("-", "_"))
        for end in ("", ".slice")
    )
    (own,) = [path for path in directories if path.endswith(ends)]
    qos = own.rpartition("/")[0]
    guaranteed = pod["status"]["qosClass"] == "Guaranteed"
    containers = {
        name: min(
            (
                path
                for path in directories
                if path.startswith(f"{own}/")
                and identity in path
                and "conmon" not in path
            ),
            key=len,
        )
        for name, identity in container_ids(pod).items()
    }
    return Places(qos if guaranteed else qos.rpartition("/")[0], qos, own, containers)


def container_ids(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the IDs of a pod's running containers, init containers included."""
    status = pod["status"]
    return {
        each["name"]: each["containerID"].rpartition("/")[2]
        for each in (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        )
        if "running" in each["state"]
    }


def is_ready(pod: Mapping[str, Any] | None) -> bool:
    """Return whether all containers of a pod run."""
    conditions = (pod or {}).get("status", {}).get("conditions", ())
    return any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def is_settled(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod's status shows what its specification asks for."""
    status, wanted = pod["status"], pod["spec"]
    if status.get("observedGeneration", 0) < pod["metadata"]["generation"]:
        return False
    if any(each["type"] in UNSETTLED for each in status.get("conditions", ())):
        return False
    of_pod = status.get("resources", {})
    if any(of_pod.get(key) != value for key, value in _amounts(wanted)):
        return False
    reported = {
        each["name"]: each.get("resources", {})
        for each in (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        )
        if "running" in each["state"]
    }
    return all(
        reported[each["name"]].get(key, {}) == value
        for each in (*wanted.get("initContainers", ()), *wanted["containers"])
        if each["name"] in reported
        for key, value in _amounts(each)
    )


def _amounts(of: Mapping[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Return the requests and limits of a pod or a container."""
    given = of.get("resources", {})
    return [(key, given[key]) for key in ("requests", "limits") if key in given]


def wait_for(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """Return what is seen as soon as it is good.

    A look may fail: on a busy machine the API server does not answer in time, once.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            seen = look()
        except NodeError as exc:
            told = str(exc)
        else:
            if good(seen):
                return seen
            told = json.dumps(_in_short(seen))
        if time.monotonic() > deadline:
            raise NodeError(f"not after {PATIENCE_S} s: {told[:8000]}")
        time.sleep(POLL_S)


def _in_short(seen: Any) -> Any:
    """Leave out what does not say why a pod is not as it should be."""
    if not isinstance(seen, dict):
        return seen
    if "status" in seen and "metadata" in seen:
        return seen["status"]
    return {key: _in_short(value) for key, value in seen.items()}


def keep_looking(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Return what is seen as soon as it is good, or as it stays."""
    return looking.keep_looking(look, good, PATIENCE_S)


@contextmanager
def namespace(plane: ControlPlane, machine: Machine, name: str) -> Iterator[Cluster]:
    """Make a namespace; at its end the API server has everything in it removed."""
    plane.kubectl("create", "namespace", name)
    cluster = Cluster(plane, machine, name)
    wait_for(
        lambda: json.loads(
            plane.kubectl(
                "get", "node", cluster.node, "-o", "json", "--ignore-not-found"
            )
            or "null"
        ),
        is_ready,
    )
    yield cluster
    plane.kubectl("delete", "namespace", name, "--wait=false")
