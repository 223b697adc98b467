"""Who makes the kubelet's cgroups: systemd or the kubelet itself (cgroupfs).

Five rungs are asked in order and the first clear answer counts; each says what it saw,
so that a wrong answer can be understood. A value that is neither driver is reported
and the next rung is asked.

The kubelet's settings are asked for in the order in which they win for the kubelet:
the flags of its process, those that kubeadm has for it, the drop-ins of its
configuration directory, the last one first, and its configuration file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.kubelet_process import find_kubelet, read_file
from nriplugin.cgroup.locate.node_paths import kube_root_components
from nriplugin.cgroup.locate.paths import KUBEPODS, Driver, cgroup_path
from nriplugin.errors import ConfigError
from nriplugin.kube import kubelet_config as kubelet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nriplugin.kube.kubelet_config import KubeletSettings

ENV_DRIVER = "CGROUP_DRIVER"
CONFIG_FILE = "/var/lib/kubelet/config.yaml"
FLAGS_FILE = "/var/lib/kubelet/kubeadm-flags.env"
# Which files of a configuration directory the kubelet reads.
DROP_IN = ".conf"


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
    settings = _kubelet_settings(host)
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


def _kubelet_settings(host: str) -> list[_Asked]:
    """Return the sources of the kubelet's settings, the one that wins first."""
    flags = [
        _kubelet_process(host),
        _kubelet_file(f"{host}{FLAGS_FILE}", kubelet.parse_flags_file),
    ]
    told = [asked.settings for asked in flags if asked.settings is not None]
    config = next((one.config for one in told if one.config), CONFIG_FILE)
    directory = next((one.config_dir for one in told if one.config_dir), None)
    files = [] if directory is None else _drop_ins(_on_host(host, directory))
    files.append(_on_host(host, config))
    return [*flags, *(_kubelet_file(one, kubelet.parse_config_file) for one in files)]


def _drop_ins(directory: str) -> list[str]:
    """Return the files of a configuration directory, the one that wins first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return [directory]  # which cannot be read either, and that is then told
    names = [name for name in names if name.endswith(DROP_IN)]
    return [f"{directory}/{name}" for name in sorted(names, reverse=True)]


def _on_host(host: str, path: str) -> str:
    # systemd and most others start the kubelet in the root directory.
    return f"{host}/{path.strip('/')}"


def _kubelet_file(path: str, parse: Callable[[str, str], KubeletSettings]) -> _Asked:
    try:
        return _Asked("kubelet files", path, parse(read_file(path), path))
    except OSError as exc:
        return _Asked("kubelet files", path, None, f"{path}: {exc.strerror}")
    except ConfigError as exc:
        return _Asked("kubelet files", path, None, str(exc))


def _kubelet_process(host: str) -> _Asked:
    # With hostPID, a pod's own /proc shows the node's processes.
    proc = f"{host}/proc" if os.path.isdir(f"{host}/proc") else "/proc"
    found = find_kubelet(proc)
    if found.problem:
        return _Asked("kubelet process", found.source, None, found.problem)
    settings = kubelet.parse_arguments(found.arguments)
    return _Asked("kubelet process", found.source, settings)


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
    for asked in settings:
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
