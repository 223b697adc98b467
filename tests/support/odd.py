"""Containers with values that no kubelet sends, or only seldom."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from support.kubelet import Container

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.kubelet import Kubelet, Pod

# What CRI can carry. Fields that do not influence each other share a container.
ODD: dict[str, dict[str, object]] = {
    "largest": {
        "cpu_quota": -1,  # unlimited
        "cpu_period": 50_000,
        "memory_limit_in_bytes": 2**63 - 1,
    },
    "odd": {
        "cpu_shares": 512,
        "memory_limit_in_bytes": 2**26 + 1,  # no whole number of pages
        "cpuset_cpus": "0-1",
        "cpuset_mems": "0",
    },
    "unified": {
        "cpu_shares": 512,
        "cpu_quota": 50_000,
        "cpu_period": 100_000,
        "memory_limit_in_bytes": 2**26,
        "unified": {"cpu.weight": "77", "memory.high": "50331648", "pids.max": "99"},
    },
    "shares-below-the-least": {"cpu_shares": 1},
    "shares-above-the-most": {"cpu_shares": 1_000_000},
    "quota-below-the-least": {"cpu_quota": 10, "cpu_period": 100_000},
    "period-too-long": {"cpu_quota": 100_000, "cpu_period": 10_000_000},
    "unified-of-no-kernel": {"unified": {"cpu.nonsense": "1"}},
}
# Those that every runtime can start. Newer ones bring shares into their range, and the
# kernel refuses the values of the others.
STARTS = ("largest", "odd", "unified")
SHARES = ("shares-below-the-least", "shares-above-the-most")
# containerd-1.7 and 2 have no kernel or door that the others lack: only the curve and
# the hidden unified keys are looked at there.
ODD_ON = {
    "containerd-2": STARTS,
    "containerd-2.4": tuple(ODD),
    "crio": tuple(ODD),
    "containerd-1.6": tuple(ODD),
    "containerd-1.7": STARTS,
}

_SERIAL = itertools.count()
# The settings of a container that started, else the runtime's error.
Outcome = dict[str, str] | str


def try_all(kubelet: Kubelet, pod: Pod, names: Iterable[str]) -> dict[str, Outcome]:
    """Start these containers; return what became of each."""
    found: dict[str, Outcome] = {}
    for name in names:
        # Names of their own: a container that failed to start keeps its name.
        unique = f"{name}-{next(_SERIAL)}"
        result = kubelet.try_start(pod, unique, ODD[name])
        found[name] = (
            kubelet.settings(result) if isinstance(result, Container) else result
        )
    return found
