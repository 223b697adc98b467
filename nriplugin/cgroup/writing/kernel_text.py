"""What the kernel makes of the text that it is given: the only place. Pure.

The kernel rounds, rewrites and completes: 5000 bytes become 4096, `0,1,2` becomes
`0-2`, a quota gets its period, a line of `io.max` its other keys. So a text that was
written and the text that is read afterwards may differ and mean the same. Code that
compares the two compares meanings, by the functions here: `same`, `equal`, `growth`.
What the kernel accepts at all is in `convert.validate`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.validate import BYTE_FILES, DEFAULT_PERIOD_US, bytes_in

if TYPE_CHECKING:
    from collections.abc import Iterable

CPU_MAX = "cpu.max"

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The kernel counts memory in pages, and this is the largest number of bytes that its
# counter holds. From here on a number is no limit: v2 shows `max`, v1 this number.
_NO_LIMIT_BYTES = (2**63 - 1) // PAGE_BYTES * PAGE_BYTES

# These files have one line per device or resource; a write changes only the lines that
# it names.
_KEYED = ("io.", "blkio.", "rdma.", "misc.", "dmem.")
# In these a 0 removes the line, and the kernel then shows none.
_ZERO_REMOVES = "blkio.throttle."
# The kernel shows 12.5 as 12.50, and 100 as max.
_PERCENT = "cpu.uclamp."

_Entries = dict[tuple[str, str], str]

# A node has few different sets of CPUs, and a batch asks for the same ones many times.
_members = lru_cache(maxsize=256)(parse_cpus)


def amount(value: str) -> float:
    """Return a number to compare with; no limit (`max`, `-1`) is infinite.

    Raises:
        ValueError: not a number.
    """
    value = value.strip()
    if value == "max":
        return inf
    number = int(value)
    return inf if number < 0 else number


def same(file: str, wanted: str, held: str) -> bool:
    """Whether a file that was given one text holds it, as far as the kernel can.

    Lines and words that `wanted` does not name do not matter: the kernel keeps them.
    """
    wanted, held = wanted.strip(), held.strip()
    if wanted == held:
        return True
    try:
        if file == CPU_MAX:
            return _same_quota(wanted, held)
        if file.startswith("cpuset."):
            return _members(wanted) == _members(held)
        if file.startswith(_PERCENT):
            return _percent(wanted) == _percent(held)
        if file.startswith(_KEYED):
            return _same_lines(file, wanted, held)
        if _in_bytes(file):
            return _bytes(file, wanted) == _bytes(file, held)
        return amount(wanted) == amount(held)
    except ValueError:
        return False


def equal(file: str, one: str, other: str) -> bool:
    """Whether two texts of a whole file mean the same.

    Unlike in `same`, neither may have lines that the other lacks.
    """
    return same(file, one, other) and same(file, other, one)


def growth(file: str, old: str, new: str) -> int:
    """Return 1 if the new text allows more than the old, -1 if less, else 0.

    0 is also for texts that cannot be compared: two sets of CPUs of which neither
    contains the other, or an empty set, which allows nothing on v1 and everything that
    the parent has on v2.
    """
    try:
        if file.startswith("cpuset."):
            before, after = _members(old), _members(new)
            if not before or not after:
                return 0
            return (after > before) - (after < before)
        if file.startswith(_KEYED):
            return 0
        before_amount, after_amount = _size(file, old), _size(file, new)
    except ValueError:
        return 0
    return (after_amount > before_amount) - (after_amount < before_amount)


def number_in(file: str, content: str) -> float:
    """Return the amount in a file, for comparing it with a file of the same unit.

    Numbers of bytes are in whole pages, as the kernel keeps them.
    """
    if file == CPU_MAX:
        content = content.split()[0]
    return _bytes(file, content) if _in_bytes(file) else amount(content)


def writes(file: str, content: str) -> list[str]:
    """Return the texts to write, one write each, for a file to hold a content."""
    if file.startswith(_KEYED):
        # Of several lines in one write, kernels drop or refuse all but the first.
        return content.splitlines()
    # A write of no bytes does not reach the kernel's parser; an empty line does.
    return [content or "\n"]


def putting_back(file: str, original: str, ours: Iterable[str]) -> str:
    """Return what to write for a file to hold its original text again.

    For most files that is the original itself. In a file with a line per device, the
    lines that nriplugin's texts (`ours`) added have to be removed by name, and no
    others.
    """
    if not file.startswith(_KEYED):
        return original
    kept = _entries(original)
    lines = original.splitlines()
    nothing = "0" if file.startswith(_ZERO_REMOVES) else "max"
    for key, name in dict.fromkeys(place for text in ours for place in _entries(text)):
        if (key, name) not in kept:
            gone = f"{name}={nothing}" if name else nothing
            lines.append(f"{key} {'default' if 'weight' in file else gone}")
    return "\n".join(lines)


def _same_quota(wanted: str, held: str) -> bool:
    # The kernel ignores words after the period. Without a period, it keeps its own.
    quota, *period = wanted.split()[:2]
    held_quota, *held_period = held.split()
    if period and period != held_period:
        return False
    return amount(quota) == amount(held_quota)


def _same_lines(file: str, wanted: str, held: str) -> bool:
    held_entries = _entries(held)
    nothing = {"max", "default"} | ({"0"} if file.startswith(_ZERO_REMOVES) else set())
    return all(
        held_entries[place] == value if place in held_entries else value in nothing
        for place, value in _entries(wanted).items()
    )


def _entries(text: str) -> _Entries:
    """Return (device, key) -> value; io.weight has an empty key."""
    entries: _Entries = {}
    for line in text.splitlines():
        key, *tokens = line.split() or [""]
        if not tokens:  # a number without a device is the default
            key, tokens = "default", [key]
        for token in tokens:
            name, _, value = token.rpartition("=")
            if value:
                entries[key, name] = value
    return entries


def _percent(text: str) -> float:
    return 100.0 if text == "max" else float(text)


def _in_bytes(file: str) -> bool:
    v1 = file.endswith("limit_in_bytes")
    return v1 or file in BYTE_FILES or file.startswith("hugetlb.")


def _bytes(file: str, text: str) -> float:
    """Return what the kernel keeps of a number of bytes: whole pages."""
    # Nearly all texts are digits, and comparing files is the most frequent call.
    number = int(text) if text.isdecimal() else bytes_in(text)
    if number is None:
        return amount(text)  # v1's -1, which is no limit; else a ValueError
    if number is UNLIMITED or number >= _NO_LIMIT_BYTES:
        return inf
    return number // _page_bytes(file)


def _page_bytes(file: str) -> int:
    """Return the page that the kernel rounds down to; hugetlb has it in the name."""
    prefix, _, rest = file.partition(".")
    size = rest.partition(".")[0]
    if prefix == "hugetlb" and size.endswith("B"):
        page = bytes_in(size[:-1])  # 2MB are 2M bytes
        if isinstance(page, int):
            return page
    return PAGE_BYTES


def _size(file: str, text: str) -> float:
    if file == CPU_MAX:
        quota, *period = text.split() or [""]
        return amount(quota) / (int(period[0]) if period else DEFAULT_PERIOD_US)
    return _bytes(file, text) if _in_bytes(file) else amount(text)
