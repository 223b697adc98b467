"""Kernel, systemd, pressure and swap: what this machine offers."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.finding import note, ok, warning
from nriplugin.engine.runtimes import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

# The first kernel for Kubernetes on cgroup v2, and what later ones brought.
OLDEST_KERNEL = (5, 8)
SINCE = {
    (5, 9): "a reliable memory.high",
    (5, 14): "cpu.max.burst",
    (5, 15): "cpu.idle",
}
# systemd links this library, whose name has the version, into its programs.
_LIBRARY = re.compile(r"libsystemd-shared-([0-9]+)[^/]*\.so")
_LIBRARY_DIRECTORIES = ("/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd")
# The first systemd with all properties that Kubernetes uses on cgroup v2.
OLDEST_SYSTEMD = 244


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say which kernel and which systemd there are, and what they lack."""
    yield _kernel(os.uname().release)
    yield from _systemd(host)
    yield _pressure(host)
    yield _swap(host)


def _kernel(release: str) -> CheckFinding:
    version = parse_version(release) or (0, 0)
    lacking = [what for since, what in SINCE.items() if version < since]
    if version < OLDEST_KERNEL:
        return warning(
            "kernel",
            f"The kernel {release} is older than 5.8, the first that Kubernetes "
            "supports with cgroup v2.",
            "Upgrade the kernel of the node.",
        )
    if lacking:
        return note(
            "kernel",
            f"The kernel {release} has no {', no '.join(lacking)}.",
            "Nothing to do: nriplugin skips settings that need them. To use them, "
            "upgrade the kernel.",
        )
    return ok("kernel", f"The kernel is {release}.")


def _systemd(host: ExaminedHost) -> Iterator[CheckFinding]:
    driver = str(host.node.driver.driver)
    if not host.files.exists("/run/systemd/system"):
        if driver == "systemd":
            yield note(
                "systemd",
                "The cgroup driver is systemd, but /run/systemd/system of the node is "
                "not to be seen from here.",
                "In a pod this is normal. On a node, set kubelet's cgroupDriver to "
                "cgroupfs if its init is not systemd.",
            )
        return
    version = _systemd_version(host)
    if version is None:
        yield ok("systemd", "The node runs systemd; its version cannot be read.")
    elif version < OLDEST_SYSTEMD and driver == "systemd":
        yield warning(
            "systemd",
            f"systemd {version} is older than 244 and lacks properties for cgroup v2 "
            "that kubelet uses, among them AllowedCPUs.",
            "Upgrade systemd with the operating system of the node.",
        )
    else:
        yield ok("systemd", f"The node runs systemd {version}.")


def _systemd_version(host: ExaminedHost) -> int | None:
    """Return the version, by the name of a library that systemd's programs use."""
    triplets = [
        f"/usr/lib/{name}/systemd"
        for name in host.files.names("/usr/lib")
        if name.endswith("-linux-gnu")
    ]
    for directory in (*_LIBRARY_DIRECTORIES, *triplets):
        for name in host.files.names(directory):
            found = _LIBRARY.match(name)
            if found is not None:
                return int(found[1])
    return None


def _pressure(host: ExaminedHost) -> CheckFinding:
    if os.path.exists(f"{host.proc}/pressure/memory"):
        return ok("pressure", "The kernel measures pressure (PSI).")
    return note(
        "pressure",
        f"The kernel measures no pressure (PSI): no {host.proc}/pressure.",
        "Boot with psi=1 if `nriplugin load` shall show pressure; nothing else needs "
        "it.",
    )


def _swap(host: ExaminedHost) -> CheckFinding:
    try:
        with open(f"{host.proc}/swaps", encoding="utf-8") as file:
            areas = len(file.read().splitlines()) - 1
    except OSError:
        areas = 0
    if areas > 0:
        return ok("swap", f"The node has swap ({areas} area{'s'[: areas > 1]}).")
    return note(
        "swap",
        "The node has no swap.",
        "Nothing to do. Memory above memory.high can then be reclaimed only from the "
        "page cache; containers that hold little of it may stall: prefer a "
        "memoryQoS.throttlingFactor near 1.",
    )
