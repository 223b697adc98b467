"""Reads CRI messages into the engine's values: Pod, Container and Resources.

A container's status carries less than the request that created it. The missing values
are in the verbose part of the status. Its format is each runtime's own, but containerd
and CRI-O both put the OCI specification there, as JSON under the key `runtimeSpec`.

Messages come from outside this process: a field that is missing or has an unexpected
type is read as "not given", and only a number that has no meaning in a request raises.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.convert.readers import from_cri, from_oci
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.provenance import owned_by_record
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.errors import ConversionError
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import parse_managed
from nriplugin.state.inventory import ContainerEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import cri_pb2 as cri
    from nriplugin.convert import Resources
    from nriplugin.kube.managed import Managed
    from nriplugin.state.inventory import PodEntry
    from nriplugin.state.plan import Plan


class ReportedContainer(NamedTuple):
    """A container that the runtime has reported."""

    container: Container
    cgroup: str | None
    # The record that nriplugin made with the container, brought up to date by the
    # values that the runtime keeps; None if there is no record.
    record: Managed | None

    def entry_in(
        self, pod: PodEntry, record: Managed | None, *, started: bool
    ) -> ContainerEntry:
        """Return the inventory's entry of this container.

        Without a record the entry says that nriplugin does not know which of the
        container's values it set (`owned` is false).
        """
        entry = ContainerEntry(
            self.container.id,
            self.container.name,
            pod,
            self.cgroup or "",
            started=started,
            owned=record is not None,
            kept=self.container,
        )
        if record is None:
            return entry
        files, others, numbers = record
        return entry._replace(outdated=files, others=others, numbers=numbers)


def pod_of(config: cri.PodSandboxConfig, oci_runtime: str | None) -> Pod:
    """Read a pod from the configuration in its RunPodSandbox request."""
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
        # The status does not name the pod's cgroup. It is the parent of the cgroup of
        # the sandbox's own ("pause") container, whose OCI spec the status has.
        cgroup_parent=cgroup.rpartition("/")[0] if cgroup else "",
        oci_runtime=oci_runtime_of(status.runtime_handler),
    )


def described_pod(entry: PodEntry, plan: Plan) -> Pod:
    """Return the pod of an entry, with its own curve if that is not the node's."""
    pod = entry.described or Pod()
    curve = plan.curves.get(pod.uid)
    return pod if curve is None else pod._replace(curve=curve)


def resources_of(message: cri.LinuxContainerResources) -> Resources:
    """Read resources into a copy, so that rewriting the message does not change them.

    Raises:
        ConversionError: a number in the message has no meaning.
    """
    return from_cri(message)._replace(unified=dict(message.unified))


def container_of_status(response: cri.ContainerStatusResponse) -> ReportedContainer:
    """Read a container from its status."""
    status, spec = response.status, _spec(response.info)
    resources = _resources(status, spec)
    text = status.annotations.get(MANAGED_KEY)
    record = None if text is None else parse_managed(text)
    if record is not None:
        unified = resources.unified
        # Whether the status shows the container's cgroup v2 values at all. If it does
        # not, their absence says nothing about the record.
        shown = bool(spec or unified)
        record = record._replace(files=owned_by_record(record, unified, shown=shown))
    score = _mapping(spec, "process").get("oomScoreAdj")
    container = Container(
        name=status.metadata.name,
        id=status.id,
        resources=resources,
        oom_score_adj=score if isinstance(score, int) else None,
    )
    return ReportedContainer(container, _cgroup(spec), record)


def _resources(status: cri.ContainerStatus, spec: Mapping[str, Any]) -> Resources:
    """Return the resources in the status if it has them, else those in the OCI spec.

    Numbers without a meaning are no reason to forget the container: it is then read as
    one without resources.
    """
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
