"""Which container and pod this is, from the annotations in the container's spec.

CRI-O and containerd note the names under keys of their own. CRI-O also copies the
annotations of the pod into the same map, before it adds its own keys. So a user who may
create a pod can set containerd's keys in a container that CRI-O starts, but never
CRI-O's. Where a key of CRI-O's is present, only CRI-O's keys are read.

The labels of a pod are not in a container's spec. CRI-O keeps them in the spec of the
pod's sandbox, whose bundle is a sibling of the container's; containerd does not show
them to a hook at all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.doors.hook.bundle import (
    HookError,
    object_in,
    read_spec,
    string_entries,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_CRIO = "io.kubernetes.cri-o."
_CONTAINERD = "io.kubernetes.cri."
_SANDBOX = "sandbox"

_ID_LENGTH = 64
_HEX_DIGITS = "0123456789abcdef"


class ContainerIdentity(NamedTuple):
    """The names of a container; they are empty for a container that has no pod."""

    container: str = ""
    pod: str = ""
    namespace: str = ""
    uid: str = ""
    sandbox: bool = False  # the pod's infrastructure container, without a workload
    crio_sandbox_id: str = ""


def identify_container(annotations: Mapping[str, str]) -> ContainerIdentity:
    """Return the names that the runtime noted in the annotations of a spec."""
    kind = annotations.get(f"{_CRIO}ContainerType")
    if kind is not None:
        return _of_crio(annotations, kind == _SANDBOX)
    return ContainerIdentity(
        container=annotations.get(f"{_CONTAINERD}container-name", ""),
        pod=annotations.get(f"{_CONTAINERD}sandbox-name", ""),
        namespace=annotations.get(f"{_CONTAINERD}sandbox-namespace", ""),
        uid=annotations.get(f"{_CONTAINERD}sandbox-uid", ""),
        sandbox=annotations.get(f"{_CONTAINERD}container-type") == _SANDBOX,
    )


def pod_labels(bundle: str, identity: ContainerIdentity) -> dict[str, str]:
    """Return the labels of the container's pod; none unless CRI-O started it.

    CRI-O's bundles are STORAGE/CONTAINER_ID/userdata and STORAGE/SANDBOX_ID/userdata.
    The sandbox ID becomes a part of a path, so anything but an ID is refused.
    """
    sandbox_id = identity.crio_sandbox_id
    if len(sandbox_id) != _ID_LENGTH or sandbox_id.strip(_HEX_DIGITS):
        return {}
    own = os.path.normpath(bundle)
    storage = os.path.dirname(os.path.dirname(own))
    try:
        spec = read_spec(f"{storage}/{sandbox_id}/{os.path.basename(own)}")
    except HookError:
        return {}
    return string_entries(object_in(spec, "annotations").get(f"{_CRIO}Labels"))


def _of_crio(annotations: Mapping[str, str], sandbox: bool) -> ContainerIdentity:
    # k8s_NAME_NAMESPACE_UID_ATTEMPT. Kubernetes allows no `_` in any of these names.
    parts = annotations.get(f"{_CRIO}SandboxName", "").split("_")
    pod, namespace, uid = parts[1:4] if len(parts) == 5 else ("", "", "")
    return ContainerIdentity(
        container=string_entries(annotations.get(f"{_CRIO}Metadata")).get("name", ""),
        pod=pod,
        namespace=namespace,
        uid=uid,
        sandbox=sandbox,
        crio_sandbox_id=annotations.get(f"{_CRIO}SandboxID", ""),
    )
