"""Reads `Resources` from an NRI message, a CRI message, or OCI JSON. Pure.

The three express "not given" and "no limit" in different ways, and `MEANINGS` is the
only place that knows how. In NRI and CRI messages a 0 is "not given", except for huge
pages, where an entry in the list is "given". In OCI JSON a field can be absent, so a 0
can be a 0; where runc and crun differ, it is read as runc reads it.

Messages are read by attribute, so this module does not import protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from nriplugin.convert.model import (
    UNLIMITED,
    Amount,
    DeviceWeight,
    HugepageLimit,
    RdmaLimit,
    Resources,
    Throttle,
)
from nriplugin.errors import ConversionError


class Zero(Enum):
    """What a source means by 0."""

    NOT_GIVEN = "not given"
    ZERO = "0"


class Negative(Enum):
    """What a source means by a negative number."""

    UNLIMITED = "any is no limit"
    MINUS_ONE = "-1 is no limit, others are invalid"
    INVALID = "invalid"


class Meaning(NamedTuple):
    """How to read one field."""

    zero_in_oci: Zero
    negative: Negative


MEANINGS = {
    "cpu.shares": Meaning(Zero.NOT_GIVEN, Negative.INVALID),
    "cpu.quota": Meaning(Zero.NOT_GIVEN, Negative.UNLIMITED),
    "cpu.period": Meaning(Zero.NOT_GIVEN, Negative.INVALID),
    "cpu.burst": Meaning(Zero.ZERO, Negative.INVALID),
    "cpu.idle": Meaning(Zero.ZERO, Negative.INVALID),
    "memory.limit": Meaning(Zero.NOT_GIVEN, Negative.MINUS_ONE),
    "memory.swap": Meaning(Zero.NOT_GIVEN, Negative.MINUS_ONE),
    "memory.reservation": Meaning(Zero.NOT_GIVEN, Negative.MINUS_ONE),
    "pids.limit": Meaning(Zero.ZERO, Negative.UNLIMITED),
    "hugepageLimits.limit": Meaning(Zero.ZERO, Negative.INVALID),
    "blockIO.weight": Meaning(Zero.NOT_GIVEN, Negative.INVALID),
}


def read_amount(
    field: str, value: object, *, zero: Zero | None = None
) -> Amount | None:
    """Read a number by its field's meaning; `zero` overrides OCI's."""
    if value is None:
        return None
    number = _whole(field, value)
    if number > 0:
        return number
    meaning = MEANINGS[field]
    if number == 0:
        unset = (zero or meaning.zero_in_oci) is Zero.NOT_GIVEN
        return None if unset else 0
    if meaning.negative is Negative.UNLIMITED:
        return UNLIMITED
    if meaning.negative is Negative.MINUS_ONE and number == -1:
        return UNLIMITED
    expected = "0 or more"
    if meaning.negative is Negative.MINUS_ONE:
        expected += ", or -1 for no limit"
    raise ConversionError(field, number, expected)


def read_number(field: str, value: object, *, zero: Zero | None = None) -> int | None:
    """Read a number of a field that has no "no limit"."""
    amount = read_amount(field, value, zero=zero)
    assert amount is not UNLIMITED, field
    return amount


# NRI


def from_nri(message: Any) -> Resources:  # noqa: ANN401 - LinuxResources
    """Read an NRI LinuxResources. Zero means "not given" everywhere."""
    cpu, memory, unset = message.cpu, message.memory, Zero.NOT_GIVEN
    return core_from_nri(message)._replace(
        cpus=cpu.cpus or None,
        mems=cpu.mems or None,
        memory_swap_bytes=read_amount("memory.swap", memory.swap.value, zero=unset),
        memory_reservation_bytes=read_amount(
            "memory.reservation", memory.reservation.value, zero=unset
        ),
        pids_limit=read_amount("pids.limit", message.pids.limit, zero=unset),
        hugepage_limits=_hugepages(message.hugepage_limits),
        v1_only=_nri_v1_only(cpu, memory),
    )


def core_from_nri(message: Any) -> Resources:  # noqa: ANN401 - LinuxResources or a view
    """Read cpu shares, quota and period, the memory limit, and `unified`.

    The kubelet sends these for every container; the request path needs no others.
    """
    cpu = message.cpu
    quota, limit = cpu.quota.value, message.memory.limit.value
    # By position and without the constructor of NamedTuple: both are faster, and this
    # runs for every request.
    return _new_resources(
        Resources,
        (
            cpu.shares.value or None,
            (UNLIMITED if quota < 0 else quota) or None,
            cpu.period.value or None,
            *_NOT_GIVEN[3:7],
            read_amount("memory.limit", limit) if limit < 0 else limit or None,
            *_NOT_GIVEN[8:16],
            message.unified,
            (),
        ),
    )


_NOT_GIVEN = Resources()
_new_resources = tuple.__new__


def _hugepages(entries: Any) -> tuple[HugepageLimit, ...]:  # noqa: ANN401
    if not entries:
        return ()
    # The kubelet lists every page size of the node, so a 0 is a limit of 0.
    return tuple(HugepageLimit(entry.page_size, entry.limit) for entry in entries)


def _nri_v1_only(cpu: Any, memory: Any) -> tuple[tuple[str, object], ...]:  # noqa: ANN401
    candidates = (
        ("cpu.realtimeRuntime", cpu.realtime_runtime.value),
        ("cpu.realtimePeriod", cpu.realtime_period.value),
        ("memory.kernel", memory.kernel.value),
        ("memory.kernelTCP", memory.kernel_tcp.value),
        ("memory.swappiness", memory.swappiness.value),
        ("memory.disableOOMKiller", memory.disable_oom_killer.value),
        ("memory.useHierarchy", memory.use_hierarchy.value),
    )
    return tuple((field, value) for field, value in candidates if value)


# CRI


def from_cri(message: Any) -> Resources:  # noqa: ANN401 - LinuxContainerResources
    """Read a CRI LinuxContainerResources. Zero means "not given" everywhere."""
    unset = Zero.NOT_GIVEN
    return Resources(
        shares=read_number("cpu.shares", message.cpu_shares, zero=unset),
        quota_us=read_amount("cpu.quota", message.cpu_quota, zero=unset),
        period_us=read_number("cpu.period", message.cpu_period, zero=unset),
        cpus=message.cpuset_cpus or None,
        mems=message.cpuset_mems or None,
        memory_limit_bytes=read_amount(
            "memory.limit", message.memory_limit_in_bytes, zero=unset
        ),
        memory_swap_bytes=read_amount(
            "memory.swap", message.memory_swap_limit_in_bytes, zero=unset
        ),
        hugepage_limits=_hugepages(message.hugepage_limits),
        unified=message.unified,
    )


# OCI


def from_oci(document: object) -> Resources:
    """Read the object at `linux.resources` of an OCI configuration.

    Raises:
        ConversionError: a value of the wrong type, or one without a meaning.
    """
    top = _mapping("linux.resources", document)
    cpu = _mapping("cpu", top.get("cpu"))
    memory = _mapping("memory", top.get("memory"))
    pids = _mapping("pids", top.get("pids"))
    io = _mapping("blockIO", top.get("blockIO"))
    network = _mapping("network", top.get("network"))
    return Resources(
        shares=read_number("cpu.shares", cpu.get("shares")),
        quota_us=read_amount("cpu.quota", cpu.get("quota")),
        period_us=read_number("cpu.period", cpu.get("period")),
        burst_us=read_number("cpu.burst", cpu.get("burst")),
        idle=read_number("cpu.idle", cpu.get("idle")),
        cpus=_text("cpu.cpus", cpu.get("cpus")),
        mems=_text("cpu.mems", cpu.get("mems")),
        memory_limit_bytes=read_amount("memory.limit", memory.get("limit")),
        memory_swap_bytes=read_amount("memory.swap", memory.get("swap")),
        memory_reservation_bytes=read_amount(
            "memory.reservation", memory.get("reservation")
        ),
        pids_limit=read_amount("pids.limit", pids.get("limit")),
        hugepage_limits=tuple(
            HugepageLimit(
                _text("hugepageLimits.pageSize", entry.get("pageSize")) or "",
                read_number("hugepageLimits.limit", entry.get("limit", 0)) or 0,
            )
            for entry in _entries("hugepageLimits", top.get("hugepageLimits"))
        ),
        io_weight=read_number("blockIO.weight", io.get("weight")),
        io_device_weights=tuple(
            DeviceWeight(*_device(field, entry), weight)
            for field in ("blockIO.weightDevice",)
            for entry in _entries(field, io.get("weightDevice"))
            if (weight := read_number("blockIO.weight", entry.get("weight")))
            is not None
        ),
        io_throttles=tuple(_oci_throttles(io)),
        rdma=tuple(_oci_rdma(top.get("rdma"))),
        unified={
            str(file): _text(f"unified {file}", value) or ""
            for file, value in _mapping("unified", top.get("unified")).items()
        },
        v1_only=tuple(_oci_v1_only(cpu, memory, io, network)),
    )


_THROTTLES = {
    "rbps": "throttleReadBpsDevice",
    "wbps": "throttleWriteBpsDevice",
    "riops": "throttleReadIOPSDevice",
    "wiops": "throttleWriteIOPSDevice",
}


def _oci_throttles(io: Mapping[str, Any]) -> list[Throttle]:
    throttles = []
    for key, name in _THROTTLES.items():
        for entry in _entries(f"blockIO.{name}", io.get(name)):
            rate = _whole(f"blockIO.{name}.rate", entry.get("rate"))
            throttles.append(Throttle(key, *_device(f"blockIO.{name}", entry), rate))
    return throttles


def _oci_rdma(document: object) -> list[RdmaLimit]:
    limits = []
    for device, entry in _mapping("rdma", document).items():
        fields = _mapping(f"rdma.{device}", entry)
        numbers = [
            None if number is None else _whole(f"rdma.{device}", number)
            for number in (fields.get("hcaHandles"), fields.get("hcaObjects"))
        ]
        limits.append(RdmaLimit(str(device), *numbers))
    return limits


def _oci_v1_only(
    cpu: Mapping[str, Any],
    memory: Mapping[str, Any],
    io: Mapping[str, Any],
    network: Mapping[str, Any],
) -> list[tuple[str, object]]:
    candidates = [
        ("cpu.realtimeRuntime", cpu.get("realtimeRuntime")),
        ("cpu.realtimePeriod", cpu.get("realtimePeriod")),
        ("memory.kernel", memory.get("kernel")),
        ("memory.kernelTCP", memory.get("kernelTCP")),
        ("memory.swappiness", memory.get("swappiness")),
        ("memory.disableOOMKiller", memory.get("disableOOMKiller") or None),
        ("memory.useHierarchy", memory.get("useHierarchy")),
        ("memory.checkBeforeUpdate", memory.get("checkBeforeUpdate") or None),
        ("blockIO.leafWeight", _leaf_weight(io)),
        ("network.classID", network.get("classID")),
        ("network.priorities", network.get("priorities") or None),
    ]
    return [(field, value) for field, value in candidates if value is not None]


def _leaf_weight(io: Mapping[str, Any]) -> object:
    devices = _entries("blockIO.weightDevice", io.get("weightDevice"))
    given = [io.get("leafWeight"), *(entry.get("leafWeight") for entry in devices)]
    return next((weight for weight in given if weight is not None), None)


def _mapping(field: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConversionError(field, value, "an object")
    return value


def _entries(field: str, value: object) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConversionError(field, value, "a list")
    return [_mapping(field, entry) for entry in value]


def _text(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConversionError(field, value, "a string")
    return value


def _device(field: str, entry: Mapping[str, Any]) -> tuple[int, int]:
    major, minor = _whole(field, entry.get("major")), _whole(field, entry.get("minor"))
    if min(major, minor) < 0:
        raise ConversionError(field, f"{major}:{minor}", "major and minor numbers")
    return major, minor


def _whole(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConversionError(field, value, "a whole number")
    return value
