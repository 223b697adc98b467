"""From a cgroup's path back to what it is: QoS class, pod, container, runtime. Pure.

`cgroup_names` parses the path down to the pod. This module reads what follows: the
container's directory or scope, crun's inner `container`, and CRI-O's conmon. It
understands every path that paths.py builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import Driver, RuntimeName
from nriplugin.cgroup_names import KUBEPODS, SCOPE, parse_kubepods

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONMON = "crio-conmon-"


class CgroupIdentity(NamedTuple):
    """What a path says; a field is None where the path does not reach so far."""

    driver: Driver
    # The kubelet's cgroupRoot. The name of a slice is the same for a `-` and a `_` in
    # it: here it is always a `-`, from which the same slice can be built again.
    root: tuple[str, ...] = ()
    qos_class: str | None = None
    pod_uid: str | None = None
    container_id: str | None = None
    runtime: RuntimeName | None = None
    conmon: bool = False  # CRI-O's monitor of the container, not the container
    inner: tuple[str, ...] = ()  # cgroups below the container, such as crun's

    @property
    def level(self) -> str:
        """Return kubepods, qos, pod or container."""
        if self.container_id is not None:
            return "container"
        if self.pod_uid is not None:
            return "pod"
        return "qos" if self.qos_class is not None else KUBEPODS


class ProcessCgroups(NamedTuple):
    """/proc/PID/cgroup: the path in each v1 hierarchy, and in the unified one."""

    controllers: Mapping[str, str]
    unified: str | None

    def identity(self) -> CgroupIdentity | None:
        """Return what the process belongs to, if that is a pod."""
        # The unified path comes last: on a hybrid node it may be `/` for all processes.
        for path in (*self.controllers.values(), self.unified or "/"):
            found = identify(path)
            if found is not None:
                return found
        return None


def identify(path: str) -> CgroupIdentity | None:
    """Return what a path is, or None if the kubelet did not make it."""
    parts = parse_kubepods(path)
    if parts is None:
        return None
    in_slices, root, qos_class, uid, below = parts
    driver = Driver.SYSTEMD if in_slices else Driver.CGROUPFS
    if uid is None:
        return CgroupIdentity(driver, root, qos_class, inner=below)
    if not below:
        return CgroupIdentity(driver, root, qos_class, uid)
    name, inner = below[0].removesuffix(SCOPE), below[1:]
    conmon = name.startswith(_CONMON)
    runtime: RuntimeName | None
    if conmon:
        name, runtime = name.removeprefix(_CONMON), RuntimeName.CRIO
    else:
        name, runtime = _without_prefix(name, driver)
    return CgroupIdentity(driver, root, qos_class, uid, name, runtime, conmon, inner)


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


def _without_prefix(name: str, driver: Driver) -> tuple[str, RuntimeName | None]:
    for runtime in RuntimeName:
        container_id = name.removeprefix(f"{runtime}-")
        if container_id not in ("", name):
            return container_id, runtime
    # With cgroupfs, neither containerd nor Docker puts a prefix before the ID.
    return name, RuntimeName.CONTAINERD if driver is Driver.CGROUPFS else None
