"""Makes pods and containers on a node through CRI, as the kubelet does.

The calls are made by tests/e2e/guest_kubelet.py, a process in the guest that keeps its
connection to the runtime, as the kubelet does; it calls the server that crictl is set
to call. `nriplugin explain` in the guest says which numbers the kubelet sends for a
manifest. A container's cgroup is searched for in the guest's cgroup file system, by the
container's ID, so that the tests do not rely on nriplugin's own knowledge of paths.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nodes.machine import Result
from nodes.shell import NodeError

from support import cri_messages
from support.guestcases import HERE, IN_GUEST, PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nodes.machine import Machine

IMAGE = "localhost/box:1"
GUEST_SCRIPT = "guest_kubelet.py"
LOG = "/var/log/guest_kubelet.log"
# As the kubelet asks: a PID namespace per container. On the host's network, which
# needs no CNI.
NAMESPACES = {"namespace_options": {"network": 2, "pid": 1}}
# Parts of the names of files that are no settings of resources.
NOT_SETTINGS = (
    *("cgroup.", ".pressure", ".peak", "memory.reclaim", "irq.", ".usage"),
    *("tasks", "notify_on_release", "clone_children", "event_control", "kmem."),
    *("usage_in_bytes", "failcnt", "force_empty", "reset_stats", "release_agent"),
)
# What `crictl update` calls the fields of CRI's LinuxContainerResources.
OPTIONS = {
    "cpu_share": "cpu_shares",
    "cpu_quota": "cpu_quota",
    "cpu_period": "cpu_period",
    "memory": "memory_limit_in_bytes",
}
# CRI's states of a container and of a pod.
CREATED, RUNNING = 0, 1
READY = 0
CALL_S = 330
PATIENCE_S = 180


class CallError(Exception):
    """A call failed in the guest; the text is what the runtime said."""


@dataclass(slots=True)
class Container:
    """A running container and its directories: one, or on cgroup v1 many."""

    id: str
    name: str
    cgroups: list[str]


@dataclass(slots=True)
class Pod:
    """A sandbox and the configuration that it was made with."""

    id: str
    uid: str
    config: dict[str, Any]
    containers: dict[str, Container] = field(default_factory=dict)


class Kubelet:
    """Makes pods on one machine, and ends them when their context ends."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._serial = itertools.count()
        self._killed: set[str] = set()

    def crictl(self, *args: str) -> Result:
        """Run crictl; it may fail."""
        return self.machine.run("crictl", *args)

    def explain(self, manifests: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the output of `nriplugin explain` in the guest for pods."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        explained = self.machine.check(
            "nriplugin", "explain", "--json", "-", stdin=text
        )
        pods: list[Any] = json.loads(explained)["pods"]
        return pods

    @contextmanager
    def sandbox(
        self,
        qos_class: str = "Burstable",
        handler: str = "runc",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        remove: bool = False,
    ) -> Iterator[Pod]:
        """Run a pod; the processes of its containers are killed at the end.

        With `remove` the runtime stops and removes the pod instead, as kubelet would
        have it do. That takes seconds, and the whole node is thrown away later.
        """
        self._await_ends()
        uid = str(uuid.uuid4())
        config = {
            "metadata": {"name": f"pod-{uid[:8]}", "uid": uid, "namespace": "test"},
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "log_directory": "/tmp",
            "linux": {
                "cgroup_parent": self._make_cgroups(qos_class, uid),
                "security_context": NAMESPACES,
            },
        }
        made = self._call("RunPodSandbox", config=config, runtime_handler=handler)
        pod = Pod(id=made.pod_sandbox_id, uid=uid, config=config)
        try:
            yield pod
        finally:
            if remove:
                for container in pod.containers.values():
                    self._call("StopContainer", container_id=container.id)
                    self._call("RemoveContainer", container_id=container.id)
                self._call("StopPodSandbox", pod_sandbox_id=pod.id)
                self._call("RemovePodSandbox", pod_sandbox_id=pod.id)
            else:
                self._kill(pod)

    def remove_containers(self, *pods: Pod) -> None:
        """Kill and remove all containers of pods, which stay."""
        for pod in pods:
            self._kill(pod)
        self._await_ends()
        for pod in pods:
            for container in pod.containers.values():
                self._call("RemoveContainer", container_id=container.id)
            pod.containers.clear()

    def start(self, pod: Pod, name: str, resources: Mapping[str, object]) -> Container:
        """Create and start a container; resources are CRI's."""
        result = self.try_start(pod, name, resources)
        assert isinstance(result, Container), f"{name}: {resources}: {result}"
        return result

    def try_start(
        self, pod: Pod, name: str, resources: Mapping[str, object]
    ) -> Container | str:
        """Create and start a container; return the runtime's error if it fails."""
        config = _container(name, resources)
        try:
            created = self._call(
                "CreateContainer",
                pod_sandbox_id=pod.id,
                config=config,
                sandbox_config=pod.config,
            )
            self._call("StartContainer", container_id=created.container_id)
        except CallError as exc:
            return str(exc)
        cgroups = self._ask("cgroups_of", created.container_id)
        pod.containers[name] = Container(created.container_id, name, cgroups)
        return pod.containers[name]

    def write_configs(
        self, pod: Pod, name: str, resources: Mapping[str, object]
    ) -> tuple[str, str]:
        """Write what `crictl create` reads about a container and its pod."""
        return self._write(_container(name, resources)), self._write(pod.config)

    def inspect(self, container: Container) -> Any:
        """Return what the runtime tells about a container, as `crictl inspect` does."""
        status = self._call("ContainerStatus", container_id=container.id, verbose=True)
        return {key: json.loads(text) for key, text in status.info.items()}

    def update(self, container: Container, **options: int) -> Result:
        """Update a container's resources, options named as `crictl update` does."""
        linux = {OPTIONS[name]: value for name, value in options.items()}
        try:
            self._call(
                "UpdateContainerResources", container_id=container.id, linux=linux
            )
        except CallError as exc:
            return Result(1, "", str(exc))
        return Result(0, "", "")

    def cgroups_of(self, container_id: str) -> list[str]:
        """Return the directories of a container that another program has made."""
        found: list[str] = self._ask("cgroups_of", container_id)
        return found

    def settings(self, container: Container) -> dict[str, str]:
        """Return every setting of a container's cgroup, read from the kernel."""
        found: dict[str, str] = self._ask("settings", container.cgroups, NOT_SETTINGS)
        return found

    def alive(self) -> tuple[int, int]:
        """Return how many pods and containers there are that have not ended."""
        pods = self._call("ListPodSandbox").items
        return sum(pod.state == READY for pod in pods), len(self._containers())

    def _containers(self) -> set[str]:
        """Return the containers that have not ended."""
        listed = self._call("ListContainers").containers
        return {one.id for one in listed if one.state in (CREATED, RUNNING)}

    def _kill(self, pod: Pod) -> None:
        """Kill the processes of a pod's containers.

        Without the runtime, which would start a program for each of them.
        """
        self._ask("kill", self._name_of_pod(pod.uid), pod.id)
        self._killed |= {one.id for one in pod.containers.values()}

    def _await_ends(self) -> None:
        """Wait until the runtime knows that the containers of earlier pods are dead.

        A plugin that started before that would be told of them. A runtime that has
        missed the end of a container is told to remove it.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self._killed and (left := self._killed & self._containers()):
            if time.monotonic() > deadline:
                removed = self.crictl("rm", "--force", *left)
                assert removed.code == 0, f"containers {left}: {removed.stderr}"
            time.sleep(0.5)
        self._killed.clear()

    def _make_cgroups(self, qos_class: str, uid: str) -> str:
        """Make the cgroups that the kubelet makes for a pod; return the pod's."""
        qos = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
        names = ("kubepods", qos[qos_class], self._name_of_pod(uid))
        parts = [name for name in names if name]
        if self.machine.node.driver == "systemd":
            return "-".join(parts) + ".slice"
        if self.machine.node.cgroup == 2:
            self._ask("make_cgroup", *parts)
        return "/" + "/".join(parts)

    def _name_of_pod(self, uid: str) -> str:
        """Return what a pod's cgroup has in its name."""
        if self.machine.node.driver == "systemd":
            return f"pod{uid.replace('-', '_')}"
        return f"pod{uid}"

    def _call(self, method: str, **request: Any) -> Any:
        """Call the runtime; return its answer."""
        data = cri_messages.encode(f"{method}Request", request)
        answer = self._ask("call", method, base64.b64encode(data).decode())
        return cri_messages.decode(f"{method}Response", base64.b64decode(answer))

    def _ask(self, function: str, *args: Any) -> Any:
        """Have a function of guest_kubelet.py called."""
        line = json.dumps([function, *args])
        try:
            said = json.loads(self.machine.ask(self._process, line, CALL_S))
        except NodeError:
            del self._process  # the next test gets a new one
            raise
        if "failure" in said:
            raise CallError(said["failure"])
        return said["answer"]

    @cached_property
    def _process(self) -> int:
        """The process in the guest, started when it is first asked."""
        self.machine.check("mkdir", "-p", IN_GUEST)
        path = f"{IN_GUEST}/{GUEST_SCRIPT}"
        self.machine.write(path, (HERE / GUEST_SCRIPT).read_text())
        return self.machine.spawn(PYTHON, path, log=LOG, answers=True)

    def _write(self, config: Mapping[str, Any]) -> str:
        path = f"/tmp/config-{next(self._serial)}.json"
        self.machine.write(path, json.dumps(config))
        return path


def _container(name: str, resources: Mapping[str, object]) -> dict[str, Any]:
    """Return the configuration of a container, as CRI has it."""
    return {
        "metadata": {"name": name},
        # CRI-O verifies signatures by the name in the pod's manifest.
        "image": {"image": IMAGE, "user_specified_image": IMAGE},
        # As process 1, sleep alone would ignore SIGTERM.
        "command": ["/bin/sh", "-c", "trap exit TERM; sleep 1000000 & wait"],
        "linux": {"resources": dict(resources), "security_context": NAMESPACES},
    }
