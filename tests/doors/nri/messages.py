"""Builds NRI messages of pods and containers, in the form that the plugin receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import Message
from support.harness import container
from support.trees import CONTAINER, POD, UID

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Seen = TypeVar("Seen", bound=Message)

GIB = 1 << 30
APP: dict[str, Any] = {"shares": 512, "quota_us": 100_000, "limit_bytes": GIB}
# The files that the conversion makes of APP.
FILES = {
    "cpu.weight": "59",
    "cpu.max": "100000 100000",
    "memory.max": str(GIB),
}
OURS = ".cgroup2.nri.io"


def pod_at(
    parent: str = POD, annotations: Mapping[str, str] | None = None, **fields: Any
) -> nri.PodSandbox:
    """Return a pod with a cgroup; it runs under runc and is Burstable by its path."""
    given = {"id": "p1", "name": "web", "namespace": "shop", "uid": UID}
    given["runtime_handler"] = "runc"
    result = nri.PodSandbox(annotations=annotations, **{**given, **fields})
    result.linux.cgroup_parent = parent
    return result


def container_at(
    path: str = CONTAINER,
    number: int = 1,
    *,
    unified: Mapping[str, str] | None = None,
    oom_score: int | None = None,
    pod_id: str = "p1",
    **numbers: int,
) -> nri.Container:
    """Return a container with a cgroup; its numbers are those of APP by default."""
    result = container(number, **(numbers or APP))
    result.pod_sandbox_id = pod_id
    result.linux.cgroups_path = path
    if unified is not None:
        result.linux.resources.unified.update(unified)
    if oom_score is not None:
        result.linux.oom_score_adj.value = oom_score
    return result


def asking(
    unified: Mapping[str, str] | None = None, **numbers: Any
) -> nri.LinuxResources:
    """Return the resources of an update as kubelet sends them."""
    return container_at(unified=unified, **numbers).linux.resources


def seen(kind: type[Seen], message: Message) -> Seen:
    """Return a message parsed as the plugin's view of it."""
    return kind.FromString(message.SerializeToString())


def creation(pod: nri.PodSandbox, app: nri.Container) -> view.CreateContainerRequest:
    """Return a creation as the plugin receives it."""
    request = nri.CreateContainerRequest(pod=pod, container=app)
    return seen(view.CreateContainerRequest, request)


def updating(
    pod: nri.PodSandbox, app: nri.Container, asked: nri.LinuxResources
) -> view.UpdateContainerRequest:
    """Return an update as the plugin receives it."""
    request = nri.UpdateContainerRequest(pod=pod, container=app, linux_resources=asked)
    return seen(view.UpdateContainerRequest, request)


def existing(
    pods: Iterable[nri.PodSandbox], containers: Iterable[nri.Container]
) -> tuple[list[view.PodSandbox], list[view.Container]]:
    """Return the pods and containers of Synchronize as the plugin receives them."""
    return (
        [seen(view.PodSandbox, pod) for pod in pods],
        [seen(view.Container, app) for app in containers],
    )


def unified_of(response: nri.CreateContainerResponse | None) -> dict[str, str]:
    """Return the files in the answer to a creation."""
    return {} if response is None else dict(response.adjust.linux.resources.unified)
