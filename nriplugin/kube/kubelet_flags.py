"""The kubelet's flags that decide about capacity, as its own flag parser reads them.

`--flag=value` and `--flag value` are the same, except for truth values, which take
`=value` or none at all. An underscore in a name is a dash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError
from nriplugin.kube.kubelet_values import misspelt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Not fields of a configuration file; the flags have no equal there.
CONFIG = "--config"
CONFIG_DIR = "--config-dir"
ROOT_DIR = "--root-dir"

# Go's strconv.ParseBool.
_TRUTH = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _text(value: str) -> str:
    return value


def _truth(value: str) -> bool:
    if value not in _TRUTH:
        raise ConfigError(f"{value!r:.60}, expected true or false")
    return _TRUTH[value]


def _number(value: str) -> int:
    try:
        return int(value)
    except ValueError as exc:
        raise ConfigError(f"{value!r:.60}, expected a number") from exc


def _names(value: str) -> list[str]:
    return value.split(",") if value else []


def _pairs(value: str, sign: str = "=") -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in value.split(","):
        key, given, amount = pair.partition(sign)
        if pair and not given:
            raise ConfigError(f"{pair!r:.60}, expected NAME{sign}VALUE")
        if pair:
            found[key.strip()] = amount.strip()
    return found


def _thresholds(value: str) -> dict[str, object]:
    return _pairs(value, "<")


def _gates(value: str) -> dict[str, object]:
    pairs = _pairs(value)
    for gate, text in pairs.items():
        try:
            pairs[gate] = _truth(str(text))
        except ConfigError as exc:
            raise ConfigError(f"{gate}: {exc}") from exc
    return pairs


# The flag -> the field that it sets, and the reader of its text.
FLAGS: dict[str, tuple[str, Callable[[str], object]]] = {
    CONFIG: (CONFIG, _text),
    CONFIG_DIR: (CONFIG_DIR, _text),
    ROOT_DIR: (ROOT_DIR, _text),
    "--container-runtime-endpoint": ("containerRuntimeEndpoint", _text),
    "--cgroup-root": ("cgroupRoot", _text),
    "--cgroups-per-qos": ("cgroupsPerQOS", _truth),
    "--cgroup-driver": ("cgroupDriver", _text),
    "--kubelet-cgroups": ("kubeletCgroups", _text),
    "--system-cgroups": ("systemCgroups", _text),
    "--system-reserved": ("systemReserved", _pairs),
    "--kube-reserved": ("kubeReserved", _pairs),
    "--qos-reserved": ("qosReserved", _pairs),
    "--reserved-cpus": ("reservedSystemCPUs", _text),
    "--system-reserved-cgroup": ("systemReservedCgroup", _text),
    "--kube-reserved-cgroup": ("kubeReservedCgroup", _text),
    "--enforce-node-allocatable": ("enforceNodeAllocatable", _names),
    "--eviction-hard": ("evictionHard", _thresholds),
    "--cpu-cfs-quota": ("cpuCFSQuota", _truth),
    "--cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", _text),
    "--pod-max-pids": ("podPidsLimit", _number),
    "--feature-gates": ("featureGates", _gates),
}

_NAMES = [flag[2:] for flag in FLAGS]


def read_flags(
    words: Sequence[tuple[str, str]], problems: list[str]
) -> Iterator[tuple[str, object, str]]:
    """Yield field, value and place of each flag that is known.

    Args:
        words: the words of a command line without the program, with their sources.
        problems: flags that cannot be read are appended, in one line each.
    """
    rest = iter(words)
    for word, source in rest:
        given, equals, value = word.partition("=")
        name = given.replace("_", "-")
        place = f"{source}: {name}"
        if name not in FLAGS:
            if name.startswith("--") and (meant := misspelt(name[2:], _NAMES)):
                problems.append(f"{source}: {given:.60} is unknown, expected --{meant}")
            continue
        field, read = FLAGS[name]
        if not equals and read is _truth:
            value = "true"
        elif not equals:
            following = next(rest, None)
            if following is None:
                problems.append(f"{place}: no value is given, expected one")
                return
            value = following[0]
        try:
            yield field, read(value), place
        except ConfigError as exc:
            problems.append(f"{place}: {exc}")
