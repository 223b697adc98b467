"""The versions of what runs on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodes.machine import Machine


def runtime_versions(guest: Machine) -> dict[str, str]:
    """Return the versions of the runtime, the kernel and nriplugin."""
    runc = guest.check("runc", "--version").splitlines()[0]
    containerd = guest.check("containerd", "--version").split()[2]
    return {
        "containerd": containerd.removeprefix("v").partition("+")[0],
        "runc": runc.split()[-1],
        "kernel": guest.check("uname", "-r").strip(),
        "nriplugin": guest.check("nriplugin", "version").split()[1],
    }
