"""A runtime that has the pods of manifests, and kubelet's checkpoint of them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from doors.cri.fakes import FakeRuntime, rpc

from nriplugin.api import cri_pb2 as cri
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.podspec import ContainerSpec, read_pod_spec
from nriplugin.kube.quantity import milli, value
from nriplugin.kube.sent import sent_for
from support.checkpoints import enclosed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


_BEGUN_NS = 1_800_000_000_000_000_000


def checkpoint_of(pods: Sequence[dict[str, Any]], *, with_init: bool = True) -> bytes:
    """Return the checkpoint that kubelet has of these pods.

    Up to Kubernetes 1.35 it has no init containers but sidecars.
    """
    return enclosed(
        {
            "entries": {
                pod["metadata"]["uid"]: {
                    "ContainerResources": {
                        one["name"]: one.get("resources", {})
                        for one in (
                            *pod["spec"]["containers"],
                            *pod["spec"].get("initContainers", ()),
                        )
                        if with_init
                        or one in pod["spec"]["containers"]
                        or one.get("restartPolicy") == "Always"
                    },
                    "PodLevelResources": pod["spec"].get("resources"),
                }
                for pod in pods
            }
        }
    )


@contextmanager
def runtime_with(host: Path, pods: Sequence[dict[str, Any]]) -> Iterator[FakeRuntime]:
    """Serve containerd's socket of a host; a container runs if its status says so."""
    socket = host / "run/containerd/containerd.sock"
    socket.parent.mkdir(parents=True)
    runtime = FakeRuntime(str(socket))
    statuses: dict[str, bytes] = {}
    sandboxes, containers = [], []
    for pod in pods:
        sandbox = _sandbox(pod)
        sandboxes.append(sandbox)
        for one, status in _containers(pod, sandbox.id):
            containers.append(one)
            statuses[one.id] = status.SerializeToString()
    answers: dict[str, Any] = {
        "Version": cri.VersionResponse(runtime_name="containerd"),
        "ListPodSandbox": cri.ListPodSandboxResponse(items=sandboxes),
        "ListContainers": cri.ListContainersResponse(containers=containers),
    }
    for method, answer in answers.items():
        runtime.answers[rpc(method)] = _always(answer.SerializeToString())
    runtime.answers[rpc("ContainerStatus")] = lambda request, _: statuses[
        cri.ContainerStatusRequest.FromString(request).container_id
    ]
    infos = {s.id: _info(pod) for s, pod in zip(sandboxes, pods, strict=True)}
    runtime.answers[rpc("PodSandboxStatus")] = lambda request, _: infos[
        cri.PodSandboxRequest.FromString(request).pod_sandbox_id
    ]
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


def _always(answer: bytes) -> Callable[[bytes, Any], bytes]:
    return lambda _, __: answer


def _sandbox(pod: dict[str, Any]) -> cri.PodSandbox:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    return cri.PodSandbox(
        id=f"sandbox-{metadata['uid']}",
        metadata=cri.PodSandboxMetadata(**metadata),
        runtime_handler=pod["spec"].get("runtimeClassName", ""),
    )


def _containers(
    pod: dict[str, Any], sandbox: str
) -> Iterator[tuple[cri.Container, cri.ContainerStatusResponse]]:
    spec = read_pod_spec(pod["spec"], "spec")
    by_name = {one.name: one for one in spec.containers}
    statuses = pod["status"]
    for number, one in enumerate(statuses["containerStatuses"]):
        runs = "running" in one["state"]
        metadata = cri.ContainerMetadata(name=one["name"])
        found = cri.Container(
            id=one["containerID"].partition("://")[2],
            pod_sandbox_id=sandbox,
            metadata=metadata,
            state=cri.CONTAINER_RUNNING if runs else cri.CONTAINER_EXITED,
            created_at=_BEGUN_NS + 10 * number,
        )
        container: ContainerSpec = by_name[one["name"]]
        sent = sent_for(container, spec, KubeletCapacitySettings())
        answer = cri.ContainerStatusResponse()
        answer.status.id = found.id
        answer.status.finished_at = 0 if runs else found.created_at + 5
        answer.status.metadata.CopyFrom(metadata)
        numbers = answer.status.resources.linux
        numbers.cpu_shares, numbers.cpu_quota = sent.shares, sent.quota_us
        numbers.cpu_period = sent.period_us
        numbers.memory_limit_in_bytes = sent.memory_limit_bytes
        score = one.get("oomScoreAdj", 1000)
        runtime_spec = {"process": {"oomScoreAdj": score}}
        answer.info["info"] = json.dumps({"runtimeSpec": runtime_spec})
        yield found, answer


def _info(pod: dict[str, Any]) -> bytes:
    given = pod["spec"].get("overhead", {})
    overhead = {}
    if "cpu" in given:
        cpu = milli(given["cpu"])
        overhead["cpu_shares"] = milli_cpu_to_shares(cpu)
        overhead["cpu_quota"] = milli_cpu_to_quota(cpu)
        overhead["cpu_period"] = 100_000
    if "memory" in given:
        overhead["memory_limit_in_bytes"] = value(given["memory"])
    config = {"linux": {"overhead": overhead}}
    answer = cri.PodSandboxStatusResponse(info={"info": json.dumps({"config": config})})
    return answer.SerializeToString()
