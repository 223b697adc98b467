"""Whose container it is, by what its runtime notes in the annotations of its spec.

CRI-O copies a pod's own annotations in there before it adds its own, so anybody who may
create a pod can write any key but CRI-O's. Where CRI-O's are, only those count.

Pod labels are in no container's spec. CRI-O keeps them in its sandbox's, next to it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.doors.hook.bundle import HookError, mapping, read_spec, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

_CRIO = "io.kubernetes.cri-o."
_CONTAINERD = "io.kubernetes.cri."
_SANDBOX = "sandbox"

_SANDBOX_ID = re.compile(r"[0-9a-f]{64}")


class Identity(NamedTuple):
    """A container's names; empty where it is no pod's."""

    container: str = ""
    pod: str = ""
    namespace: str = ""
    uid: str = ""
    sandbox: bool = False  # the pod's own container, without a workload
    crio_sandbox_id: str = ""


def identify_container(annotations: Mapping[str, str]) -> Identity:
    """Return who a container is."""
    kind = annotations.get(f"{_CRIO}ContainerType")
    if kind is not None:
        return _of_crio(annotations, kind == _SANDBOX)
    return Identity(
        container=annotations.get(f"{_CONTAINERD}container-name", ""),
        pod=annotations.get(f"{_CONTAINERD}sandbox-name", ""),
        namespace=annotations.get(f"{_CONTAINERD}sandbox-namespace", ""),
        uid=annotations.get(f"{_CONTAINERD}sandbox-uid", ""),
        sandbox=annotations.get(f"{_CONTAINERD}container-type") == _SANDBOX,
    )


def pod_labels(bundle: str, identity: Identity) -> dict[str, str]:
    """Return the labels of a container's pod, where its runtime keeps them.

    CRI-O: STORAGE/CONTAINER/userdata is the container's bundle, and likewise the
    sandbox's.
    """
    sandbox_id = identity.crio_sandbox_id
    if not _SANDBOX_ID.fullmatch(sandbox_id):
        return {}
    own = os.path.normpath(bundle)
    storage = os.path.dirname(os.path.dirname(own))
    try:
        spec = read_spec(f"{storage}/{sandbox_id}/{os.path.basename(own)}")
    except HookError:
        return {}
    return texts(mapping(spec, "annotations").get(f"{_CRIO}Labels"))


def _of_crio(annotations: Mapping[str, str], sandbox: bool) -> Identity:
    # k8s_NAME_NAMESPACE_UID_ATTEMPT; none of them has a _ in Kubernetes.
    parts = annotations.get(f"{_CRIO}SandboxName", "").split("_")
    pod, namespace, uid = parts[1:4] if len(parts) == 5 else ("", "", "")
    return Identity(
        container=texts(annotations.get(f"{_CRIO}Metadata")).get("name", ""),
        pod=pod,
        namespace=namespace,
        uid=uid,
        sandbox=sandbox,
        crio_sandbox_id=annotations.get(f"{_CRIO}SandboxID", ""),
    )
