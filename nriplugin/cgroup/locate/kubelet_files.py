"""Finds and reads the sources of the kubelet's settings on a node.

The sources are in the order in which the kubelet itself lets them win: the flags of its
process, the flags that kubeadm keeps in a file, the drop-ins of its configuration
directory from the last to the first, and its configuration file.

Their text is parsed by a `KubeletParser` that the caller passes in
(`nriplugin.kube.kubelet_config`), because the rules of Kubernetes are in `kube`, which
`cgroup` may not import.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nriplugin.cgroup.locate.kubelet_process import find_kubelet, read_file
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Where the configuration file is if no flag names it; the first that exists is read.
CONFIG_FILES = ("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet/config")
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

    Each takes what to parse and where it is from; those of files raise ConfigError.
    """

    def parse_arguments(self, words: Sequence[str], source: str) -> SettingsFound:
        """Read the kubelet's command line."""
        ...

    def parse_flags_file(self, text: str, source: str) -> SettingsFound:
        """Read kubeadm-flags.env."""
        ...

    def parse_config_file(self, text: str, source: str) -> SettingsFound:
        """Read a KubeletConfiguration, or a drop-in."""
        ...


class SourceKind(Enum):
    """The kinds of sources."""

    PROCESS = "process"
    FLAGS_FILE = "flags file"
    DROP_IN = "drop-in"
    FILE = "configuration file"


class KubeletSource(NamedTuple):
    """A source of the kubelet's settings, or why it has none."""

    kind: SourceKind
    place: str
    settings: SettingsFound | None
    problem: str = ""
    # Whether there is no such source, and the kubelet was not told of one.
    absent: bool = False


def kubelet_sources(host: str, kubelet: KubeletParser) -> list[KubeletSource]:
    """Return the sources of the kubelet's settings, the one that wins first.

    Args:
        host: where the node's own files are, without a `/` at the end.
        kubelet: parses the settings.
    """
    flags = [
        _kubelet_process(host, kubelet),
        _optional(
            _read(
                SourceKind.FLAGS_FILE, f"{host}{FLAGS_FILE}", kubelet.parse_flags_file
            )
        ),
    ]
    given = [source.settings for source in flags if source.settings is not None]
    config = next((one.config for one in given if one.config), None)
    directory = next((one.config_dir for one in given if one.config_dir), None)
    parse = kubelet.parse_config_file
    found = list(flags)
    if directory is not None:
        files = [*_drop_ins(_on_host(host, directory))]
        found += [_read(SourceKind.DROP_IN, one, parse) for one in reversed(files)]
    if config is not None:
        return [*found, _read(SourceKind.FILE, _on_host(host, config), parse)]
    return [*found, _optional(_read(SourceKind.FILE, _usual_file(host), parse))]


def _optional(source: KubeletSource) -> KubeletSource:
    """Return a source that the kubelet need not have."""
    return source._replace(absent=not os.path.lexists(source.place))


def _usual_file(host: str) -> str:
    paths = [f"{host}{path}" for path in CONFIG_FILES]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def _drop_ins(directory: str) -> Iterator[str]:
    """Yield the files of a configuration directory, the one that wins last."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        yield directory  # reading it fails as well, and that becomes the evidence
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _drop_ins(f"{directory}/{entry.name}")
        elif entry.name.endswith(DROP_IN):
            yield f"{directory}/{entry.name}"


def _on_host(host: str, path: str) -> str:
    # systemd and most others start the kubelet in the root directory.
    return f"{host}/{path.strip('/')}"


def _read(
    kind: SourceKind, path: str, parse: Callable[[str, str], SettingsFound]
) -> KubeletSource:
    try:
        return KubeletSource(kind, path, parse(read_file(path), path))
    except OSError as exc:
        return KubeletSource(kind, path, None, f"{path}: {exc.strerror}")
    except ConfigError as exc:
        return KubeletSource(kind, path, None, str(exc))


def _kubelet_process(host: str, kubelet: KubeletParser) -> KubeletSource:
    # With hostPID, a pod's own /proc shows the node's processes.
    proc = f"{host}/proc" if os.path.isdir(f"{host}/proc") else "/proc"
    kind = SourceKind.PROCESS
    found = find_kubelet(proc)
    if found.problem:
        return KubeletSource(kind, found.source, None, found.problem, absent=True)
    settings = kubelet.parse_arguments(found.arguments, found.source)
    return KubeletSource(kind, found.source, settings)
