"""Reads NRI messages into the engine's values: Pod, Container and Resources.

The messages are the ones of proto/nriplugin/api/view.proto. They declare only the
fields that are read here, so that the parser skips most of a request. A pod stays bytes
in them, and the caller parses it only if a decision depends on the pod.

This is on the request path: every container start passes through these functions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nriplugin.api import view_pb2 as view
from nriplugin.api.nri_pb2 import CONTAINER_CREATED
from nriplugin.convert.readers import Zero, core_from_nri, read_amount
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.kube.annotations import SUFFIX
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import parse_managed
from nriplugin.state.inventory import ContainerEntry, summarise_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.kube.managed import Managed
    from nriplugin.state.inventory import PodEntry

# Prefixes of the labels and annotations of PodGroups (kube/podgroup.py).
_GROUP_PREFIXES = (b"volcano.sh/", b"scheduling.k8s.io/")

# Searched for in a pod's bytes, which costs less than a loop over its annotations.
OUR_SUFFIX = SUFFIX.encode()

_CRIO_METADATA = "io.kubernetes.cri-o.Metadata"


def decode_pod(payload: bytes) -> view.PodSandbox:
    """Return the pod of a request; called at most once for each request."""
    return view.PodSandbox.FromString(payload)


def read_pod(pod: view.PodSandbox, curves: Mapping[str, Curve]) -> Pod:
    """Return a pod; `curves` has the recognised curves of pods by their UID."""
    uid = pod.uid
    # Positional arguments are the fastest way to create a NamedTuple.
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


def read_kept_pod(entry: PodEntry) -> Pod | None:
    """Return the pod that an entry was made of, if the entry keeps it."""
    return read_pod(decode_pod(entry.message), {}) if entry.message else None


def pod_entry(
    sandbox_id: str, pod: Pod, payload: bytes = b"", *, keep: bool = False
) -> PodEntry:
    """Return the inventory's entry of a pod.

    `payload` is the pod's message as bytes; without it, the entry has no PodGroup. Most
    pods belong to no PodGroup, and searching the bytes for the prefixes costs less than
    looking up a dozen keys. With `keep`, the entry keeps the bytes.
    """
    grouped = any(prefix in payload for prefix in _GROUP_PREFIXES)
    message, annotated = payload if keep else b"", OUR_SUFFIX in payload
    return summarise_pod(
        sandbox_id, pod, grouped=grouped, message=message, annotated=annotated
    )


def existing_entry(message: view.Container, pod: PodEntry) -> ContainerEntry:
    """Return the entry of a container that this process has not decided about."""
    return ContainerEntry(
        message.id,
        name_of(message),
        pod,
        message.linux.cgroups_path,
        started=message.state != CONTAINER_CREATED,
        owned=False,
        oom_score_adj=score_in_job(message, pod),
    )


def score_in_job(message: view.Container, pod: PodEntry) -> int | None:
    """Return kubelet's OOM score of a container whose pod belongs to a job."""
    if pod.group is None or not message.linux.HasField("oom_score_adj"):
        return None
    return message.linux.oom_score_adj.value


def name_of(container: view.Container) -> str:
    """Return a container's name in its pod.

    CRI-O up to 1.36 sends no name with CreateContainer, but has it in an annotation,
    as JSON.
    """
    name = container.name
    if name:
        return name
    metadata = _annotation(container, _CRIO_METADATA)
    return "" if metadata is None else _name_in(metadata)


def managed_of(container: view.Container, pod: Pod) -> Managed | None:
    """Return the record that nriplugin made with the container, if it has one.

    A record that equals an annotation of the pod is not taken for nriplugin's: runtimes
    copy a pod's annotations to its containers, and a pod's author can write any text.
    """
    text = _annotation(container, MANAGED_KEY)
    if text is None or pod.annotations.get(MANAGED_KEY) == text:
        return None
    return parse_managed(text)


def _annotation(container: view.Container, key: str) -> str | None:
    """Return an annotation's value; only entries that contain the key are parsed."""
    encoded = key.encode()
    for entry in container.annotations:
        # The bytes may also match in an entry's value, so the parsed key is compared.
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
    """Return a container that is about to be created.

    If not `whole`, only its resources are read, which is enough where decisions depend
    on nothing else.

    Raises:
        ConversionError: a number in the message has no meaning.
    """
    linux = container.linux
    if not whole:
        return Container("", "", core_from_nri(linux.resources))
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    return Container(
        name_of(container), container.id, core_from_nri(linux.resources), score
    )


def read_existing(container: view.Container) -> Container:
    """Return a container that exists already, including its swap limit.

    Raises:
        ConversionError: a number in the message has no meaning.
    """
    read = read_container(container)
    swap = container.linux.resources.memory.swap.value
    if not swap:
        return read
    amount = read_amount("memory.swap", swap, zero=Zero.NOT_GIVEN)
    return read._replace(resources=read.resources._replace(memory_swap_bytes=amount))
