"""Parts of sums that belong to new containers whose cgroups do not show them yet.

`cpu.max.burst` of a pod, and `memory.min` and `memory.low` of the cgroups above a
container, are sums over containers. The direct writer reads the parts of such a sum
from the containers' cgroups. A container that is being created has no cgroup yet, or
one that the runtime has not written, so its part would be missing from every sum that
is written meanwhile. Until the container starts, its *claim* counts in its place.

A runtime that fails a creation removes the container, which ends the claim. If the door
gets no message about the container's end, the claim expires after `CLAIM_LIFETIME_S`.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# kubelet starts a container right after its creation, within two minutes or never.
CLAIM_LIFETIME_S = 600.0

_CONMON = "conmon"


class Claim(NamedTuple):
    """The parts that one new container will have."""

    pod: str  # the cgroup of its pod
    # A text that the name of the container's cgroup contains; empty until it is known.
    name: str
    parts: Mapping[str, int]  # by file
    until: float

    def is_for(self, cgroup_name: str) -> bool:
        """Whether a cgroup in the pod is this container's, and not its conmon's."""
        return (
            bool(self.name) and self.name in cgroup_name and _CONMON not in cgroup_name
        )


class Claims:
    """The claims of all containers that are being created.

    The key of a claim is the container's ID, or any other text that its door uses
    until the runtime has given the container an ID. Any thread may call; the lock is
    held for look-ups only and never while a file is read.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}
        self._by_pod: dict[str, dict[str, Claim]] = {}  # the same claims, for `in_pod`

    def add(self, key: str, pod: str, name: str, parts: Mapping[str, int]) -> None:
        """Count these parts for a container that is about to be created."""
        claim = Claim(pod, name, parts, self._clock() + CLAIM_LIFETIME_S)
        with self._lock:
            self._pop(key)
            self._put(key, claim)

    def rename(self, key: str, container_id: str) -> None:
        """Take note of the container's ID, which its cgroup's name contains."""
        with self._lock:
            claim = self._pop(key)
            if claim is not None:
                self._put(container_id, claim._replace(name=container_id))

    def end(self, key: str) -> None:
        """Drop a claim: the container's cgroup shows its parts, or will never exist."""
        with self._lock:
            self._pop(key)

    def end_all_but(self, keys: Collection[str]) -> set[str]:
        """Drop the claims of containers that do not exist; return their pods."""
        return self._end(lambda key, _: key not in keys)

    def end_in(self, pod: str) -> set[str]:
        """Drop the claims in a pod that is gone; return the pod if it had any."""
        return self._end(lambda _, claim: claim.pod == pod)

    def end_expired(self) -> set[str]:
        """Drop the claims that are too old; return their pods."""
        now = self._clock()
        return self._end(lambda _, claim: claim.until <= now)

    def in_pod(self, pod: str, file: str) -> list[Claim]:
        """Return the claims of a pod's containers that have a part in this file."""
        now = self._clock()
        with self._lock:
            return [
                claim
                for claim in self._by_pod.get(pod, {}).values()
                if file in claim.parts and now < claim.until
            ]

    def _end(self, ends: Callable[[str, Claim], bool]) -> set[str]:
        with self._lock:
            ended = {key: c for key, c in self._claims.items() if ends(key, c)}
            for key in ended:
                self._pop(key)
        return {claim.pod for claim in ended.values()}

    def _put(self, key: str, claim: Claim) -> None:
        self._claims[key] = claim
        self._by_pod.setdefault(claim.pod, {})[key] = claim

    def _pop(self, key: str) -> Claim | None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            of_pod = self._by_pod[claim.pod]
            del of_pod[key]
            if not of_pod:
                del self._by_pod[claim.pod]
        return claim
