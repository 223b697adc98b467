"""Memory: the limit to memory.max."""

from __future__ import annotations

MEMORY_MAX = "memory.max"


def memory_max(limit_bytes: int) -> str:
    """Return the text of memory.max; a negative limit is no limit."""
    return "max" if limit_bytes < 0 else str(limit_bytes)
