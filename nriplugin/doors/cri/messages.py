"""From CRI's messages to what the engine knows.

A runtime's status carries less than the request did, and what is missing is in the
verbose part, whose shape is the runtime's own. containerd and CRI-O both put the OCI
specification there, under the same name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.convert.readers import from_cri, from_oci
from nriplugin.doors.cri.inventory import Known
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.provenance import owned_by_record
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.errors import ConversionError
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import parse_managed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import cri_pb2 as cri
    from nriplugin.convert import Resources


class Told(NamedTuple):
    """A container that a runtime has told about, and its cgroup."""

    known: Known
    cgroup: str | None


def pod_of(config: cri.PodSandboxConfig, oci_runtime: str | None) -> Pod:
    """Read a pod from what it is made with."""
    return Pod(
        uid=config.metadata.uid,
        name=config.metadata.name,
        namespace=config.metadata.namespace,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        cgroup_parent=config.linux.cgroup_parent,
        oci_runtime=oci_runtime,
    )


def pod_of_status(response: cri.PodSandboxStatusResponse) -> Pod:
    """Read a pod from its status."""
    status = response.status
    cgroup = _cgroup(_spec(response.info))
    return Pod(
        uid=status.metadata.uid,
        name=status.metadata.name,
        namespace=status.metadata.namespace,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        # The parent of its first container, which does nothing but hold it open.
        cgroup_parent=cgroup.rpartition("/")[0] if cgroup else "",
        oci_runtime=oci_runtime_of(status.runtime_handler),
    )


def resources_of(message: cri.LinuxContainerResources) -> Resources:
    """Read resources, to be kept after the message has changed.

    Raises:
        ConversionError: a value without a meaning.
    """
    return from_cri(message)._replace(unified=dict(message.unified))


def told_of(sandbox_id: str, response: cri.ContainerStatusResponse) -> Told:
    """Read a container from its status, and which files are ours from our record."""
    status, spec = response.status, _spec(response.info)
    resources = _resources(status, spec)
    text = status.annotations.get(MANAGED_KEY)
    managed = None if text is None else parse_managed(text)
    ours: Mapping[str, str] | None = None
    others: Mapping[str, str] = {}
    if managed is not None:
        unified, others = resources.unified, managed.others
        ours = owned_by_record(managed, unified, shown=bool(spec or unified))
    score = _mapping(spec, "process").get("oomScoreAdj")
    container = Container(
        name=status.metadata.name,
        id=status.id,
        resources=resources,
        oom_score_adj=score if isinstance(score, int) else None,
        ours=ours,
        others=others,
    )
    return Told(Known(sandbox_id, container), _cgroup(spec))


def _resources(status: cri.ContainerStatus, spec: Mapping[str, Any]) -> Resources:
    """Return CRI's numbers if the runtime repeats them, else those it made of them."""
    try:
        if status.resources.HasField("linux"):
            return resources_of(status.resources.linux)
        return from_oci(_mapping(spec, "linux").get("resources"))
    except ConversionError:
        return Container().resources


def _spec(info: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        document = json.loads(info.get("info", ""))
    except ValueError:
        return {}
    return _mapping(document, "runtimeSpec")


def _cgroup(spec: Mapping[str, Any]) -> str | None:
    path = _mapping(spec, "linux").get("cgroupsPath")
    return cgroup_of(path) if isinstance(path, str) else None


def _mapping(document: object, key: str) -> Mapping[str, Any]:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}
