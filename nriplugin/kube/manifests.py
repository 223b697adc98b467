"""From the documents of a manifest to the pods that they describe. Pure.

The caller reads the file and parses the YAML. A workload stands for one of its pods.
Kinds without pods are returned as skipped, and so are kinds of other API groups that
only share a name, such as Volcano's Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.podspec import PodSpec, read_pod_spec

# Used for a pod that has no UID yet, because it gets one when it is created.
UID_PLACEHOLDER = "<uid>"

# Kind -> the path to the template of its pods.
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_GROUPS = ("", "apps", "batch", "extensions")

# A bound is needed because a YAML alias can put a list into itself.
_MAX_DEPTH = 4


class ManifestPod(NamedTuple):
    """A pod, named after the object that it comes from."""

    kind: str
    name: str
    namespace: str | None
    uid: str
    spec: PodSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Skipped(NamedTuple):
    """An object that has no pods."""

    document: int
    kind: str
    name: str


class Manifests(NamedTuple):
    """The pods and the skipped objects, in the order of the documents."""

    pods: list[ManifestPod]
    skipped: list[Skipped]


class _Object(NamedTuple):
    document: int
    where: str
    kind: str
    content: Mapping[str, Any]


def read_manifests(documents: Iterable[object]) -> Manifests:
    """Find the pods; documents are counted from 1, and empty ones are fine.

    Raises:
        ConfigError: a document is not a Kubernetes object, or a pod is malformed; the
            error says which one and where.
    """
    found = Manifests([], [])
    for number, document in enumerate(documents, start=1):
        if document is None:  # nothing between two `---`, as templates leave behind
            continue
        for entry in _flatten(number, f"document {number}", document, None):
            group = str(entry.content.get("apiVersion", "")).rpartition("/")[0]
            if entry.kind in _TEMPLATES and group in _GROUPS:
                found.pods.append(_read_pod(entry))
            else:
                name = _name_in(_metadata(entry.content))
                found.skipped.append(Skipped(number, entry.kind, name))
    return found


def _flatten(
    number: int, where: str, content: object, kind: str | None, depth: int = 0
) -> Iterator[_Object]:
    """Yield objects; a list is replaced by its items.

    Items of a typed list (PodList) have no kind of their own: it is passed in.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where}: {content!r:.60}, expected a Kubernetes object")
    kind = content.get("kind", kind)
    if not isinstance(kind, str) or not kind:
        raise ConfigError(f"{where}: kind: {kind!r}, expected one such as Pod")
    items = content.get("items")
    if not kind.endswith("List") or not isinstance(items, list):
        yield _Object(number, where, kind, content)
        return
    if depth == _MAX_DEPTH:
        raise ConfigError(f"{where}: kind: {kind!r}, expected no list this deep")
    item_kind = kind.removesuffix("List") or None
    for index, item in enumerate(items):
        yield from _flatten(
            number, f"{where}, items[{index}]", item, item_kind, depth + 1
        )


def _read_pod(entry: _Object) -> ManifestPod:
    metadata = _metadata(entry.content)
    name = _name_in(metadata)
    where = f"{entry.where} ({entry.kind} {name})"
    path = (*_TEMPLATES[entry.kind], "spec")
    content: Any = entry.content
    for key in path:
        content = content.get(key)
        if not isinstance(content, Mapping):
            raise ConfigError(
                f"{where}: {'.'.join(path)}: "
                f"{'missing' if content is None else repr(content)[:60]}, "
                "expected the spec of a pod"
            )
    namespace = metadata.get("namespace")
    # Labels and annotations are those of the pod, not of the workload.
    own: Any = entry.content
    for key in _TEMPLATES[entry.kind]:
        own = own[key]
    own = _metadata(own)
    return ManifestPod(
        kind=entry.kind,
        name=name,
        namespace=None if namespace is None else str(namespace),
        uid=_uid_in(metadata) if entry.kind == "Pod" else UID_PLACEHOLDER,
        spec=read_pod_spec(content, f"{where}: {'.'.join(path)}"),
        labels=_texts(own.get("labels")),
        annotations=_texts(own.get("annotations")),
    )


def _uid_in(metadata: Mapping[str, Any]) -> str:
    """Return the UID that is in the name of the pod's cgroup.

    For a static pod that is the hash of its file, which its mirror pod in the API
    server has in an annotation; the mirror's own UID is not used on the node.
    """
    annotations = metadata.get("annotations")
    if (
        isinstance(annotations, Mapping)
        and "kubernetes.io/config.mirror" in annotations
    ):
        return str(annotations["kubernetes.io/config.mirror"])
    return str(metadata.get("uid") or UID_PLACEHOLDER)


def _texts(given: object) -> dict[str, str]:
    """Return labels or annotations; a number, as YAML reads it, becomes text."""
    if not isinstance(given, Mapping):
        return {}
    return {str(key): str(value) for key, value in given.items()}


def _metadata(content: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = content.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _name_in(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("name") or metadata.get("generateName") or "(no name)")
