"""Who makes the kubelet's cgroups: systemd or the kubelet itself (cgroupfs).

Five rungs are asked in order and the first clear answer counts; each says what it saw,
so that a wrong answer can be understood. A value that is neither driver is reported
and the next rung is asked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup import kubelet
from nriplugin.cgroup.layout import kube_root_components
from nriplugin.cgroup.paths import KUBEPODS, Driver, cgroup_path
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nriplugin.cgroup.kubelet import KubeletSettings

ENV_DRIVER = "CGROUP_DRIVER"
CONFIG_FILE = "/var/lib/kubelet/config.yaml"
FLAGS_FILE = "/var/lib/kubelet/kubeadm-flags.env"

# None of these files is larger; what is, is not one.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rung:
    """One place that was asked; `driver` is None if it gave no usable answer."""

    name: str
    evidence: str
    driver: Driver | None


@dataclass(frozen=True, slots=True)
class DetectedDriver:
    """The answer, with every rung down to the one that gave it."""

    driver: Driver
    rungs: tuple[Rung, ...]
    kube_root: tuple[str, ...] = ()  # the kubelet's cgroupRoot
    kube_root_evidence: str = "not configured"


def detect_driver(
    environ: Mapping[str, str], host_root: str, trees: Sequence[str]
) -> DetectedDriver:
    """Ask the rungs; `trees` are the directories below which kubepods may be.

    `host_root` is where the node's own files are, `/` unless we run in a container.
    Nothing is written, and no error ends it.
    """
    host = host_root.rstrip("/")
    settings = [*_kubelet_files(host), _kubelet_process(host)]
    kube_root, kube_root_evidence = _kube_root(settings)
    rungs: list[Rung] = []
    for rung in (
        _judged("environment", ENV_DRIVER, environ.get(ENV_DRIVER)),
        *(_settings_rung(one) for one in settings),
        _file_system(trees, kube_root),
        Rung("default", "no rung before had an answer", Driver.CGROUPFS),
    ):
        rungs.append(rung)
        if rung.driver is not None:
            break
    last = rungs[-1].driver
    assert last is not None  # the default has one
    return DetectedDriver(last, tuple(rungs), kube_root, kube_root_evidence)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A source of the kubelet's settings, or why it has none."""

    rung: str
    source: str
    settings: KubeletSettings | None
    problem: str = ""


def _kubelet_files(host: str) -> Iterator[_Asked]:
    for name, parse in (
        (CONFIG_FILE, kubelet.parse_config_file),
        (FLAGS_FILE, kubelet.parse_flags_file),
    ):
        path = f"{host}{name}"
        try:
            yield _Asked("kubelet files", path, parse(_read(path), path))
        except OSError as exc:
            problem = f"{path}: {exc.strerror}"
            yield _Asked("kubelet files", path, None, problem)
        except ConfigError as exc:
            yield _Asked("kubelet files", path, None, str(exc))


def _kubelet_process(host: str) -> _Asked:
    # With hostPID, a pod's own /proc shows the node's processes.
    proc = f"{host}/proc" if os.path.isdir(f"{host}/proc") else "/proc"
    seen = 0
    try:
        pids = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError as exc:
        return _Asked("kubelet process", proc, None, f"{proc}: {exc.strerror}")
    for pid in sorted(pids, key=int):
        try:
            arguments = kubelet.parse_cmdline(_read(f"{proc}/{pid}/cmdline"))
        except OSError:  # it ended, or is not ours to see
            continue
        seen += 1
        if kubelet.is_kubelet(arguments):
            settings = kubelet.parse_arguments(arguments)
            return _Asked("kubelet process", f"{proc}/{pid}/cmdline", settings)
    problem = f"no kubelet among the {seen} processes in {proc}"
    return _Asked("kubelet process", proc, None, f"{problem}; a pod needs hostPID")


def _settings_rung(asked: _Asked) -> Rung:
    if asked.settings is None:
        return Rung(asked.rung, asked.problem, None)
    return _judged(asked.rung, asked.source, asked.settings.driver)


def _judged(name: str, source: str, value: str | None) -> Rung:
    if not value:
        return Rung(name, f"{source}: no driver given", None)
    if value not in tuple(Driver):
        expected = " or ".join(Driver)
        return Rung(name, f"{source}: {value!r}, expected {expected}", None)
    return Rung(name, f"{source}: {value}", Driver(value))


def _kube_root(settings: Sequence[_Asked]) -> tuple[tuple[str, ...], str]:
    # The flags of the process win over those of the file, and both over the file.
    for asked in reversed(settings):
        if asked.settings is None or asked.settings.cgroup_root is None:
            continue
        root = asked.settings.cgroup_root
        try:
            return kube_root_components(root), f"{asked.source}: {root!r}"
        except ConfigError as exc:
            return (), f"{asked.source}: {exc}"
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


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
