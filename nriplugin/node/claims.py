"""Parts of sums that new containers will have, as long as their cgroups do not show it.

A pod's burst and the protection above a container are sums over containers, read from
their cgroups. A container that is about to be made has none yet, or one in which the
runtime has not written. Until it starts, what it was promised counts in its place.

A runtime tells of a creation that it refused by removing the container, which ends the
promise. One that says nothing at all leaves a promise that ends by itself.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# kubelet starts a container as soon as it is created, within two minutes or never.
PATIENCE_S = 600.0

_CONMON = "conmon"


class Promise(NamedTuple):
    """What one container will have."""

    pod: str  # the cgroup of its pod
    name: str  # what the name of its own cgroup contains; empty as long as not known
    parts: Mapping[str, int]  # by file
    until: float

    def is_of(self, cgroup_name: str) -> bool:
        """Whether a cgroup of the pod is the container's; CRI-O's monitor is not."""
        return (
            bool(self.name) and self.name in cgroup_name and _CONMON not in cgroup_name
        )


class Promises:
    """Promises by container ID, or whatever a door calls a container before it has one.

    For any thread. The lock is held for a look-up and never while a file is read.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._promises: dict[str, Promise] = {}
        self._by_pod: dict[str, dict[str, Promise]] = {}  # the same, for `made_in`

    def make(self, key: str, pod: str, name: str, parts: Mapping[str, int]) -> None:
        """Count these parts for a container that is about to be made."""
        promise = Promise(pod, name, parts, self._clock() + PATIENCE_S)
        with self._lock:
            self._pop(key)
            self._put(key, promise)

    def rename(self, key: str, container_id: str) -> None:
        """Call a container by its ID from now on, which is in its cgroup's name."""
        with self._lock:
            promise = self._pop(key)
            if promise is not None:
                self._put(container_id, promise._replace(name=container_id))

    def end(self, key: str) -> None:
        """Count what the container's cgroup shows from now on."""
        with self._lock:
            self._pop(key)

    def end_all_but(self, keys: Collection[str]) -> set[str]:
        """End the promises to containers that do not exist; return their pods."""
        return self._end(lambda key, _: key not in keys)

    def end_in(self, pod: str) -> set[str]:
        """End those in a pod that is gone; return the pod if there were any."""
        return self._end(lambda _, promise: promise.pod == pod)

    def end_expired(self) -> set[str]:
        """End those of which nothing was heard for too long; return their pods."""
        now = self._clock()
        return self._end(lambda _, promise: promise.until <= now)

    def made_in(self, pod: str, file: str) -> list[Promise]:
        """Return the promises in a pod with a part in this file."""
        now = self._clock()
        with self._lock:
            return [
                promise
                for promise in self._by_pod.get(pod, {}).values()
                if file in promise.parts and now < promise.until
            ]

    def _end(self, ends: Callable[[str, Promise], bool]) -> set[str]:
        with self._lock:
            ended = {k: p for k, p in self._promises.items() if ends(k, p)}
            for key in ended:
                self._pop(key)
        return {promise.pod for promise in ended.values()}

    def _put(self, key: str, promise: Promise) -> None:
        self._promises[key] = promise
        self._by_pod.setdefault(promise.pod, {})[key] = promise

    def _pop(self, key: str) -> Promise | None:
        promise = self._promises.pop(key, None)
        if promise is not None:
            of_pod = self._by_pod[promise.pod]
            del of_pod[key]
            if not of_pod:
                del self._by_pod[promise.pod]
        return promise
