"""`Resources`: what a container may use, in the terms of the OCI specification. Pure.

A value is one of four things: None (not given), zero, UNLIMITED, or a number. What 0
and -1 mean in an NRI message, a CRI message or OCI JSON is decided in readers.py and
nowhere else.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class Unlimited(Enum):
    """No limit; in files, `max`."""

    UNLIMITED = "max"


UNLIMITED = Unlimited.UNLIMITED

Amount: TypeAlias = int | Unlimited


class HugepageLimit(NamedTuple):
    """The limit of one size of huge pages."""

    size: str  # as in the kernel's file names: 2MB, 1GB
    limit_bytes: int


class DeviceWeight(NamedTuple):
    """The weight of one block device."""

    major: int
    minor: int
    weight: int


class Throttle(NamedTuple):
    """One rate of one block device."""

    key: str  # rbps, wbps, riops or wiops, as in io.max
    major: int
    minor: int
    rate: int


class RdmaLimit(NamedTuple):
    """Handles and objects of one RDMA device."""

    device: str
    handles: int | None
    objects: int | None


class Resources(NamedTuple):
    """OCI LinuxResources, without the device rules, which only a runtime can apply."""

    shares: int | None = None
    quota_us: Amount | None = None
    period_us: int | None = None
    burst_us: int | None = None
    idle: int | None = None
    cpus: str | None = None
    mems: str | None = None
    memory_limit_bytes: Amount | None = None
    memory_swap_bytes: Amount | None = None  # memory and swap together
    memory_reservation_bytes: Amount | None = None
    pids_limit: Amount | None = None
    hugepage_limits: tuple[HugepageLimit, ...] = ()
    io_weight: int | None = None
    io_device_weights: tuple[DeviceWeight, ...] = ()
    io_throttles: tuple[Throttle, ...] = ()
    rdma: tuple[RdmaLimit, ...] = ()
    # cgroup v2 files and their values, as the user gave them; they win.
    unified: Mapping[str, str] = MappingProxyType({})
    # Given fields that have no cgroup v2 counterpart, with their values.
    v1_only: tuple[tuple[str, object], ...] = ()
