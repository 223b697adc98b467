"""Makes the pods, containers and resources that tests hand to the embedded runtime.

Each pod and each container gets an id of its own. What these functions have no
parameter for can be set on the message that they return.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The CPU period that kubelet uses.
PERIOD_US = 100_000

_numbers = count(1)


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> nri.PodSandbox:
    """Return a pod as runtimes describe it to plugins."""
    number = next(_numbers)
    return nri.PodSandbox(
        id=f"pod-{number}",
        uid=f"uid-{number}",
        name=name,
        namespace=namespace,
        labels=labels,
        annotations=annotations,
    )


def make_container(
    pod: nri.PodSandbox,
    name: str = "app",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    args: Iterable[str] = (),
    env: Iterable[str] = (),
    resources: nri.LinuxResources | None = None,
) -> nri.Container:
    """Return a container of a pod; `env` has entries such as "NAME=value"."""
    return nri.Container(
        id=f"container-{next(_numbers)}",
        pod_sandbox_id=pod.id,
        name=name,
        labels=labels,
        annotations=annotations,
        args=args,
        env=env,
        linux=nri.LinuxContainer(resources=resources),
    )


def make_resources(
    *,
    cpu_shares: int | None = None,
    cpu_quota_us: int | None = None,
    memory_limit_bytes: int | None = None,
    unified: Mapping[str, str] | None = None,
) -> nri.LinuxResources:
    """Return resources as kubelet asks for them; None leaves a value out.

    A quota is one per period of 100 ms, as kubelet's are.
    """
    resources = nri.LinuxResources(unified=unified)
    if cpu_shares is not None:
        resources.cpu.shares.value = cpu_shares
    if cpu_quota_us is not None:
        resources.cpu.quota.value = cpu_quota_us
        resources.cpu.period.value = PERIOD_US
    if memory_limit_bytes is not None:
        resources.memory.limit.value = memory_limit_bytes
    return resources
