"""What the configuration files of containerd and CRI-O say about NRI and cgroups.

containerd (cmd/containerd/server/config): a file may import others, relative to itself
and with `*`; what is imported wins. From containerd 2 sections are merged key by key;
before, an imported section replaces the whole. The first format, without `version`, has
the short names of plugins.

CRI-O (crio.conf.d(5)): the main file first, then every file of the directory in the
order of their names; the last one wins.
"""

from __future__ import annotations

import os
import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.daemon.doctor.host_files import HostFiles

CONTAINERD, CRIO = "containerd", "cri-o"
CONTAINERD_FILE = "/etc/containerd/config.toml"
CRIO_FILE = "/etc/crio/crio.conf"
CRIO_DIRECTORY = "/etc/crio/crio.conf.d"

NRI_PLUGIN = "io.containerd.nri.v1.nri"
# The plugin that makes containers for CRI, by the version of the configuration.
_CRI_PLUGINS = {1: "cri", 2: "io.containerd.grpc.v1.cri"}
_CRI_PLUGIN = "io.containerd.cri.v1.runtime"

# More files than any node has; imports may be a circle.
_MAX_FILES = 200


class RuntimeSettings(NamedTuple):
    """The settings of one runtime; None is "not mentioned"."""

    name: str
    main_file: str
    files: tuple[str, ...] = ()  # of the host, in the order in which they were read
    errors: tuple[str, ...] = ()  # files that cannot be read, and why
    version: int | None = None  # of the format of containerd's configuration
    nri: bool | None = None
    nri_file: str = ""  # the file that said so last
    connections: bool = True  # whether plugins may connect by themselves
    socket_path: str | None = None
    plugin_path: str | None = None
    systemd: bool | None = None  # whether systemd makes the cgroups of containers


def containerd_settings(
    files: HostFiles, main_file: str = CONTAINERD_FILE, *, merges: bool = True
) -> RuntimeSettings:
    """Read containerd's configuration.

    Args:
        files: the host's files.
        main_file: the path of the configuration on the host.
        merges: whether imported sections are merged, as containerd 2 does, if the
            version of the configuration does not tell.
    """
    read: dict[str, Any] = {}
    errors: list[str] = []
    pending = [main_file]
    while pending and len(read) < _MAX_FILES:
        path = pending.pop(0)
        if path in read:
            continue
        document = _toml(files, path, errors, missing_is_error=path != main_file)
        if document is None:
            continue
        read[path] = document
        pending += _imports(files, path, document.get("imports"))
    version = _number(read.get(main_file, {}).get("version")) or 1 if read else None
    merged: dict[str, Any] = {}
    nri_file = switched_off_in = ""
    nri_plugin = "nri" if version == 1 else NRI_PLUGIN
    for path, document in read.items():
        plugins = _table(document.get("plugins"))
        if merges or (version or 0) >= 3:
            merged = merged_tables(merged, plugins)
        else:
            merged |= plugins
        disabled = document.get("disabled_plugins")
        if isinstance(disabled, list) and nri_plugin in disabled:
            switched_off_in = path
        if "disable" in _table(plugins.get(nri_plugin)):
            nri_file = path
    own = _table(merged.get(nri_plugin))
    disable = True if switched_off_in else own.get("disable")
    return RuntimeSettings(
        *(CONTAINERD, main_file, tuple(read), tuple(errors), version),
        nri=None if not isinstance(disable, bool) else not disable,
        nri_file=switched_off_in or nri_file,
        connections=own.get("disable_connections") is not True,
        socket_path=_text(own.get("socket_path")),
        plugin_path=_text(own.get("plugin_path")),
        systemd=_systemd_of_containerd(merged, version),
    )


def crio_settings(
    files: HostFiles, main_file: str = CRIO_FILE, directory: str = CRIO_DIRECTORY
) -> RuntimeSettings:
    """Read CRI-O's configuration."""
    read: dict[str, Any] = {}
    errors: list[str] = []
    for path in [main_file, *_below(files, directory)][:_MAX_FILES]:
        document = _toml(files, path, errors, missing_is_error=path != main_file)
        if document is not None:
            read[path] = document
    merged: dict[str, Any] = {}
    nri_file = ""
    for path, document in read.items():
        crio = _table(document.get("crio"))
        merged = merged_tables(merged, crio)
        if "enable_nri" in _table(crio.get("nri")):
            nri_file = path
    nri, runtime = _table(merged.get("nri")), _table(merged.get("runtime"))
    enabled, manager = nri.get("enable_nri"), runtime.get("cgroup_manager")
    return RuntimeSettings(
        *(CRIO, main_file, tuple(read), tuple(errors)),
        nri=enabled if isinstance(enabled, bool) else None,
        nri_file=nri_file,
        connections=nri.get("nri_disable_connections") is not True,
        socket_path=_text(nri.get("nri_listen")),
        plugin_path=_text(nri.get("nri_plugin_dir")),
        systemd=None if manager is None else manager == "systemd",
    )


def merged_tables(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table laid over another one, key by key and at every depth."""
    result = dict(below)
    for key, value in over.items():
        under = result.get(key)
        both = isinstance(value, dict) and isinstance(under, dict)
        result[key] = merged_tables(_table(under), value) if both else value
    return result


def _toml(
    files: HostFiles, path: str, errors: list[str], *, missing_is_error: bool
) -> dict[str, Any] | None:
    try:
        return tomllib.loads(files.read(path))
    except FileNotFoundError as exc:
        if missing_is_error:
            errors.append(f"{path}: {exc.strerror}")
    except OSError as exc:
        errors.append(f"{path}: {exc.strerror}")
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        errors.append(f"{path}: not TOML: {exc}")
    return None


def _imports(files: HostFiles, parent: str, imports: object) -> Iterable[str]:
    """Return the paths on the host that a file imports."""
    for one in imports if isinstance(imports, list) else []:
        path = os.path.normpath(os.path.join(os.path.dirname(parent), str(one)))
        if "*" not in path:
            yield path
            continue
        directory, _, pattern = path.rpartition("/")
        names = files.names(directory) if "*" not in directory else []
        for name in names:
            if fnmatchcase(name, pattern):
                yield f"{directory}/{name}"


def _below(files: HostFiles, directory: str) -> list[str]:
    """Return the files below a directory, in the order in which CRI-O reads them."""
    found = []
    for name in files.names(directory):
        path = f"{directory}/{name}"
        if os.path.isdir(files.path(path)):
            found += _below(files, path)
        else:
            found.append(path)
    return found


def _systemd_of_containerd(
    plugins: Mapping[str, Any], version: int | None
) -> bool | None:
    """Return SystemdCgroup of the default runtime."""
    name = _CRI_PLUGINS.get(version or 0, _CRI_PLUGIN)
    containerd = _table(_table(plugins.get(name)).get("containerd"))
    runtime = _text(containerd.get("default_runtime_name")) or "runc"
    handler = _table(_table(containerd.get("runtimes")).get(runtime))
    given = _table(handler.get("options")).get("SystemdCgroup")
    return given if isinstance(given, bool) else None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
