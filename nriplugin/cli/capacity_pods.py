"""The pods of a capacity report: those that the user gives, else those of this node.

kubelet's checkpoint has what containers were given, the runtime their names and IDs and
what the checkpoint lacks. Without a checkpoint, as before Kubernetes 1.33, all is from
the runtime. Where no runtime answers, as in a pod of nriplugin, a running daemon is
asked: for the names, and without a checkpoint for all that it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.cgroup.locate.walk import walk
from nriplugin.cli.capacity_daemon import (
    containers_of_daemon,
    pods_of_daemon,
    with_names,
)
from nriplugin.cli.capacity_files import read_objects
from nriplugin.errors import CgroupError, ConfigError, RPCError
from nriplugin.kube.api_objects import (
    POD,
    ActivePod,
    kinds_of,
    nodes_of,
    read_active_pods,
)
from nriplugin.kube.checkpoint_pods import CHECKPOINT, checkpoint_pods
from nriplugin.kube.pod_qos import qos_class
from nriplugin.kube.runtime_pods import complete_pod, pod_of_runtime, with_class

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cli.container_names import ContainersOfDaemon
    from nriplugin.kube.runtime_pods import RuntimePod


class FoundPods(NamedTuple):
    """The pods of a node, and where they are from."""

    pods: list[ActivePod]
    source: str


class NodeToAsk(NamedTuple):
    """Where to ask for pods that are not given; `tree` is None if there is none."""

    host_root: str
    kubelet_root: str
    runtime_endpoint: str  # the CRI socket that kubelet is told of, or empty
    memory_bytes: int
    daemon: ContainersOfDaemon
    tree: Tree | None
    kubepods: str


def given_pods(args: argparse.Namespace, node: str | None) -> FoundPods:
    """Return the pods in the files of --pods that are on the node, if it is named.

    Raises:
        ConfigError: a file cannot be read, has objects and no pods among them, or has a
            pod that is malformed; or the pods are on several nodes, and it is not known
            which of them is meant.
    """
    files: dict[str, list[Any]] = {}
    sources = []
    for path in args.pods:
        files[path] = documents = read_objects(path, "--pods")
        kinds = kinds_of(documents)
        others = ", ".join(sorted({*kinds} - {POD}))
        if kinds and POD not in kinds:
            raise ConfigError(f"{path}: {others}, expected objects of kind {POD}")
        sources.append(f"{path} (without {others})" if others else path)
    if node is None:
        node = _only_node({name for one in files.values() for name in nodes_of(one)})
    pods: list[ActivePod] = []
    for path, documents in files.items():
        try:
            pods += read_active_pods(documents, node)
        except ConfigError as exc:
            raise ConfigError(f"{path}: {exc}") from exc
    return FoundPods(pods, f"pods: {', '.join(sources)}")


def _only_node(names: Collection[str]) -> str | None:
    """Return the node that is this machine; None if the pods are on no other one."""
    import socket  # late: most pods that are given are on one node

    if len(names) < 2:
        return None
    this = socket.gethostname()
    if this in names:
        return this
    raise ConfigError(
        f"--pods: pods of {len(names)} nodes, none of them {this!r}, expected those of "
        "one node, or --node to say which is meant"
    )


def pods_of_node(node: NodeToAsk) -> FoundPods:
    """Return the pods that have a cgroup on this node.

    Those in the checkpoint without one have ended or have not started: kubelet keeps
    ended pods there for as long as the API server has them.

    Raises:
        ConfigError: there are neither a checkpoint that can be read nor a runtime or a
            daemon that answers.
    """
    classes = _classes(node)
    places = classes or {}
    root = f"{node.host_root.rstrip('/')}/{node.kubelet_root.strip('/')}"
    path = f"{root}/{CHECKPOINT}"
    missing = ""
    objects: list[dict[str, Any]] = []
    try:
        with open(path, "rb") as file:
            objects = checkpoint_pods(file.read(), path)
    except OSError as exc:
        missing = f"{path}: {exc.strerror}"
    except ConfigError as exc:  # of a kubelet that is not known yet
        missing = str(exc)
    known, silence = _ask_runtime(node, {} if missing else _allocated(objects))
    told = False
    if missing and silence:
        known = {} if node.tree is None else _known_to_daemon(node, node.tree)
        if not known:
            raise ConfigError(
                f"pods: {missing}; {silence}; no daemon knows one; expected --pods "
                "PODS.yaml, or to run as root on a node with kubelet"
            )
        told = True
    if missing:
        objects = [
            pod_of_runtime(one, places.get(uid), node.memory_bytes)
            for uid, one in known.items()
            if one.containers
        ]
    else:
        objects = [
            complete_pod(one, known.get(_uid(one)), places.get(_uid(one)))
            for one in objects
            if classes is None or _uid(one) in classes
        ]
    pods = read_active_pods([_in_class(one, places) for one in objects], None)
    if told:
        source = (
            "the daemon, without overhead, containers that have ended, and memory "
            f"requests that it does not know: {missing}; {silence}"
        )
    elif missing:
        source = (
            f"the runtime; memory requests are estimated from OOM scores: {missing}"
        )
    elif not silence:
        source = f"{path}; names, overhead and init containers are the runtime's"
    else:
        source = f"{path}, without overhead and init containers: {silence}"
        if node.tree is not None:
            named = containers_of_daemon(node.daemon, node.tree, node.kubepods)
            pods = with_names(pods, named)
            source += "; names are the daemon's" if named else ""
    return FoundPods(pods, f"pods: {source}")


def _known_to_daemon(node: NodeToAsk, tree: Tree) -> dict[str, RuntimePod]:
    found = containers_of_daemon(node.daemon, tree, node.kubepods)
    return {pod.uid: pod for pod in pods_of_daemon(found)}


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def _allocated(objects: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the names of the containers in the checkpoint, by the pod's UID."""
    return {
        _uid(pod): {one["name"] for one in pod["spec"]["containers"]} for pod in objects
    }


def _in_class(pod: dict[str, Any], classes: Mapping[str, str]) -> dict[str, Any]:
    """Return a pod of the class in which its cgroup is, if that is known."""
    qos = classes.get(_uid(pod))
    if qos is None:
        return pod
    (read,) = read_active_pods([pod], None)
    return with_class(pod, qos_class(read.pod.spec), qos)


def _classes(node: NodeToAsk) -> dict[str, str] | None:
    """Return the classes in which the cgroups of pods are, by the pods' UIDs.

    None if there are no cgroups to look at.
    """
    if node.tree is None:
        return None
    try:
        found = list(walk(node.tree, node.kubepods))
    except CgroupError:
        return None
    return {
        one.identity.pod_uid: one.identity.qos_class
        for one in found
        if one.identity.level == "pod"
        and one.identity.pod_uid is not None
        and one.identity.qos_class is not None
    }


def _ask_runtime(
    node: NodeToAsk, allocated: Mapping[str, Collection[str]]
) -> tuple[dict[str, RuntimePod], str]:
    """Return the runtime's pods by UID, or why there are none."""
    # Imported here, because they take time that files given by the user do not need.
    from nriplugin.daemon.doctor.cri_sockets import find_cri_sockets
    from nriplugin.daemon.doctor.host_files import HostFiles
    from nriplugin.doors.cri.client import RuntimeClient
    from nriplugin.doors.cri.runtime_pods import read_runtime_pods

    files = HostFiles(node.host_root)
    silence = "no runtime has a CRI socket here"
    for path in find_cri_sockets(files, node.runtime_endpoint).values():
        try:
            with RuntimeClient(path) as client:
                found = read_runtime_pods(client, allocated)
        except (ConfigError, RPCError, TimeoutError) as exc:
            silence = f"{path}: {exc}"
            continue
        return {pod.uid: pod for pod in found}, ""
    return {}, silence
