"""Asks the runtime for the pods that it has, for a report about the node.

Two calls list all pods and containers. The status of one, which takes a call each, is
asked for only where nothing else tells what is in it: of containers that have ended or
are not in kubelet's checkpoint, and of pods with a runtime class, which may have an
overhead.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nriplugin.api import cri_pb2 as cri
from nriplugin.convert import Resources
from nriplugin.doors.cri.messages import container_of_status
from nriplugin.errors import RPCError
from nriplugin.kube.runtime_pods import RuntimeContainer, RuntimePod, overhead_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nriplugin.doors.cri.client import RuntimeClient

_CONFIG = "config"


def read_runtime_pods(
    client: RuntimeClient, allocated: Mapping[str, Collection[str]]
) -> list[RuntimePod]:
    """Return the pods that have not ended.

    Args:
        client: a client of the runtime.
        allocated: the names of containers whose resources are known, by the pod's UID.

    Raises:
        RPCError, TimeoutError: the runtime does not answer, or with an error.
    """
    runtime = client.version().runtime_name
    listed = client.containers()
    by_pod, created = _last_containers(listed), _first_created(listed)
    return [
        RuntimePod(
            uid=sandbox.metadata.uid,
            name=sandbox.metadata.name,
            namespace=sandbox.metadata.namespace,
            runtime=runtime,
            containers=tuple(
                _container(
                    client,
                    one,
                    created[sandbox.id, one.metadata.name],
                    allocated.get(sandbox.metadata.uid, ()),
                )
                for one in by_pod.get(sandbox.id, {}).values()
            ),
            overhead=_overhead(client, sandbox),
        )
        for sandbox in client.ready_sandboxes()
    ]


def _last_containers(
    found: Collection[cri.Container],
) -> dict[str, dict[str, cri.Container]]:
    """Return the last container of each name, by pod: a restart leaves the earlier."""
    by_pod: dict[str, dict[str, cri.Container]] = {}
    for one in sorted(found, key=lambda one: one.metadata.attempt):
        by_pod.setdefault(one.pod_sandbox_id, {})[one.metadata.name] = one
    return by_pod


def _first_created(found: Collection[cri.Container]) -> dict[tuple[str, str], int]:
    """Return when the first container of each name was created, by pod and name."""
    return {
        (one.pod_sandbox_id, one.metadata.name): one.created_at
        for one in sorted(found, key=lambda one: one.created_at, reverse=True)
    }


def _container(
    client: RuntimeClient, one: cri.Container, created: int, known: Collection[str]
) -> RuntimeContainer:
    running = one.state == cri.CONTAINER_RUNNING
    found = RuntimeContainer(one.metadata.name, one.id, running, created)
    if found.name in known and running:
        return found
    try:
        answer = client.container_status(one.id)
    except RPCError:
        return found  # it has ended since
    status = container_of_status(answer).container
    return found._replace(
        finished=answer.status.finished_at,
        numbers=status.resources,
        oom_score_adj=status.oom_score_adj,
    )


def _overhead(client: RuntimeClient, sandbox: cri.PodSandbox) -> dict[str, str]:
    """Return a pod's overhead; only containerd repeats what kubelet has sent of it."""
    if not sandbox.runtime_handler:
        return {}
    try:
        text = client.pod_status(sandbox.id).info.get("info", "")
    except RPCError:
        return {}  # the pod has ended since
    try:
        found: Any = json.loads(text)
        for part in (_CONFIG, "linux", "overhead"):
            found = found.get(part) or {}
        return overhead_of(
            Resources(
                shares=_number(found, "cpu_shares"),
                quota_us=_number(found, "cpu_quota"),
                period_us=_number(found, "cpu_period"),
                memory_limit_bytes=_number(found, "memory_limit_in_bytes"),
            )
        )
    except (ValueError, AttributeError, RecursionError):
        return {}


def _number(found: Any, name: str) -> int | None:  # noqa: ANN401 - JSON of a runtime
    number = found.get(name)
    return number if isinstance(number, int) and number > 0 else None
