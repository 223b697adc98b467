"""From the documents of a manifest to the pods that they describe. Pure.

The caller reads the file and parses the YAML. A workload stands for one of its pods,
and a Volcano Job for one pod of each task. In an object of any other kind the templates
of pods are searched for, so that the workloads of operators are understood, too. An
object without any is returned as skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.podgroup_object import GroupObject, group_of_volcano_job, read_group
from nriplugin.kube.podspec import PodSpec, read_pod_spec
from nriplugin.kube.templates import Template, find_templates, stated_replicas
from nriplugin.kube.volcano_jobs import API_GROUP, task_pods

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
    """A pod, named after the object that it comes from.

    A pod of a Volcano Job has the name that Volcano gives it.
    """

    kind: str
    name: str
    namespace: str | None
    uid: str
    spec: PodSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    path: str = ""  # where in the object its template is
    replicas: int | None = None  # how many such pods the object says there are
    added: Mapping[str, str] = {}  # annotations that a controller adds
    template: Mapping[str, Any] = {}  # as it was given
    owner_annotations: Mapping[str, str] = {}  # of the object, which pods do not get
    priority: int | None = None
    phase: str = ""  # by its status, of a pod that exists


class Skipped(NamedTuple):
    """An object that has no pods."""

    document: int
    kind: str
    name: str


class Manifests(NamedTuple):
    """The pods, the skipped objects and the PodGroups, in the order of the documents.

    Among the PodGroups are those that Volcano would make for its Jobs.
    """

    pods: list[ManifestPod]
    skipped: list[Skipped]
    groups: list[GroupObject]


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
    found = Manifests([], [], [])
    for number, document in enumerate(documents, start=1):
        if document is None:  # nothing between two `---`, as templates leave behind
            continue
        for entry in _flatten(number, f"document {number}", document, None):
            _add_object(entry, found)
    return found


def read_pod(content: Mapping[str, Any], where: str) -> ManifestPod:
    """Return the pod that an object is; its place is named in errors.

    Raises:
        ConfigError: the pod is malformed.
    """
    where = f"{where} (Pod {_name_in(_metadata(content))})"
    return _pod_of(
        _Object(1, where, "Pod", content), Template("", content, None), where
    )


def _add_object(entry: _Object, found: Manifests) -> None:
    metadata = _metadata(entry.content)
    name = _name_in(metadata)
    where = f"{entry.where} ({entry.kind} {name})"
    group = str(entry.content.get("apiVersion", "")).rpartition("/")[0]
    if entry.kind in _TEMPLATES and group in _GROUPS:
        template = _template_at(entry, _TEMPLATES[entry.kind], where)
        found.pods.append(_pod_of(entry, template, where))
    elif (entry.kind, group) == ("Job", API_GROUP):
        _add_volcano_job(entry, name, where, found)
    elif (entry.kind, group) == ("PodGroup", "scheduling.volcano.sh"):
        found.groups.append(read_group(entry.content, name, where))
    elif templates := find_templates(entry.content, where):
        found.pods.extend(_pod_of(entry, one, where) for one in templates)
    else:
        found.skipped.append(Skipped(entry.document, entry.kind, name))


def _add_volcano_job(entry: _Object, name: str, where: str, found: Manifests) -> None:
    uid = str(_metadata(entry.content).get("uid") or UID_PLACEHOLDER)
    tasks = task_pods(entry.content, name, uid, where)
    for task in tasks:
        pod = _pod_of(entry, task.template, where)
        found.pods.append(
            pod._replace(
                name=task.name,
                labels={**pod.labels, **task.labels},
                annotations={**pod.annotations, **task.annotations},
                added=task.annotations,
            )
        )
    found.groups.append(group_of_volcano_job(entry.content, name, uid, where))


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


def _template_at(entry: _Object, path: tuple[str, ...], where: str) -> Template:
    """Return the template of a kind whose template has a fixed place.

    The template of a Pod is the Pod.
    """
    holder: Mapping[str, Any] = {}
    content = entry.content
    for key in path:
        holder, content = content, content.get(key) or {}
        if not isinstance(content, Mapping):
            raise _no_spec(where, (*path, "spec"), content)
    return Template(".".join(path), content, stated_replicas(holder))


def _pod_of(entry: _Object, template: Template, where: str) -> ManifestPod:
    path = (*([template.path] if template.path else []), "spec")
    spec = template.content.get("spec")
    if not isinstance(spec, Mapping):
        raise _no_spec(where, path, spec)
    metadata = _metadata(entry.content)
    namespace = metadata.get("namespace")
    # Labels and annotations are those of the pod, not of the workload.
    own = _metadata(template.content)
    return ManifestPod(
        kind=entry.kind,
        name=_name_in(metadata),
        namespace=None if namespace is None else str(namespace),
        uid=UID_PLACEHOLDER if template.path else _uid_in(metadata),
        spec=read_pod_spec(spec, f"{where}: {'.'.join(path)}"),
        labels=_texts(own.get("labels")),
        annotations=_texts(own.get("annotations")),
        path=template.path,
        replicas=template.replicas,
        template=template.content,
        owner_annotations=_texts(metadata.get("annotations")),
        priority=_whole_number(spec.get("priority")),
        phase="" if template.path else _phase_in(entry.content),
    )


def _no_spec(where: str, path: tuple[str, ...], found: object) -> ConfigError:
    shown = "missing" if found is None else repr(found)[:60]
    return ConfigError(
        f"{where}: {'.'.join(path)}: {shown}, expected the spec of a pod"
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


def _phase_in(content: Mapping[str, Any]) -> str:
    status = content.get("status")
    return str(status.get("phase") or "") if isinstance(status, Mapping) else ""


def _whole_number(given: object) -> int | None:
    """Return a number, or None for anything else."""
    return given if isinstance(given, int) and not isinstance(given, bool) else None


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
