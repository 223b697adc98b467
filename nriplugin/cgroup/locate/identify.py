"""From a cgroup's path back to what it is: QoS class, pod, container, runtime.

Understands what paths.py builds, and what else stands in such paths: crun's inner
`container`, CRI-O's conmon, a kubelet below somebody's cgroup root (as in kind), and
the path that results when the kubelet uses systemd and containerd does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import KUBEPODS, SCOPE, SLICE, Driver, RuntimeName

if TYPE_CHECKING:
    from collections.abc import Mapping

_QOS_BY_NAME = {"burstable": "Burstable", "besteffort": "BestEffort"}
_CONMON = "crio-conmon-"


@dataclass(frozen=True, slots=True)
class CgroupIdentity:
    """What a path says; a field is None where the path does not reach so far."""

    driver: Driver
    # The kubelet's cgroupRoot. A slice has the same name for a `-` and a `_` in it:
    # here it is a `-`, and makes the same slice again.
    root: tuple[str, ...] = ()
    qos_class: str | None = None
    pod_uid: str | None = None
    container_id: str | None = None
    runtime: RuntimeName | None = None
    conmon: bool = False  # CRI-O's monitor of the container, not the container
    inner: tuple[str, ...] = ()  # what is below the container, such as crun's

    @property
    def level(self) -> str:
        """Return kubepods, qos, pod or container."""
        if self.container_id is not None:
            return "container"
        if self.pod_uid is not None:
            return "pod"
        return "qos" if self.qos_class is not None else KUBEPODS


@dataclass(frozen=True, slots=True)
class ProcessCgroups:
    """/proc/PID/cgroup: the path in each v1 hierarchy, and in the unified one."""

    controllers: Mapping[str, str]
    unified: str | None

    def place(self) -> CgroupIdentity | None:
        """Return what the process belongs to, if it is a pod's."""
        # The unified one last: on a hybrid node it may be `/` for everybody.
        for path in (*self.controllers.values(), self.unified or "/"):
            place = identify(path)
            if place is not None:
                return place
        return None


def identify(path: str) -> CgroupIdentity | None:
    """Return what a path is, or None for what is no kubelet's."""
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts):
        if part == KUBEPODS:
            return _in_directories(tuple(parts[:index]), parts[index + 1 :])
        stem = _slice_stem(part)
        if stem is not None and KUBEPODS in stem.split("-"):
            return _in_slices(parts[index:])
    return None


def parse_process_cgroups(text: str) -> ProcessCgroups:
    """Read /proc/PID/cgroup: `4:memory:/PATH` per v1 hierarchy, `0::/PATH` for v2."""
    controllers: dict[str, str] = {}
    unified = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if not colon or not number.isdecimal():
            continue
        path = path.removesuffix(" (deleted)")
        if number == "0" and not names:
            unified = path
            continue
        for name in names.split(","):
            controllers[name] = path
    return ProcessCgroups(controllers, unified)


def _in_directories(root: tuple[str, ...], rest: list[str]) -> CgroupIdentity:
    qos_class = _QOS_BY_NAME.get(rest[0]) if rest else None
    if qos_class is not None:
        rest = rest[1:]
    uid = None
    if rest and rest[0].startswith("pod") and len(rest[0]) > len("pod"):
        uid = rest[0].removeprefix("pod")
        qos_class = qos_class or "Guaranteed"
    if uid is None:
        return CgroupIdentity(Driver.CGROUPFS, root, qos_class, inner=tuple(rest))
    return _with_container(Driver.CGROUPFS, root, qos_class, uid, rest[1:])


def _in_slices(parts: list[str]) -> CgroupIdentity:
    # Only the innermost slice counts: its name repeats those above.
    stem, rest = "", parts
    while rest and (deeper := _slice_stem(rest[0])) and deeper.startswith(stem):
        stem = deeper
        if ":" in rest[0]:  # SLICE:PREFIX:ID, taken for a directory's name
            rest = ["-".join(rest[0].split(":")[1:]) + SCOPE, *rest[1:]]
            break
        rest = rest[1:]
    names = [name.replace("_", "-") for name in stem.split("-")]
    at = names.index(KUBEPODS)
    root, below = tuple(names[:at]), names[at + 1 :]
    qos_class = _QOS_BY_NAME.get(below[0]) if below else None
    if qos_class is not None:
        below = below[1:]
    if not below or not below[0].startswith("pod") or len(below[0]) == len("pod"):
        return CgroupIdentity(Driver.SYSTEMD, root, qos_class, inner=tuple(rest))
    uid = below[0].removeprefix("pod")
    return _with_container(Driver.SYSTEMD, root, qos_class or "Guaranteed", uid, rest)


def _with_container(
    driver: Driver,
    root: tuple[str, ...],
    qos_class: str | None,
    uid: str,
    rest: list[str],
) -> CgroupIdentity:
    if not rest:
        return CgroupIdentity(driver, root, qos_class, uid)
    name, inner = rest[0].removesuffix(SCOPE), tuple(rest[1:])
    conmon = name.startswith(_CONMON)
    runtime: RuntimeName | None
    if conmon:
        name, runtime = name.removeprefix(_CONMON), RuntimeName.CRIO
    else:
        name, runtime = _without_prefix(name, driver)
    return CgroupIdentity(driver, root, qos_class, uid, name, runtime, conmon, inner)


def _without_prefix(name: str, driver: Driver) -> tuple[str, RuntimeName | None]:
    for runtime in RuntimeName:
        identity = name.removeprefix(f"{runtime}-")
        if identity not in ("", name):
            return identity, runtime
    # With cgroupfs, containerd's have no prefix, nor have Docker's.
    return name, RuntimeName.CONTAINERD if driver is Driver.CGROUPFS else None


def _slice_stem(part: str) -> str | None:
    name = part.partition(":")[0]
    return name.removesuffix(SLICE) if name.endswith(SLICE) else None
