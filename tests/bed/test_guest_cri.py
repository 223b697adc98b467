"""How the answers of two servers of CRI are made comparable, by guest_cri.py."""

from __future__ import annotations

import time
from typing import Any

import pytest
from e2e import guest_cri
from e2e.guest_cri import answer_of, field, has_disk_use, number, shape, whole

CPU, MEMORY, DISK = 2, 3, 4
TIME = number(1, 99)
MOUNT = field(2, field(1, "/var/lib"))


def use(amount: int) -> bytes:
    """Return CRI's UInt64Value; as everywhere in proto3, a 0 is left out."""
    return number(1, amount) if amount else b""


def stats(
    cpu: int = 1, faults: int = 1, disk: bytes = TIME + MOUNT, name: str = "alone"
) -> bytes:
    """Return the answer of ContainerStats about a container."""
    return field(
        1,
        field(1, field(1, "c0ffee") + field(2, field(1, name)))
        + field(CPU, TIME + field(2, use(77)) + field(3, use(cpu)))
        + field(MEMORY, TIME + field(2, use(88)) + field(7, use(faults)))
        + field(DISK, disk),
    )


@pytest.mark.parametrize(("cpu", "faults"), [(0, 1), (1, 0), (0, 0), (100, 100)])
def test_statistics_that_move_are_shown_alike(cpu: int, faults: int) -> None:
    """A number of 0 is an empty message, and any other is not."""
    assert shape(stats(cpu, faults)) == shape(stats())


def test_statistics_that_lack_a_part_are_shown_differently() -> None:
    """A proxy that lost a field or changed a text would be found."""
    whole = shape(stats())
    assert shape(stats(disk=TIME)) != whole
    assert shape(stats(disk=MOUNT)) != whole
    assert shape(stats(name="other")) != whole
    without_faults = stats().replace(field(7, use(1)), number(7, 1))
    assert without_faults != stats()
    assert shape(without_faults) != whole


def test_the_measurement_of_the_disk_is_recognised() -> None:
    """Before it, containerd names the file system alone."""
    assert has_disk_use(stats())
    assert not has_disk_use(stats(disk=MOUNT))
    assert not has_disk_use(field(1, field(CPU, TIME)))
    assert has_disk_use(stats() + stats(name="other"))
    assert not has_disk_use(stats() + stats(disk=MOUNT))
    assert not has_disk_use(b"")


class Server:
    """Answers one call after the other; the last answer stays."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def __call__(self, request: bytes, **options: Any) -> bytes:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def test_statistics_are_asked_for_until_they_are_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A measurement of the disk may be missing in any answer, not only in the first."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    without = stats(disk=MOUNT)
    assert answer_of(Server(without, without, stats()), b"", shape) == shape(stats())
    assert answer_of(Server(without, stats()), b"", whole) == whole(without)
    monkeypatch.setattr(guest_cri, "PATIENCE_S", -1)
    with pytest.raises(TimeoutError, match="does not measure"):
        answer_of(Server(without), b"", shape)
