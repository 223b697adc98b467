from __future__ import annotations

import pytest

from nriplugin.convert.files import files_of


@pytest.mark.parametrize(
    ("shares", "weight"),
    [
        (1, "1"),
        (2, "1"),
        (3, "1"),
        (28, "1"),
        (29, "2"),
        (102, "4"),
        (1024, "39"),
        (2048, "79"),
        (262_144, "10000"),
        (10**9, "10000"),
    ],
)
def test_shares_become_a_weight_by_the_kep(shares: int, weight: str) -> None:
    """1 + (shares - 2) * 9999 / 262142, whole numbers, clamped to the v1 range."""
    assert files_of(shares, 0, 0, 0) == {"cpu.weight": weight}


@pytest.mark.parametrize(
    ("quota_us", "period_us", "text"),
    [
        (50_000, 100_000, "50000 100000"),
        (50_000, 0, "50000 100000"),
        (1000, 1000, "1000 1000"),
        (-1, 100_000, "max 100000"),
        (-1, 0, "max 100000"),
    ],
)
def test_quota_and_period_become_one_file(
    quota_us: int, period_us: int, text: str
) -> None:
    """A negative quota is no limit, a missing period the kernel's default."""
    assert files_of(0, quota_us, period_us, 0) == {"cpu.max": text}


@pytest.mark.parametrize(
    ("limit", "text"), [(1, "1"), (1 << 40, f"{1 << 40}"), (-1, "max")]
)
def test_limit_becomes_memory_max(limit: int, text: str) -> None:
    """In bytes; negative is no limit."""
    assert files_of(0, 0, 0, limit) == {"memory.max": text}


def test_zero_is_not_given() -> None:
    """A period alone says nothing."""
    assert files_of(0, 0, 100_000, 0) == {}
