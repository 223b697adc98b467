"""A capacity report as JSON and YAML have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.cli.amount_texts import amount_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.kube.level_tree import CapacityReport, CgroupLevel
    from nriplugin.node.capacity_check import LevelDifference


def capacity_document(
    report: CapacityReport, differences: Sequence[LevelDifference] | None
) -> dict[str, Any]:
    """Return the report; `differences` is None if the tree was not compared."""
    found = report.capacity
    document: dict[str, Any] = {
        "node": report.node,
        "sources": list(report.sources),
        "capacity": _texts(found.capacity),
        "reserved": {
            "system": _texts(found.system_reserved),
            "kube": _texts(found.kube_reserved),
            "evictionHard": _texts(found.eviction),
        },
        "allocatable": _texts(found.allocatable),
        "allocated": {
            name: _allocated(report, name)
            for name in found.allocatable
            if name in ("cpu", "memory") or name in report.requests
        },
        "pods": report.pods,
        "reservedCgroups": [_level(one) for one in report.reserved],
        "tree": _level(report.tree),
    }
    if differences is not None:
        document["differences"] = [one._asdict() for one in differences]
    return document


def _allocated(report: CapacityReport, name: str) -> dict[str, Any]:
    requests, limits = report.requests.get(name, 0), report.limits.get(name, 0)
    return {
        "requests": amount_text(name, requests),
        "requestsPercent": report.percent(name, requests),
        "limits": amount_text(name, limits),
        "limitsPercent": report.percent(name, limits),
        "podsWithoutLimit": report.unlimited.get(name, 0),
    }


def _level(level: CgroupLevel) -> dict[str, Any]:
    return {
        "level": level.level,
        "name": level.name,
        "cgroup": level.cgroup or None,
        "qosClass": level.qos_class or None,
        "init": level.is_init,
        "requests": _texts(level.requests),
        "limits": _texts(level.limits),
        "v1": dict(level.v1),
        "v2": dict(level.v2),
        "below": [_level(one) for one in level.below],
    }


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in amounts.items()}
