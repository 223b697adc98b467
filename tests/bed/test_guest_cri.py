"""How the answers of two servers of CRI are made comparable, by guest_cri.py."""

from __future__ import annotations

import pytest
from e2e.guest_cri import field, has_disk_use, number, shape

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
