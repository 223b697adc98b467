"""Which driver makes the kubelet's cgroups: systemd, or the kubelet itself (cgroupfs).

Five rungs are asked in order and the first clear answer counts: the environment, the
kubelet's process, its files, the directories that exist, and a default. Each rung says
what it saw, so that a wrong answer can be understood. A value that names neither driver
is reported, and the next rung is asked.

The kubelet's settings are looked for in the order in which the kubelet itself lets them
win: the flags of its process, the flags that kubeadm keeps in a file, the drop-ins of
its configuration directory from the last to the first, and its configuration file.

This module finds and reads those files. Their text is parsed by a `KubeletParser` that
the caller passes in (`nriplugin.kube.kubelet_config`), because the rules of Kubernetes
are in `kube`, which `cgroup` may not import.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nriplugin.cgroup.locate.kubelet_process import find_kubelet, read_file
from nriplugin.cgroup.locate.node_paths import kube_root_components
from nriplugin.cgroup.locate.paths import Driver, cgroup_path
from nriplugin.cgroup_names import KUBEPODS
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENV_DRIVER = "CGROUP_DRIVER"
CONFIG_FILE = "/var/lib/kubelet/config.yaml"
FLAGS_FILE = "/var/lib/kubelet/kubeadm-flags.env"
# The kubelet reads the files of its configuration directory that end like this.
DROP_IN = ".conf"


class SettingsFound(Protocol):
    """What a parser found in one source; None is "not mentioned"."""

    @property
    def driver(self) -> str | None:
        """Return the name of the cgroup driver."""
        ...

    @property
    def cgroup_root(self) -> str | None:
        """Return the cgroup below which the kubelet puts kubepods."""
        ...

    @property
    def config(self) -> str | None:
        """Return the path of the configuration file."""
        ...

    @property
    def config_dir(self) -> str | None:
        """Return the path of the configuration directory."""
        ...


class KubeletParser(Protocol):
    """Parses what the kubelet was told; `kube.kubelet_config` is one.

    A parser of a file takes its text and its path, and raises ConfigError.
    """

    def parse_arguments(self, words: Sequence[str]) -> SettingsFound:
        """Read the kubelet's command line."""
        ...

    def parse_flags_file(self, text: str, source: str) -> SettingsFound:
        """Read kubeadm-flags.env."""
        ...

    def parse_config_file(self, text: str, source: str) -> SettingsFound:
        """Read a KubeletConfiguration, or a drop-in."""
        ...


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


class KubeletSource(NamedTuple):
    """A source of the kubelet's settings, or why it has none."""

    rung: str
    place: str
    settings: SettingsFound | None
    problem: str = ""


def kubelet_sources(host: str, kubelet: KubeletParser) -> list[KubeletSource]:
    """Return the sources of the kubelet's settings, the one that wins first.

    Args:
        host: where the node's own files are, without a `/` at the end.
        kubelet: parses the settings.
    """
    flags = [
        _kubelet_process(host, kubelet),
        _kubelet_file(f"{host}{FLAGS_FILE}", kubelet.parse_flags_file),
    ]
    given = [source.settings for source in flags if source.settings is not None]
    config = next((one.config for one in given if one.config), CONFIG_FILE)
    directory = next((one.config_dir for one in given if one.config_dir), None)
    files = [] if directory is None else _drop_ins(_on_host(host, directory))
    files.append(_on_host(host, config))
    return [*flags, *(_kubelet_file(one, kubelet.parse_config_file) for one in files)]


def _drop_ins(directory: str) -> list[str]:
    """Return the files of a configuration directory, the one that wins first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return [directory]  # reading it fails as well, and that becomes the evidence
    names = [name for name in names if name.endswith(DROP_IN)]
    return [f"{directory}/{name}" for name in sorted(names, reverse=True)]


def _on_host(host: str, path: str) -> str:
    # systemd and most others start the kubelet in the root directory.
    return f"{host}/{path.strip('/')}"


def _kubelet_file(
    path: str, parse: Callable[[str, str], SettingsFound]
) -> KubeletSource:
    try:
        return KubeletSource("kubelet files", path, parse(read_file(path), path))
    except OSError as exc:
        return KubeletSource("kubelet files", path, None, f"{path}: {exc.strerror}")
    except ConfigError as exc:
        return KubeletSource("kubelet files", path, None, str(exc))


def _kubelet_process(host: str, kubelet: KubeletParser) -> KubeletSource:
    # With hostPID, a pod's own /proc shows the node's processes.
    proc = f"{host}/proc" if os.path.isdir(f"{host}/proc") else "/proc"
    found = find_kubelet(proc)
    if found.problem:
        return KubeletSource("kubelet process", found.source, None, found.problem)
    settings = kubelet.parse_arguments(found.arguments)
    return KubeletSource("kubelet process", found.source, settings)


def _settings_rung(source: KubeletSource) -> Rung:
    if source.settings is None:
        return Rung(source.rung, source.problem, None)
    return _judged(source.rung, source.place, source.settings.driver)


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
