"""The pods and containers that came past, each in a few words."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.decision import Write
    from nriplugin.engine.model import Container, Pod


T = TypeVar("T")

# IDs of pods and containers that ended last: more than a node ends while one call is
# under way.
REMEMBERED_ENDS = 4096


class Known(NamedTuple):
    """A container."""

    sandbox_id: str
    container: Container
    # What is to be written once it has a cgroup; None is "not known".
    pending: tuple[Write, ...] | None = ()
    # That cgroup, if anything was written there.
    cgroup: str | None = None


class Inventory:
    """Pods and containers by ID. Requests come on many threads, so there is a lock.

    What ends a pod or a container may be done before a call that was under way for it.
    So the IDs of what has ended are remembered for a while, and nothing is put under
    them again: a runtime never gives out an ID twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        self._containers: dict[str, Known] = {}
        # The oldest first.
        self._ended: dict[str, None] = {}

    def counts(self) -> tuple[int, int]:
        """Return how many pods and containers are known."""
        with self._lock:
            return len(self._pods), len(self._containers)

    def pod(self, sandbox_id: str) -> Pod | None:
        """Return a pod."""
        with self._lock:
            return self._pods.get(sandbox_id)

    def container(self, container_id: str) -> Known | None:
        """Return a container."""
        with self._lock:
            return self._containers.get(container_id)

    def put_pod(self, sandbox_id: str, pod: Pod) -> None:
        """Remember a pod, or what it has become, unless it has ended."""
        with self._lock:
            if sandbox_id not in self._ended:
                self._pods[sandbox_id] = pod

    def put_container(self, container_id: str, known: Known) -> None:
        """Remember a container, or what it has become, unless it has ended."""
        with self._lock:
            if not self._has_ended(container_id, known):
                self._containers[container_id] = known

    def note_cgroup(self, container_id: str, cgroup: str | None) -> None:
        """Take note of where a container's last writes went, if it is still there."""
        with self._lock:
            known = self._containers.get(container_id)
            if known is not None and cgroup is not None:
                self._containers[container_id] = known._replace(cgroup=cgroup)

    def drop_container(self, container_id: str) -> Known | None:
        """Forget a container; return what was known of it."""
        with self._lock:
            self._remember_end(container_id)
            return self._containers.pop(container_id, None)

    def drop_pod(self, sandbox_id: str) -> Pod | None:
        """Forget a pod and its containers; return what was known of the pod."""
        with self._lock:
            self._remember_end(sandbox_id)
            self._containers = {
                one: known
                for one, known in self._containers.items()
                if known.sandbox_id != sandbox_id
            }
            return self._pods.pop(sandbox_id, None)

    def snapshot(self) -> tuple[set[str], set[str]]:
        """Return the IDs of all pods and containers."""
        with self._lock:
            return set(self._pods), set(self._containers)

    def renew(
        self,
        before: tuple[set[str], set[str]],
        pods: Mapping[str, Pod],
        containers: Mapping[str, Known],
    ) -> None:
        """Take over what a runtime has listed.

        What we have seen ourselves is known better, so it stays as it is. Forgotten is
        what was there before the listing began (`before`) and is not in it; what has
        ended since then is not learned again.
        """
        pods_before, containers_before = before
        with self._lock:
            pods = {one: pod for one, pod in pods.items() if one not in self._ended}
            containers = {
                one: known
                for one, known in containers.items()
                if not self._has_ended(one, known)
            }
            self._pods = _renewed(pods_before, pods, self._pods)
            self._containers = _renewed(containers_before, containers, self._containers)

    def _has_ended(self, container_id: str, known: Known) -> bool:
        return container_id in self._ended or known.sandbox_id in self._ended

    def _remember_end(self, ended: str) -> None:
        self._ended[ended] = None
        if len(self._ended) > REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]


def _renewed(
    before: set[str], listed: Mapping[str, T], now: dict[str, T]
) -> dict[str, T]:
    stayed = {
        one: what for one, what in now.items() if one in listed or one not in before
    }
    return {**listed, **stayed}
