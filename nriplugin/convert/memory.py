"""The memory controller: limit, swap and reservation. Pure.

OCI's `swap` is memory and swap together, while the kernel's memory.swap.max is swap
alone, so the limit is subtracted. (The table of the KEP copies the number, which is
wrong.) Combinations of limit and swap are read as runc reads them, because most nodes
run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_NUMBER
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert.model import Amount, Resources
    from nriplugin.convert.result import Conversion

LIMIT_RULE = Rule(("memory.limit",), "bytes; no limit is max")
SWAP_RULE = Rule(
    ("memory.swap", "memory.limit"), "memory and swap together, less the memory limit"
)
SWAP_UNLIMITED_RULE = Rule(("memory.swap",), "no limit is max")
SWAP_FOLLOWS_RULE = Rule(
    ("memory.limit",), "without a memory limit, swap is not limited either"
)
SWAP_ALONE_RULE = Rule(
    ("memory.swap",), "memory has no limit to subtract, so the number is swap alone"
)
LOW_RULE = Rule(
    ("memory.reservation",), "protection from reclaim takes the place of the soft limit"
)


def convert_memory(given: Resources, out: Conversion) -> None:
    """Add the files of the memory controller."""
    limit, swap = given.memory_limit_bytes, given.memory_swap_bytes
    if limit is not None:
        out.write("memory.max", _text("memory.limit", limit), LIMIT_RULE)
    if swap is not None:
        _convert_swap(limit, swap, out)
    elif limit is UNLIMITED:
        out.write("memory.swap.max", "max", SWAP_FOLLOWS_RULE)
    if given.memory_reservation_bytes is not None:
        text = _text("memory.reservation", given.memory_reservation_bytes)
        out.write("memory.low", text, LOW_RULE)


def _convert_swap(limit: Amount | None, swap: Amount, out: Conversion) -> None:
    if swap is UNLIMITED:
        out.write("memory.swap.max", "max", SWAP_UNLIMITED_RULE)
        return
    _text("memory.swap", swap)
    if limit is None:
        raise ConversionError("memory.swap", swap, "a memory.limit beside it")
    if limit is UNLIMITED:
        out.write("memory.swap.max", str(swap), SWAP_ALONE_RULE)
        return
    if swap < limit:
        raise ConversionError(
            "memory.swap", swap, f"memory and swap together, at least {limit}"
        )
    out.write("memory.swap.max", str(swap - limit), SWAP_RULE)


def _text(field: str, amount: Amount) -> str:
    if amount is UNLIMITED:
        return "max"
    if not 0 <= amount <= MAX_NUMBER:
        expected = f"0 to {MAX_NUMBER} bytes, or -1 for no limit"
        raise ConversionError(field, amount, expected)
    return str(amount)
