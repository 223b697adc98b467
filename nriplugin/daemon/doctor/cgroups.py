"""The node's cgroups: version, controllers and their delegation, driver, rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.detect import REQUIRED_CONTROLLERS
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.daemon.doctor.answers import LISTENING, dial
from nriplugin.daemon.doctor.finding import note, ok, problem, warning
from nriplugin.daemon.doctor.mount_options import mount_of
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.files import LocalFiles
    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

# What kubelet uses and can do without.
OPTIONAL = ("pids", "hugetlb")


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say whether values can be written to this node's cgroups, and by whom."""
    node = host.node
    yield _version(host)
    try:
        files = node.open_files()
    except CgroupError as exc:
        yield problem(
            "cgroup-root",
            f"The cgroups at {node.cgroup_root} cannot be read: {exc}.",
            "Run doctor on the node. In a pod, mount the node's /sys/fs/cgroup below "
            "the host root; --cgroup-root names another place.",
        )
        return
    with files:
        yield from _controllers(host)
        if node.version.number == 2:
            yield from _delegation(host, files)
    yield _driver(host)
    yield from _system_bus(host)
    if node.version.number == 2 and not node.plain:
        yield from _nsdelegate(host)
    yield _writes(host)


def _version(host: ExaminedHost) -> CheckFinding:
    version = host.node.version
    if version.number == 2:
        return ok("cgroup-version", f"cgroup v2: {version.evidence}.")
    text = f"cgroup v1: {version.evidence}."
    if version.hybrid:
        text = f"cgroup v1 with a hybrid hierarchy: {version.hybrid}."
    return warning(
        "cgroup-version",
        f"{text} nriplugin does direct writes only on such a node: CPU burst and QoS "
        "levels, where they are on. Everything else is as without it.",
        "Boot the node with cgroup v2: systemd.unified_cgroup_hierarchy=1 on the "
        "kernel's command line, or an operating system that has it by default.",
    )


def _controllers(host: ExaminedHost) -> Iterator[CheckFinding]:
    present = host.node.controllers()
    missing = host.node.missing_controllers()
    if missing:
        yield problem(
            "controllers",
            f"The controllers {', '.join(missing)} are missing at "
            f"{host.node.cgroup_root}, which has {' '.join(present) or 'none'}. "
            "kubelet does not start without them.",
            "Enable them in the kernel's configuration and command line (remove "
            "cgroup_disable=memory, add cgroup_enable=memory on a Raspberry Pi). In a "
            "pod, mount the node's whole /sys/fs/cgroup.",
        )
        return
    lacking = [name for name in OPTIONAL if name not in present]
    text = f"The node has the controllers {' '.join(present)}."
    if lacking:
        yield note(
            "controllers",
            f"{text} It lacks {' and '.join(lacking)}.",
            "Nothing to do unless pods have limits on processes or huge pages.",
        )
    else:
        yield ok("controllers", text)


def _delegation(host: ExaminedHost, files: LocalFiles) -> Iterator[CheckFinding]:
    """Look at cgroup.subtree_control from the root down to the cgroup of all pods."""
    kubepods = host.node.paths.kubepods()
    if not os.path.isdir(f"{host.node.cgroup_root}{kubepods}"):
        yield note(
            "delegation",
            f"There is no cgroup {kubepods}: this node has no kubelet yet, or another "
            "cgroupRoot or driver.",
            "Start kubelet, then run doctor again.",
        )
        return
    parts = kubepods.strip("/").split("/")
    chain = ["/", *("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))]
    required = REQUIRED_CONTROLLERS[2]
    for cgroup in chain:
        try:
            text = files.read(f"{cgroup.rstrip('/')}/cgroup.subtree_control")
        except CgroupError as exc:
            yield warning(
                "delegation",
                f"It is not known which controllers {cgroup} hands down: {exc}.",
                "Run doctor as root on the node.",
            )
            return
        missing = [name for name in required if name not in text.split()]
        if missing:
            names = " ".join(f"+{name}" for name in missing)
            file = f"{host.node.cgroup_root}{cgroup.rstrip('/')}/cgroup.subtree_control"
            yield problem(
                "delegation",
                f"{cgroup} does not hand the controllers {', '.join(missing)} down to "
                "its children, so containers have no files of them.",
                f"Restart kubelet, which enables them; or echo '{names}' > {file}. If "
                "the file refuses that, a process lives in that very cgroup.",
            )
            return
    yield ok(
        "delegation",
        f"The controllers {', '.join(required)} are handed down to {kubepods}.",
    )


def _driver(host: ExaminedHost) -> CheckFinding:
    driver = host.node.driver
    last = driver.rungs[-1]
    text = f"The cgroup driver is {driver.driver}, by {last.name}: {last.evidence}."
    if last.name == "default":
        return note(
            "cgroup-driver",
            text,
            "Nothing to do on a node without kubelet; else set CGROUP_DRIVER to "
            "systemd or cgroupfs.",
        )
    wrong = _existing_of_other(host)
    if wrong:
        return warning(
            "cgroup-driver",
            f"{text} But {wrong} is there, which the other driver makes.",
            "If the driver was changed, drain and reboot the node. Else set "
            f"CGROUP_DRIVER={_other(driver.driver)} for nriplugin.",
        )
    return ok("cgroup-driver", text)


def _other(driver: Driver) -> Driver:
    return Driver.CGROUPFS if driver is Driver.SYSTEMD else Driver.SYSTEMD


def _existing_of_other(host: ExaminedHost) -> str:
    """Return the cgroup of all pods of the other driver, if only that one is there."""
    node = host.node
    own = node.paths.root_path("cpu")
    other = node.paths._replace(driver=_other(node.driver.driver)).root_path("cpu")
    return other if os.path.isdir(other) and not os.path.isdir(own) else ""


def _system_bus(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Look for the bus over which systemd is told of direct writes."""
    if host.node.driver.driver is not Driver.SYSTEMD:
        return
    from nriplugin.cgroup.systemd.dbus import SYSTEM_BUS  # late: it needs jeepney

    path = host.files.path(SYSTEM_BUS)
    state = dial(path) if os.path.exists(path) else "it does not exist"
    if state == LISTENING:
        yield ok("system-bus", f"systemd can be told of direct writes, by {path}.")
        return
    yield note(
        "system-bus",
        f"The system bus {path} cannot be used: {state}. Many direct writes then last "
        "only until the next `systemctl daemon-reload`.",
        "Nothing to do unless a handler needs direct writes. Then add the component "
        "systemd to the DaemonSet (deploy/README.md).",
    )


def _nsdelegate(host: ExaminedHost) -> Iterator[CheckFinding]:
    mount = mount_of(host.node.cgroup_root, host.proc)
    if mount is None:
        return
    if "nsdelegate" in mount.super_options:
        yield ok("nsdelegate", "cgroup2 is mounted with nsdelegate.")
        return
    yield note(
        "nsdelegate",
        "cgroup2 is mounted without nsdelegate: a container that may write to its own "
        "cgroup can change the limits that it was given.",
        "Run `mount -o remount,nsdelegate /sys/fs/cgroup` on the node; systemd mounts "
        "it so by default.",
    )


def _writes(host: ExaminedHost) -> CheckFinding:
    node = host.node
    kubepods = node.paths.kubepods()
    if node.writable():
        return ok("cgroup-writes", f"This process may write below {kubepods}.")
    mount = None if node.plain else mount_of(node.cgroup_root, host.proc)
    if mount is not None and "ro" in mount.options:
        return note(
            "cgroup-writes",
            f"{node.cgroup_root} is mounted read-only, so direct writes are off; what "
            "goes through the runtime is not affected.",
            "Nothing to do unless a handler needs direct writes. Then add the "
            "component cgroup-writes to the DaemonSet (deploy/README.md).",
        )
    return warning(
        "cgroup-writes",
        f"This process (user {os.geteuid()}) may not write below {kubepods}, so direct "
        "writes are off.",
        "Run nriplugin as root; under systemd, ReadWritePaths has to name "
        "/sys/fs/cgroup.",
    )
