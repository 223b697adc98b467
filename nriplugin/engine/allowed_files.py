"""The files that an annotation may be allowed to set, and how their text is spelt.

`ALLOWABLE` holds only files whose text can be judged without looking at the node, and
that do no more than share out a resource. So it has no CPUs and no devices, which the
node may lack; nothing of `cgroup.*` (freeze, kill, type); no file that acts when it is
written (memory.reclaim); and not cpu.weight.nice, which is cpu.weight by another name.

What the kernel accepts in each file is in `convert.validate`. `check_raw` adds a
narrower spelling: one line of numbers without suffixes, because the systemd side of a
container runtime parses the same text and takes no suffixes.
"""

from __future__ import annotations

import re

from nriplugin.convert.validate import (
    BYTE_FILES,
    LEADING_ZERO,
    NO_LEADING_ZERO,
    check,
)
from nriplugin.errors import ConversionError

ALLOWABLE = BYTE_FILES | {
    "cpu.weight",
    "cpu.idle",
    "cpu.max",
    "cpu.max.burst",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
    "io.weight",
    "io.bfq.weight",
    "memory.oom.group",
    "memory.zswap.writeback",
    "pids.max",
}
# Every file that any handler may set: only these can hold a value that nriplugin set.
OWNABLE = ALLOWABLE | {"cpu.qos_level", "memory.qos_level"}
# The same on a node with cgroup v1: files that no runtime writes by itself.
V1_FILES = frozenset(
    {"cpu.cfs_burst_us", "cpu.qos_level", "cpu.bvt_warp_ns", "memory.qos_level"}
)

# Compiled at their first use: most containers have no such annotation.
_BYTES = r"[0-9]{1,19}|max"
_PERCENT = r"[0-9]{1,3}(\.[0-9]{1,2})?|max"
_NUMBERS = r"(default |max )?([0-9]+|max)( [0-9]+)?"


def check_raw(file: str, value: str) -> None:
    """Refuse a value that the kernel or a runtime refuses.

    Raises:
        ConversionError: names the file, the value and what is allowed.
    """
    if LEADING_ZERO.search(value):
        # Also for the files that the kernel reads as decimal: the author of an
        # annotation cannot know which ones those are.
        raise ConversionError(file, value[:60], NO_LEADING_ZERO)
    spelling, expected = _spelling(file)
    if not re.fullmatch(spelling, value):
        raise ConversionError(file, value[:60], expected)
    check(file, value)
    if file == "cpu.max" and len(value.split()) != 2:
        raise ConversionError(file, value[:60], "a quota or max, and a period")


def _spelling(file: str) -> tuple[str, str]:
    if file in BYTE_FILES:
        return _BYTES, "a number of bytes, or max"
    if file.startswith("cpu.uclamp."):
        return _PERCENT, "a percentage such as 12.50, or max"
    return _NUMBERS, "numbers without units"
