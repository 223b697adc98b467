"""Finds the sockets of container runtimes on a host."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.runtime_files import CONTAINERD, CRIO
from nriplugin.sockets import SCHEME

if TYPE_CHECKING:
    from nriplugin.daemon.doctor.host_files import HostFiles

# The CRI sockets of containerd, of CRI-O, and of containerd in k3s.
CRI_SOCKETS = {
    "/run/containerd/containerd.sock": CONTAINERD,
    "/run/crio/crio.sock": CRIO,
    "/run/k3s/containerd/containerd.sock": CONTAINERD,
}


def find_cri_sockets(files: HostFiles, endpoint: str) -> dict[str, str]:
    """Return path on the host -> path for this process; that of kubelet comes first.

    `endpoint` is what kubelet is told, or empty.
    """
    paths = [*CRI_SOCKETS]
    kubelets = endpoint.removeprefix(SCHEME)
    if kubelets.startswith("/"):
        paths.insert(0, kubelets)
    found: dict[str, str] = {}
    for path in paths:
        here = files.path(path)
        if is_socket(here) and here not in found.values():
            found[path] = here
    return found


def is_socket(path: str) -> bool:
    """Whether there is a socket at a path."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
