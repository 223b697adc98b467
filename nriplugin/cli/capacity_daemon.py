"""What a running daemon knows of a node's pods, for a capacity report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.walk import walk
from nriplugin.convert import Resources
from nriplugin.errors import CgroupError
from nriplugin.kube.api_objects import ActivePod, RunningContainer
from nriplugin.kube.runtime_pods import RuntimeContainer, RuntimePod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.api import control_pb2 as control
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cli.container_names import ContainersOfDaemon

# The states of containers whose files hold decisions of nriplugin's.
_IN_FORCE = ("managed", "adopted", "drifted")
_SCHEMES = {
    "cri-containerd": "containerd",
    "crio": "cri-o",
    "docker": "docker",
}


def containers_of_daemon(
    daemon: ContainersOfDaemon, tree: Tree, kubepods: str
) -> list[control.ContainerWhy]:
    """Return what a running daemon says of the containers that have a cgroup."""
    return list(daemon.get(_ids(tree, kubepods)).values())


def decided_files(
    daemon: ContainersOfDaemon, tree: Tree, kubepods: str
) -> dict[str, dict[str, str]]:
    """Return the files that a running daemon has decided about, by the cgroup.

    Those of a container hold what nriplugin decided, not what kubelet sent. What was
    only decided for show is left out.
    """
    return {
        one.cgroup: {file.file: file.decided for file in one.files if file.decided}
        for one in containers_of_daemon(daemon, tree, kubepods)
        if one.state in _IN_FORCE
    }


def pods_of_daemon(known: Iterable[control.ContainerWhy]) -> list[RuntimePod]:
    """Return the pods of running containers."""
    pods: dict[str, RuntimePod] = {}
    for one in known:
        place = identify(one.cgroup)
        if place is None or place.pod_uid is None:
            continue
        uid, runtime = place.pod_uid, _SCHEMES.get(place.runtime or "", "")
        pod = pods.get(uid) or RuntimePod(uid, one.pod, one.namespace, runtime, ())
        pods[uid] = pod._replace(containers=(*pod.containers, _container(one)))
    return list(pods.values())


def _container(one: control.ContainerWhy) -> RuntimeContainer:
    running = RuntimeContainer(one.container, one.id, running=True)
    if not one.HasField("sent"):
        return running
    # Those that are there; a number that was not sent is absent.
    sent = {field.name: value for field, value in one.sent.ListFields()}
    return running._replace(
        numbers=Resources(
            shares=sent.get("shares"),
            quota_us=sent.get("quota_us"),
            period_us=sent.get("period_us"),
            memory_limit_bytes=sent.get("memory_limit_bytes"),
        ),
        memory_request=sent.get("memory_request_bytes"),
    )


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


def with_names(
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
