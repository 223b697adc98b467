"""Amounts of a node's resources as people read them: 250m, 3.5, 512Mi."""

from __future__ import annotations

_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def amount_text(name: str, amount: int) -> str:
    """Return an exact amount in the notation of Kubernetes."""
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if _is_bytes(name):
        for power, suffix in zip(range(60, 0, -10), _BINARY, strict=True):
            if amount and amount % (1 << power) == 0:
                return f"{amount >> power}{suffix}"
    return str(amount)


def short_amount(name: str, amount: int) -> str:
    """Return an amount in a few characters, rounded."""
    if name == "cpu":
        return f"{amount}m" if amount < 1000 else f"{amount / 1000:.3g}"
    if _is_bytes(name):
        for power, suffix in zip(range(60, 0, -10), _BINARY, strict=True):
            if amount >= 1 << power:
                return f"{amount / (1 << power):.3g}{suffix}"
    return str(amount)


def _is_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
