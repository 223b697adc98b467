"""Lists of CPUs and of memory nodes, such as `0-3,8`: the only parser and renderer.

The grammar is that of the kernel's `bitmap_parselist`: numbers, ranges, and ranges with
a stride, `0-7:1/2`. `render_cpus` gives the shortest list in rising order, which is how
the kernel shows it. Pure: text in, numbers out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The largest CONFIG_NR_CPUS that a kernel can be built with; memory nodes are fewer.
# The bound also keeps a list such as 0-99999999999 from filling this process's memory.
MAX_CPUS = 8192

CPU_LIST_EXPECTED = f"a list such as 0-3,8 of numbers below {MAX_CPUS}"

# No number with more digits is below MAX_CPUS, unless it is padded with zeros.
_MAX_DIGITS = 9


def parse_cpus(text: str) -> frozenset[int]:
    """Read a list such as 0-3,8 or 0-7:1/2; an empty text is an empty list.

    Raises:
        ValueError: it is not a list, or a number is beyond what kernels have.
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if not part:  # the kernel skips empty parts, such as the one after `0-3,`
            continue
        bounds, colon, stride = part.partition(":")
        first, dash, last = bounds.partition("-")
        low, high = _digits(first), _digits(last if dash else first)
        if not low <= high < MAX_CPUS:
            raise ValueError(f"{part!r}, expected numbers below {MAX_CPUS}, rising")
        if not colon:
            numbers.update(range(low, high + 1))
            continue
        # USED/GROUP takes the first USED numbers of every GROUP numbers.
        used, slash, group = stride.partition("/")
        taken, every = _digits(used), _digits(group)
        if not (dash and slash) or not 0 < taken <= every:
            raise ValueError(f"{part!r}, expected FIRST-LAST:USED/GROUP")
        numbers.update(n for n in range(low, high + 1) if (n - low) % every < taken)
    return frozenset(numbers)


def render_cpus(numbers: Iterable[int]) -> str:
    """Return the shortest list of these numbers; no numbers are an empty text."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _digits(text: str) -> int:
    # `isdecimal` alone would let digits of other scripts pass; the kernel does not.
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise ValueError(f"{text!r}, expected digits")
    return int(text)
