"""From NRI messages, as api/view.proto declares them, to the engine's values.

The view messages declare only the fields that are read here, so the parser skips the
rest of a request, which is most of it. A pod stays bytes until it is needed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nriplugin.api import view_pb2 as view
from nriplugin.api.nri_pb2 import CONTAINER_CREATED
from nriplugin.convert.readers import Zero, core_from_nri, read_amount
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import parse_managed
from nriplugin.state.inventory import ContainerEntry, summarise_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.kube.managed import Managed
    from nriplugin.state.inventory import PodEntry

# What the keys of PodGroups begin with (kube/podgroup.py).
_GROUP_PREFIXES = (b"volcano.sh/", b"scheduling.k8s.io/")

_CRIO_METADATA = "io.kubernetes.cri-o.Metadata"


def read_pod(pod: view.PodSandbox, curves: Mapping[str, Curve]) -> Pod:
    """Return a pod; `curves` are those that were recognised, by UID."""
    uid = pod.uid
    # By position, which is the quickest way to make a NamedTuple.
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


def pod_entry(sandbox_id: str, pod: Pod, payload: bytes = b"") -> PodEntry:
    """Return the inventory's entry of a pod.

    `payload` is the pod's message; without one, the entry has no PodGroup keys. Most
    pods have none, and a search in the bytes costs less than a dozen look-ups.
    """
    grouped = any(prefix in payload for prefix in _GROUP_PREFIXES)
    return summarise_pod(sandbox_id, pod, grouped=grouped)


def existing_entry(message: view.Container, pod: PodEntry) -> ContainerEntry:
    """Return the entry of a container of which only the runtime's message is known."""
    return ContainerEntry(
        message.id,
        name_of(message),
        pod,
        message.linux.cgroups_path,
        started=message.state != CONTAINER_CREATED,
        owned=False,
    )


def name_of(container: view.Container) -> str:
    """Return a container's name in its pod.

    CRI-O up to 1.36 leaves the name out of CreateContainer, and has it as JSON in an
    annotation.
    """
    name = container.name
    if name:
        return name
    metadata = _annotation(container, _CRIO_METADATA)
    return "" if metadata is None else _name_in(metadata)


def managed_of(container: view.Container, pod: Pod) -> Managed | None:
    """Return the record that nriplugin made with the container, if it has one.

    Runtimes copy annotations of a pod to its containers, and every author of a pod may
    write those: a record that the pod has, too, is not nriplugin's.
    """
    text = _annotation(container, MANAGED_KEY)
    if text is None or pod.annotations.get(MANAGED_KEY) == text:
        return None
    return parse_managed(text)


def _annotation(container: view.Container, key: str) -> str | None:
    """Return an annotation, parsing as few of the entries as possible."""
    encoded = key.encode()
    for entry in container.annotations:
        # A match may also be in a value, so the entry's key is compared, too.
        if encoded in entry:
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


def read_container(container: view.Container, *, whole: bool = True) -> Container:
    """Return a container that is about to be created; if not `whole`, its numbers only.

    Raises:
        ConversionError: a number without a meaning.
    """
    linux = container.linux
    if not whole:
        return Container("", "", core_from_nri(linux.resources))
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
