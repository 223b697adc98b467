"""Where a capacity report comes from: files that the user gives, else this node.

What is given wins. Without --node the capacity is that of /proc and /sys, and without
--pods the pods are those in kubelet's checkpoint, with the names and IDs that a running
daemon knows.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cgroup.locate.walk import walk
from nriplugin.cli.kubelet_file import read_kubelet_file
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.kube.api_objects import (
    ActivePod,
    RunningContainer,
    read_active_pods,
    read_node,
)
from nriplugin.kube.capacity import HUGEPAGES, node_capacity
from nriplugin.kube.checkpoint_pods import CHECKPOINT, checkpoint_pods
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.quantity import parse
from nriplugin.node.kubelet import read_kubelet

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from nriplugin.api import control_pb2 as control
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cli.container_names import ContainersOfDaemon
    from nriplugin.kube.api_objects import NodeObject
    from nriplugin.kube.capacity import NodeCapacity

# The states of containers whose files hold decisions of nriplugin's.
_IN_FORCE = ("managed", "adopted", "drifted")
_SCHEMES = {
    "cri-containerd": "containerd",
    "crio": "cri-o",
    "docker": "docker",
}


class FoundSettings(NamedTuple):
    """Kubelet's settings, where they are from, and what is wrong with them."""

    settings: KubeletCapacitySettings
    source: str
    problems: tuple[str, ...] = ()


class FoundCapacity(NamedTuple):
    """A node's name and capacity, and where they are from."""

    name: str
    capacity: NodeCapacity
    swap_bytes: int | None
    source: str


class FoundPods(NamedTuple):
    """The pods of a node, and where they are from."""

    pods: list[ActivePod]
    source: str


def read_objects(path: str, option: str) -> list[Any]:
    """Return the documents of a file of YAML or JSON; `-` is standard input.

    Raises:
        ConfigError: it cannot be read, or is neither.
    """
    text = sys.stdin.read() if path == "-" else _text_of(path, option)
    if text.lstrip()[:1] == "{":
        # What `kubectl get -o json` prints takes a hundredth of the time of YAML.
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            pass  # several documents, or YAML in braces
    from nriplugin.documents import load_documents

    return load_documents(text, path)


def find_settings(args: argparse.Namespace, node: DetectedNode) -> FoundSettings:
    """Return kubelet's settings from the file that is given, or from this node.

    If --node is given without them, they are kubelet's defaults.

    Raises:
        ConfigError: the file that is given cannot be read, or has a wrong value.
    """
    if args.kubelet_config is not None:
        path = args.kubelet_config
        return FoundSettings(read_kubelet_file(path), f"kubelet's settings: {path}")
    if args.node is not None:
        root = "/" + "/".join(node.driver.kube_root)
        settings = KubeletCapacitySettings(cgroup_root=root)
        return FoundSettings(settings, "kubelet's settings: its defaults")
    found = read_kubelet(node.host_root)
    sources = ", ".join(found.sources) or "none found, so its defaults"
    return FoundSettings(
        found.settings.capacity, f"kubelet's settings: {sources}", found.problems
    )


def find_capacity(
    args: argparse.Namespace, settings: KubeletCapacitySettings
) -> FoundCapacity:
    """Return the capacity of the node that is given, or of this machine.

    Raises:
        ConfigError: a file cannot be read, or more is reserved than there is.
    """
    if args.node is None:
        import socket

        from nriplugin.node.proc_capacity import machine_capacity

        machine = machine_capacity(args.host_root or "/")
        capacity = node_capacity(machine.amounts, settings)
        source = "capacity: /proc and /sys of this machine"
        return FoundCapacity(socket.gethostname(), capacity, machine.swap_bytes, source)
    given = read_node(read_objects(args.node, "--node"), args.node)
    source = f"capacity: {args.node}"
    if args.kubelet_config is None and given.allocatable:
        settings = _reserving_the_rest(given, settings)
        source += (
            "; what it lacks to allocatable beyond the eviction threshold is shown as "
            "reserved for kube (--kubelet-config would tell how it is split)"
        )
    capacity = node_capacity(given.capacity, settings)
    return FoundCapacity(given.name, capacity, None, source)


def find_pods(
    args: argparse.Namespace,
    node: str | None,
    daemon: ContainersOfDaemon | None,
    tree: Tree | None,
    kubepods: str,
) -> FoundPods:
    """Return the pods that are given, or those of this node.

    Raises:
        ConfigError: a file cannot be read, or there is no checkpoint.
    """
    if args.pods:
        documents = [one for path in args.pods for one in read_objects(path, "--pods")]
        pods = read_active_pods(documents, node)
        return FoundPods(pods, f"pods: {', '.join(args.pods)}")
    path = f"{(args.host_root or '/').rstrip('/')}{CHECKPOINT}"
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as exc:
        raise ConfigError(
            f"pods: {path}: {exc.strerror}, expected --pods PODS.yaml, or to run as "
            "root on a node with kubelet 1.33 or later"
        ) from exc
    pods = read_active_pods(checkpoint_pods(text, path), None)
    source = f"pods: {path}, which has neither overhead nor init containers"
    if daemon is not None and tree is not None:
        known = daemon.get(_ids(tree, kubepods))
        pods = _with_names(pods, known.values())
        if known:
            source += "; names are from the daemon"
    return FoundPods(pods, source)


def decided_files(
    daemon: ContainersOfDaemon, tree: Tree, kubepods: str
) -> dict[str, dict[str, str]]:
    """Return the files that a running daemon has decided about, by the cgroup.

    Those of a container hold what nriplugin decided, not what kubelet sent. What was
    only decided for show is left out.
    """
    return {
        one.cgroup: {file.file: file.decided for file in one.files if file.decided}
        for one in daemon.get(_ids(tree, kubepods)).values()
        if one.state in _IN_FORCE
    }


def driver_of(node: DetectedNode, settings: KubeletCapacitySettings) -> Driver:
    """Return the driver that kubelet is told to use, else the one that is seen."""
    return Driver(settings.driver) if settings.driver else node.driver.driver


def _text_of(path: str, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not UTF-8"
        raise ConfigError(f"{option}: {path!r}: {reason}, expected a file") from exc


def _reserving_the_rest(
    given: NodeObject, settings: KubeletCapacitySettings
) -> KubeletCapacitySettings:
    """Return settings by which what is reported as allocatable is allocatable."""
    from dataclasses import replace

    plain = node_capacity(given.capacity, replace(settings, kube_reserved={}))
    huge = sum(
        parse(amount)
        for name, amount in given.allocatable.items()
        if name.startswith(HUGEPAGES)
    )
    reserved: dict[str, str] = {}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name not in given.allocatable or name not in given.capacity:
            continue
        unit = 1000 if name == "cpu" else 1
        left = parse(given.allocatable[name]) * unit
        if name == "memory":
            left += huge
        difference = plain.capacity[name] - plain.eviction.get(name, 0) - left
        if difference > 0:
            reserved[name] = f"{int(difference)}m" if name == "cpu" else str(difference)
    return replace(settings, system_reserved={}, kube_reserved=reserved)


def _ids(tree: Tree, kubepods: str) -> list[str]:
    try:
        found = list(walk(tree, kubepods))
    except CgroupError:
        return []
    return [
        one.identity.container_id
        for one in found
        if one.identity.container_id and not one.identity.inner
    ]


def _with_names(
    pods: list[ActivePod], known: Iterable[control.ContainerWhy]
) -> list[ActivePod]:
    """Return pods with the names and container IDs that the daemon knows."""
    by_uid: dict[str, list[control.ContainerWhy]] = {}
    running: dict[str, dict[str, RunningContainer]] = {}
    for one in known:
        place = identify(one.cgroup)
        if place is None or place.pod_uid is None:
            continue
        by_uid.setdefault(place.pod_uid, []).append(one)
        scheme = _SCHEMES.get(place.runtime or "", "")
        found = running.setdefault(place.pod_uid, {})
        found[one.container] = RunningContainer(scheme, one.id)
    named = []
    for pod in pods:
        uid = pod.pod.uid
        if uid in by_uid:
            first = by_uid[uid][0]
            manifest = pod.pod._replace(name=first.pod, namespace=first.namespace)
            named.append(ActivePod(manifest, _once(running[uid], by_uid[uid])))
        else:
            named.append(pod)
    return named


def _once(
    running: Mapping[str, RunningContainer], known: list[control.ContainerWhy]
) -> dict[str, RunningContainer]:
    """Return containers whose name only one container has: a restart leaves two."""
    counts = Counter(one.container for one in known)
    return {name: one for name, one in running.items() if counts[name] == 1}
