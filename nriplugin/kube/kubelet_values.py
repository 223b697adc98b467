"""Readers of the kubelet's values: what the kubelet accepts, and nothing else.

Each reader takes a value as a configuration file has it and the name of its field, and
raises a ConfigError of one line that names both and says what was expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from nriplugin.convert.cpu_list import CPU_LIST_EXPECTED, parse_cpus
from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

SYSTEMD = "systemd"
DRIVERS = ("cgroupfs", SYSTEMD)
POLICIES = ("None", "TieredReservation")
SWAP_BEHAVIORS = ("NoSwap", "LimitedSwap")
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
ENFORCEABLE = (
    "none",
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
)
SIGNALS = (
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
)
# The feature gates that are read.
MEMORY_QOS = "MemoryQoS"
QOS_RESERVED = "QOSReserved"
CUSTOM_PERIOD = "CustomCPUCFSQuotaPeriod"
GATES = (MEMORY_QOS, QOS_RESERVED, CUSTOM_PERIOD)
# How alike a name has to be to one that is known to be taken for a misspelling of it.
# No two names of fields, of flags or of gates of the kubelet are that much alike.
_ALIKE = 0.8
# A duration of Go: numbers with units, without a sign.
_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = r"([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)"
_MS, _SECOND = 10**6, 10**9


def misspelt(name: str, known: Collection[str]) -> str | None:
    """Return the name that was probably meant; None if there is none like it."""
    import difflib  # late: a name that is not known is rare on a command line

    folded = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), folded, 1, _ALIKE)
    return folded[found[0]] if found else None


def text(value: object, field: str) -> str:
    """Read a text; it may be empty."""
    if not isinstance(value, str):
        _refuse(value, field, "a text")
    return value


def truth(value: object, field: str) -> bool:
    """Read a truth value."""
    if not isinstance(value, bool):
        _refuse(value, field, "true or false")
    return value


def driver(value: object, field: str) -> str | None:
    """Read a cgroup driver; an empty text is none."""
    return _one_of(value, field, DRIVERS) or None


def policy(value: object, field: str) -> str:
    """Read the policy of memory reservation."""
    return _one_of(value, field, POLICIES) or POLICIES[0]


def swap_behavior(value: object, field: str) -> str:
    """Read how containers may use swap."""
    return _one_of(value, field, SWAP_BEHAVIORS) or SWAP_BEHAVIORS[0]


def cpus(value: object, field: str) -> str:
    """Read a list of CPUs, which is kept as it was written."""
    given = text(value, field)
    try:
        # The kernel knows a stride and skips an empty part, and the kubelet does not.
        if ":" in given or (given and "" in given.split(",")):
            raise ValueError(given)
        parse_cpus(given)
    except ValueError:
        _refuse(value, field, CPU_LIST_EXPECTED)
    return given


def enforcements(value: object, field: str) -> tuple[str, ...]:
    """Read the levels at which Allocatable is enforced."""
    expected = f"a list of {', '.join(ENFORCEABLE)}"
    if not isinstance(value, list):
        _refuse(value, field, expected)
    for one in value:
        if one not in ENFORCEABLE:
            _refuse(one, field, expected)
    if len({*value}) != len(value):
        _refuse(value, field, "each of them once")
    return tuple(value)


def factor(value: object, field: str) -> float:
    """Read the share of a limit at which memory is throttled."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < float(str(value)) <= 1:
        _refuse(value, field, "a number above 0 and up to 1")
    return float(str(value))


def period_us(value: object, field: str) -> int:
    """Read the period of CPU quotas; returns microseconds."""
    expected = "a duration from 1ms to 1s"
    if not isinstance(value, str) or not re.fullmatch(f"(?:{_PART})+", value):
        _refuse(value, field, expected)
    from fractions import Fraction  # late: most nodes have the default

    parts = re.findall(_PART, value)
    duration = sum(Fraction(f"0{number}") * _UNITS_NS[unit] for number, unit in parts)
    if not _MS <= duration <= _SECOND:
        _refuse(value, field, expected)
    return int(duration / 1000)


def pids(value: object, field: str) -> int:
    """Read the limit of processes of a pod; any negative number is "no limit"."""
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(value, field, "a number, -1 for no limit")
    return max(value, -1)


def reserved(value: object, field: str, name: str) -> str:
    """Read an amount that is reserved, which is kept as it was written."""
    _known(name, field, RESERVABLE)
    return _quantity(value, f"{field}.{name}")


def percentage(value: object, field: str, name: str) -> int:
    """Read the share of requests that a QoS class reserves; returns percent."""
    _known(name, field, ("memory",))
    given = value if isinstance(value, str) else ""
    if not re.fullmatch(r"\+?[0-9]{1,3}%+", given) or int(given.rstrip("%")) > 100:
        _refuse(value, f"{field}.{name}", "a percentage such as 50%")
    return int(given.rstrip("%"))


def threshold(value: object, field: str, name: str) -> str:
    """Read a threshold of eviction: a quantity, or a percentage of the capacity."""
    _known(name, field, SIGNALS)
    where = f"{field}.{name}"
    if not isinstance(value, str) or not value.endswith("%"):
        if parse(_quantity(value, where)) == 0:
            _refuse(value, where, "a quantity above 0, or a percentage")
    elif not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{0,9})?%+", value) or (
        float(value.rstrip("%")) > 100
    ):
        _refuse(value, where, "a percentage from 0% to 100%")
    return str(value)


def gate(value: object, field: str, name: str) -> bool:
    """Read whether a feature is on; of other gates, only misspellings are refused."""
    if name not in GATES and (meant := misspelt(name, GATES)):
        _refuse(name, field, meant)
    return truth(value, f"{field}.{name}")


def _quantity(value: object, field: str) -> str:
    if not isinstance(value, str):
        # The kubelet refuses a number of YAML here.
        _refuse(value, field, "a quantity in quotes")
    parse(value, field)
    return value


def _known(name: str, field: str, names: Iterable[str]) -> None:
    if name not in names:
        _refuse(name, field, f"one of {', '.join(names)}")


def _one_of(value: object, field: str, names: tuple[str, ...]) -> str:
    if value != "" and value not in names:
        _refuse(value, field, " or ".join(names))
    return str(value)


def _refuse(value: object, field: str, expected: str) -> NoReturn:
    raise ConfigError(f"{field}: {value!r:.60}, expected {expected}")
