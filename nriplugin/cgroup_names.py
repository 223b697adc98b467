"""How the kubelet and systemd name the cgroups of pods: the only parser. Pure.

The kubelet builds a pod's cgroup from components: its cgroupRoot (mostly empty),
`kubepods`, the QoS class (Guaranteed has none), and `pod` with the UID. Its cgroupfs
driver makes each component a directory, `/kubepods/burstable/pod<uid>`. Its systemd
driver joins them with `-` to the name of a slice, and systemd nests one slice per
prefix: `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`.

This module is below both `kube` and `cgroup`, which may not import each other:
`kube.qos` needs the QoS class, `cgroup.locate` everything.
"""

from __future__ import annotations

from typing import NamedTuple

from nriplugin.errors import ConfigError

KUBEPODS = "kubepods"
SLICE = ".slice"
SCOPE = ".scope"

# QoS class -> its components below kubepods.
QOS_COMPONENTS: dict[str, tuple[str, ...]] = {
    "Guaranteed": (),
    "Burstable": ("burstable",),
    "BestEffort": ("besteffort",),
}
_QOS_CLASSES = {names[0]: qos for qos, names in QOS_COMPONENTS.items() if names}
_POD = "pod"


class KubepodsPath(NamedTuple):
    """The parts of a path that has `kubepods` in it.

    `qos_class` and `pod_uid` are None where the path ends before them; `below` holds
    the directories after the last part that is understood.
    """

    in_slices: bool  # named by the systemd driver
    root: tuple[str, ...]
    qos_class: str | None
    pod_uid: str | None
    below: tuple[str, ...]


def parse_kubepods(path: str) -> KubepodsPath | None:
    """Return the parts of a cgroup's path, or None if it is not below kubepods.

    The name of a slice alone, as the kubelet gives it to a runtime, is a path, too.
    """
    # On the path of every NRI request, so it does no more than it has to.
    directories = path.split("/")
    for index, name in enumerate(directories):
        if KUBEPODS not in name:
            continue
        if name == KUBEPODS:
            root = tuple([one for one in directories[:index] if one])
            below = [one for one in directories[index + 1 :] if one]
            qos_class, uid, used = _class_and_uid(below, 0)
            return KubepodsPath(False, root, qos_class, uid, tuple(below[used:]))
        stem = _slice_stem(name)
        if stem is not None and KUBEPODS in stem.split("-"):
            below = [one for one in directories[index + 1 :] if one]
            return _parse_slices(name, stem, below)
    return None


def expand_slice(name: str) -> str:
    """Return the path of a systemd slice: `a-b.slice` is `/a.slice/a-b.slice`.

    Raises:
        ConfigError: not the name of a slice.
    """
    stem = name.removesuffix(SLICE)
    if stem == "-":
        return "/"
    components = stem.split("-")
    if stem == name or "/" in name or "" in components:
        raise ConfigError(
            f"slice: {name!r}, expected A.slice or A-B.slice, no / and no part empty"
        )
    depths = range(1, len(components) + 1)
    return "".join(f"/{'-'.join(components[:depth])}{SLICE}" for depth in depths)


def _parse_slices(name: str, stem: str, below: list[str]) -> KubepodsPath:
    """Read slices from the first one with `kubepods` in its name on."""
    # Each slice repeats the name of the slice above it, so the innermost one has all
    # components.
    while below and ":" not in name:
        deeper = _slice_stem(below[0])
        if not deeper or not deeper.startswith(stem):
            break
        name, stem = below[0], deeper
        below = below[1:]
    if ":" in name:
        # The kubelet uses systemd and the runtime does not: the runtime has taken
        # SLICE:PREFIX:ID, which names a systemd scope, for a directory's name.
        below = ["-".join(name.split(":")[1:]) + SCOPE, *below]
    components = stem.split("-")
    at = components.index(KUBEPODS)
    # The systemd driver writes a `-` inside of a component as `_`.
    root = tuple([one.replace("_", "-") for one in components[:at]])
    qos_class, uid, _ = _class_and_uid(components, at + 1)
    uid = None if uid is None else uid.replace("_", "-")
    return KubepodsPath(True, root, qos_class, uid, tuple(below))


def _class_and_uid(
    components: list[str], used: int
) -> tuple[str | None, str | None, int]:
    """Return QoS class and UID, and how many components have been used then."""
    count = len(components)
    qos_class = _QOS_CLASSES.get(components[used]) if used < count else None
    if qos_class is not None:
        used += 1
    if used < count:
        name = components[used]
        if name.startswith(_POD) and name != _POD:
            return qos_class or "Guaranteed", name[len(_POD) :], used + 1
    return qos_class, None, used


def _slice_stem(name: str) -> str | None:
    if ":" in name:
        name = name.partition(":")[0]
    return name[: -len(SLICE)] if name.endswith(SLICE) else None
