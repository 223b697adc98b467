"""Makes pods and containers on a node with crictl, as the kubelet does through CRI.

`nriplugin explain` in the guest says which numbers the kubelet sends for a manifest. A
container's cgroup is searched for in the guest's cgroup file system, by the container's
ID, so that the tests do not rely on nriplugin's own knowledge of paths.
"""

from __future__ import annotations

import itertools
import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nodes.machine import Machine, Result

IMAGE = "localhost/box:1"
# As the kubelet asks: a PID namespace per container. On the host's network, which
# needs no CNI.
NAMESPACES = {"namespace_options": {"network": 2, "pid": 1}}
# Parts of the names of files that are no settings of resources.
NOT_SETTINGS = (
    *("cgroup.", ".pressure", ".peak", "memory.reclaim", "irq.", ".usage"),
    *("tasks", "notify_on_release", "clone_children", "event_control", "kmem."),
    *("usage_in_bytes", "failcnt", "force_empty", "reset_stats", "release_agent"),
)


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
    """Makes pods on one machine, and removes them when their context ends."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._serial = itertools.count()

    def crictl(self, *args: str) -> Result:
        """Run crictl; it may fail."""
        return self.machine.run("crictl", *args)

    def explain(self, manifests: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the output of `nriplugin explain` in the guest for pods."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        explained = self.machine.check(
            "nriplugin", "explain", "--json", "-", stdin=text
        )
        pods: list[Any] = json.loads(explained)
        return pods

    @contextmanager
    def sandbox(
        self,
        qos_class: str = "Burstable",
        handler: str = "runc",
        annotations: Mapping[str, str] | None = None,
    ) -> Iterator[Pod]:
        """Run a pod; it is removed at the end, with all containers started in it."""
        uid = str(uuid.uuid4())
        parent = self._make_cgroups(qos_class, uid)
        config = {
            "metadata": {"name": f"pod-{uid[:8]}", "uid": uid, "namespace": "test"},
            "annotations": dict(annotations or {}),
            "log_directory": "/tmp",
            "linux": {"cgroup_parent": parent, "security_context": NAMESPACES},
        }
        path = self._write(config)
        pod = Pod(
            id=self.machine.check("crictl", "runp", "-r", handler, path).strip(),
            uid=uid,
            config=config,
        )
        try:
            yield pod
        finally:
            # Killed first: a container with hardly any CPU would take long to stop.
            ids = [container.id for container in pod.containers.values()]
            if ids:
                self.machine.run("crictl", "stop", "--timeout", "0", *ids)
            self.machine.run("crictl", "rmp", "-f", pod.id, timeout_s=300)

    def remove_containers(self, *pods: Pod) -> None:
        """Kill and remove all containers of pods, which stay."""
        ids = [one.id for pod in pods for one in pod.containers.values()]
        self.machine.check("crictl", "rm", "--force", *ids, timeout_s=300)
        for pod in pods:
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
        paths = self.write_configs(pod, name, resources)
        created = self.crictl("create", "--no-pull", pod.id, *paths)
        if created.code != 0:
            return created.stderr
        container_id = created.stdout.strip()
        started = self.crictl("start", container_id)
        if started.code != 0:
            return started.stderr
        container = Container(container_id, name, self._cgroups_of(container_id))
        pod.containers[name] = container
        return container

    def write_configs(
        self, pod: Pod, name: str, resources: Mapping[str, object]
    ) -> tuple[str, str]:
        """Write what `crictl create` reads about a container and its pod."""
        config = {
            "metadata": {"name": name},
            "image": {"image": IMAGE},
            # As process 1, sleep alone would ignore SIGTERM.
            "command": ["/bin/sh", "-c", "trap exit TERM; sleep 1000000 & wait"],
            "linux": {"resources": dict(resources), "security_context": NAMESPACES},
        }
        return self._write(config), self._write(pod.config)

    def inspect(self, container: Container) -> Any:
        """Return what `crictl inspect` says."""
        return json.loads(self.machine.check("crictl", "inspect", container.id))

    def update(self, container: Container, **options: int) -> Result:
        """Run `crictl update`, options named as crictl names them."""
        args = [
            f"--{name.replace('_', '-')}={value}" for name, value in options.items()
        ]
        return self.crictl("update", *args, container.id)

    def settings(self, container: Container) -> dict[str, str]:
        """Return every setting of a container's cgroup, read from the kernel."""
        found = self.machine.check(
            *("find", *container.cgroups, "-maxdepth", "1"),
            *("-type", "f", "-perm", "/222"),
        )
        paths = [
            path
            for path in found.split()
            if not any(part in path.rsplit("/", 1)[1] for part in NOT_SETTINGS)
        ]
        contents = self.machine.read(sorted(paths))
        return {
            path.rsplit("/", 1)[1]: content.strip()
            for path, content in contents.items()
            if content is not None
        }

    def _cgroups_of(self, container_id: str) -> list[str]:
        """Return the container's directories: one, or on cgroup v1 many."""
        found = self.machine.check(
            *("find", "/sys/fs/cgroup", "-type", "d", "-name", f"*{container_id}*")
        )
        # The cgroup of conmon has the container's ID in its name, too.
        return sorted(path for path in found.split() if "conmon" not in path)

    def _make_cgroups(self, qos_class: str, uid: str) -> str:
        """Make the cgroups that the kubelet makes for a pod; return the pod's."""
        qos = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
        if self.machine.node.driver == "systemd":
            parts = ["kubepods", qos[qos_class], f"pod{uid.replace('-', '_')}"]
            return "-".join(part for part in parts if part) + ".slice"
        parts = [part for part in ("kubepods", qos[qos_class], f"pod{uid}") if part]
        if self.machine.node.cgroup == 2:
            self.machine.check("/node/bin/make-cgroup", *parts)
        return "/" + "/".join(parts)

    def _write(self, config: Mapping[str, Any]) -> str:
        path = f"/tmp/config-{next(self._serial)}.json"
        self.machine.write(path, json.dumps(config))
        return path
