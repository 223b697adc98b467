"""The files that an annotation may be allowed to set, and what they may hold.

Only files whose content can be judged without asking the node, and that do no more
than share out a resource: no CPUs and no devices, which may not be there; nothing in
`cgroup.*` (freeze, kill, type); nothing that acts when written (memory.reclaim). And
not cpu.weight.nice, which is cpu.weight by another name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.convert.validate import LEADING_ZERO, NO_LEADING_ZERO, check
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?")


def _clamp(text: str) -> bool:
    return text == "max" or (bool(_PERCENT.fullmatch(text)) and float(text) <= 100)


def _bytes(text: str) -> bool:
    return text == "max" or bool(re.fullmatch(r"[0-9]{1,19}", text))


def _flag(text: str) -> bool:
    return text in ("0", "1")


# Those that `check` does not know.
_OTHERS: dict[str, tuple[Callable[[str], bool], str]] = {
    "cpu.uclamp.min": (_clamp, "a percentage such as 12.50, or max"),
    "cpu.uclamp.max": (_clamp, "a percentage such as 12.50, or max"),
    "memory.swap.high": (_bytes, "a number of bytes, or max"),
    "memory.zswap.max": (_bytes, "a number of bytes, or max"),
    "memory.zswap.writeback": (_flag, "0 or 1"),
}
ALLOWABLE = frozenset(_OTHERS) | {
    "cpu.weight",
    "cpu.idle",
    "cpu.max",
    "cpu.max.burst",
    "io.weight",
    "io.bfq.weight",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.max",
    "memory.oom.group",
    "pids.max",
}
# Every file that any handler may set, and that can so be ours.
OWNABLE = ALLOWABLE | {"cpu.qos_level", "memory.qos_level"}
# Numbers of bytes: systemd's side of a runtime takes no suffix, so neither do we.
_BYTE_FILES = frozenset(file for file in ALLOWABLE if file.startswith("memory."))
_PLAIN = re.compile(r"(default |max )?([0-9]+|max)( [0-9]+)?")


def check_raw(file: str, value: str) -> None:
    """Refuse a value that the kernel or a runtime refuses.

    Raises:
        ConversionError: names the file, the value and what is allowed.
    """
    if LEADING_ZERO.search(value):
        # Also where the kernel reads it as decimal: the author cannot tell where.
        raise ConversionError(file, value[:60], NO_LEADING_ZERO)
    known = _OTHERS.get(file)
    if known is None and file in _BYTE_FILES and not file.endswith("group"):
        known = _OTHERS["memory.swap.high"]
    if known is not None:
        if not known[0](value):
            raise ConversionError(file, value[:60], known[1])
        return
    if not _PLAIN.fullmatch(value):
        raise ConversionError(file, value[:60], "plain numbers")
    check(file, value)
    if file == "cpu.max" and len(value.split()) != 2:
        raise ConversionError(file, value[:60], "a quota or max, and a period")
