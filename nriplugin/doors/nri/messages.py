"""From an NRI request, as api/view.proto sees it, to what the engine decides about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.locate.paths import cgroup_of, cgroup_of_parent
from nriplugin.convert.readers import Zero, core_from_nri, read_amount
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import parse_managed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.kube.managed import Managed

_CRIO_METADATA = "io.kubernetes.cri-o.Metadata"


def read_pod(pod: view.PodSandbox, curves: Mapping[str, Curve]) -> Pod:
    """Return a pod; `curves` are those that were recognised, by UID."""
    uid = pod.uid
    # By position, which is the quickest.
    return Pod(
        uid,
        pod.name,
        pod.namespace,
        pod.labels,
        pod.annotations,
        None,
        pod.linux.cgroup_parent,
        curves.get(uid) if curves else None,
        oci_runtime_of(pod.runtime_handler),
    )


def parse_pod(payload: bytes, curves: Mapping[str, Curve]) -> Pod:
    """Return the pod of a request."""
    return read_pod(view.PodSandbox.FromString(payload), curves)


def name_of(container: view.Container) -> str:
    """Return a container's name in its pod.

    CRI-O up to 1.36 leaves it out when a container is made, and has it as JSON in an
    annotation of its own.
    """
    name = container.name
    if name:
        return name
    metadata = _annotation(container, _CRIO_METADATA)
    return "" if metadata is None else _name_in(metadata)


def managed_of(container: view.Container, pod: Pod) -> Managed | None:
    """Return the record of what we set when the container was made, if it has one.

    Runtimes copy annotations of a pod to its containers, and anybody may write those:
    a record that is the pod's too is not ours.
    """
    text = _annotation(container, MANAGED_KEY)
    if text is None or pod.annotations.get(MANAGED_KEY) == text:
        return None
    return parse_managed(text)


def recorded_numbers(container: view.Container) -> str | None:
    """Return the numbers in a container's record; None if it has no record of them."""
    text = _annotation(container, MANAGED_KEY)
    managed = None if text is None else parse_managed(text)
    return managed.numbers if managed else None


def _annotation(container: view.Container, key: str) -> str | None:
    """Return an annotation, parsing as few of the entries as possible."""
    encoded = key.encode()
    for entry in container.annotations:
        if encoded in entry:  # the key, or a value in which a pod's author put it
            annotation = view.StringEntry.FromString(entry)
            if annotation.key == key:
                return annotation.value
    return None


def _name_in(metadata: str) -> str:
    try:
        found = json.loads(metadata)["name"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def read_container(container: view.Container) -> Container:
    """Return a container that is about to be made.

    Raises:
        ConversionError: a number that means nothing.
    """
    linux = container.linux
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    return Container(
        name_of(container), container.id, core_from_nri(linux.resources), score
    )


def read_existing(container: view.Container) -> Container:
    """Return a container that exists, with the swap that it has.

    Raises:
        ConversionError: a number that means nothing.
    """
    read = read_container(container)
    swap = container.linux.resources.memory.swap.value
    if not swap:
        return read
    amount = read_amount("memory.swap", swap, zero=Zero.NOT_GIVEN)
    return read._replace(resources=read.resources._replace(memory_swap_bytes=amount))


def cgroups_of(pod: Pod, container: view.Container) -> tuple[str | None, str | None]:
    """Return the cgroups of the pod and of the container, where they are known."""
    own = cgroup_of(container.linux.cgroups_path)
    parent = cgroup_of_parent(pod.cgroup_parent) if pod.cgroup_parent else None
    if parent is None and own is not None:
        parent = own.rpartition("/")[0] or None
    return parent, own
