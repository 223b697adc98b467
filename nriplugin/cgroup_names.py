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
    directories = [name for name in path.split("/") if name]
    for index, name in enumerate(directories):
        if name == KUBEPODS:
            root, rest = tuple(directories[:index]), directories[index + 1 :]
            return _parts(False, root, rest, rest)
        if KUBEPODS in name:
            stem = _slice_stem(name)
            if stem is not None and KUBEPODS in stem.split("-"):
                return _parse_slices(directories[index:])
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


def _parse_slices(directories: list[str]) -> KubepodsPath:
    # Each slice repeats the name of the slice above it, so the innermost one has all
    # components.
    stem, below = "", directories
    while below and (deeper := _slice_stem(below[0])) and deeper.startswith(stem):
        stem = deeper
        if ":" in below[0]:
            # The kubelet uses systemd and the runtime does not: the runtime has taken
            # SLICE:PREFIX:ID, which names a systemd scope, for a directory's name.
            scope = "-".join(below[0].split(":")[1:]) + SCOPE
            below = [scope, *below[1:]]
            break
        below = below[1:]
    # The systemd driver writes a `-` inside of a component as `_`.
    components = [name.replace("_", "-") for name in stem.split("-")]
    at = components.index(KUBEPODS)
    return _parts(True, tuple(components[:at]), components[at + 1 :], below)


def _parts(
    in_slices: bool, root: tuple[str, ...], components: list[str], below: list[str]
) -> KubepodsPath:
    """Read the components after kubepods; directories are components themselves."""
    used = 0
    qos_class = _QOS_CLASSES.get(components[0]) if components else None
    if qos_class is not None:
        used = 1
    uid = None
    if len(components) > used:
        name = components[used]
        if name.startswith(_POD) and name != _POD:
            uid = name[len(_POD) :]
            qos_class = qos_class or "Guaranteed"
            used += 1
    rest = tuple(below if in_slices else below[used:])
    return KubepodsPath(in_slices, root, qos_class, uid, rest)


def _slice_stem(name: str) -> str | None:
    name = name.partition(":")[0]
    return name.removesuffix(SLICE) if name.endswith(SLICE) else None
