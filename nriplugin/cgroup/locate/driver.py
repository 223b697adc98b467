"""Which driver makes the kubelet's cgroups: systemd, or the kubelet itself (cgroupfs).

Five rungs are asked in order and the first clear answer counts: the environment, the
kubelet's process, its files, the directories that exist, and a default. Each rung says
what it saw, so that a wrong answer can be understood. A value that names neither driver
is reported, and the next rung is asked.

The kubelet's settings are looked for in the order in which the kubelet itself lets them
win (`kubelet_files`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.kubelet_files import SourceKind, kubelet_sources
from nriplugin.cgroup.locate.node_paths import kube_root_components
from nriplugin.cgroup.locate.paths import Driver, cgroup_path
from nriplugin.cgroup_names import KUBEPODS
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.cgroup.locate.kubelet_files import KubeletParser, KubeletSource

ENV_DRIVER = "CGROUP_DRIVER"


class Rung(NamedTuple):
    """One place that was asked; `driver` is None if it gave no usable answer."""

    name: str
    evidence: str
    driver: Driver | None


class DetectedDriver(NamedTuple):
    """The answer, with every rung down to the one that gave it."""

    driver: Driver
    rungs: tuple[Rung, ...]
    kube_root: tuple[str, ...] = ()  # the kubelet's cgroupRoot
    kube_root_evidence: str = "not configured"


def detect_driver(
    environ: Mapping[str, str],
    host_root: str,
    trees: Sequence[str],
    kubelet: KubeletParser | None = None,
) -> DetectedDriver:
    """Ask the rungs; nothing is written, and no error ends the detection.

    Args:
        environ: the environment, which may name the driver.
        host_root: where the node's own files are: `/`, unless this is a container.
        trees: the directories below which kubepods may be.
        kubelet: parses the kubelet's settings; None leaves its rungs out.
    """
    host = host_root.rstrip("/")
    settings = [] if kubelet is None else kubelet_sources(host, kubelet)
    kube_root, kube_root_evidence = _kube_root(settings)
    rungs: list[Rung] = []
    for rung in (
        _judged("environment", ENV_DRIVER, environ.get(ENV_DRIVER)),
        *(_settings_rung(one) for one in settings),
        _file_system(trees, kube_root),
        Rung(
            "default", "assumed: nothing on this node names the driver", Driver.CGROUPFS
        ),
    ):
        rungs.append(rung)
        if rung.driver is not None:
            break
    last = rungs[-1].driver
    assert last is not None  # the default has one
    return DetectedDriver(last, tuple(rungs), kube_root, kube_root_evidence)


def _settings_rung(source: KubeletSource) -> Rung:
    process = source.kind is SourceKind.PROCESS
    name = "kubelet process" if process else "kubelet files"
    if source.settings is None:
        return Rung(name, source.problem, None)
    return _judged(name, source.place, source.settings.driver)


def _judged(name: str, source: str, value: str | None) -> Rung:
    if not value:
        return Rung(name, f"{source}: no driver given", None)
    if value not in tuple(Driver):
        expected = " or ".join(Driver)
        return Rung(name, f"{source}: {value!r}, expected {expected}", None)
    return Rung(name, f"{source}: {value}", Driver(value))


def _kube_root(sources: Sequence[KubeletSource]) -> tuple[tuple[str, ...], str]:
    for source in sources:
        if source.settings is None or source.settings.cgroup_root is None:
            continue
        root = source.settings.cgroup_root
        try:
            return kube_root_components(root), f"{source.place}: {root!r}"
        except ConfigError as exc:
            return (), f"{source.place}: {exc}"
    return (), "not configured"


def _file_system(trees: Sequence[str], kube_root: tuple[str, ...]) -> Rung:
    name = "file system"
    found: dict[Driver, str] = {}
    for tree in trees:
        for driver in Driver:
            directory = tree + cgroup_path((*kube_root, KUBEPODS), driver)
            if os.path.isdir(directory):
                found.setdefault(driver, directory)
    if len(found) == 1:
        ((driver, directory),) = found.items()
        return Rung(name, f"{directory} is there", driver)
    if found:
        both = " and ".join(found.values())
        return Rung(name, f"{both} are both there", None)
    return Rung(name, f"no kubepods in {', '.join(trees) or 'any tree'}", None)
