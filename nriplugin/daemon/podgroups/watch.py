"""Follows PodGroups on a thread of its own ("podgroups"), and publishes them.

The thread exists only while the configuration has a source. No request depends on it:
what it finds is shown by `status` and in metrics. If the source cannot be read, the
PodGroups that were read last stay, the reason is counted and logged once, and the
thread tries again, first after about a second and in the end every minute.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections import Counter
from time import monotonic, time
from typing import TYPE_CHECKING

from nriplugin.daemon.podgroups.failures import FailureReason, ReadFailed
from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.config.file import PodGroupsSection
    from nriplugin.daemon.podgroups.api_source import ApiSource
    from nriplugin.daemon.podgroups.file_source import FileSource
    from nriplugin.kube.podgroup_object import GroupObject

    Publish = Callable[[dict[str, GroupObject]], None]

_log = logging.getLogger(__name__)

FIRST_S = 1.0
LAST_S = 60.0
# A source that worked this long starts the waits over.
GOOD_S = 30.0
# One takes about a kilobyte.
MAX_GROUPS = 20_000


class PodGroupWatch:
    """The watch over one source. Any thread may read its fields."""

    def __init__(
        self, source: FileSource | ApiSource, publish: Publish, first_s: float = FIRST_S
    ) -> None:
        """Follow a source; `publish` gets the mapping that the thread then changes."""
        self.source = source.shown
        self._source = source
        self._publish = publish
        self._first_s = first_s
        self._stopping = threading.Event()
        self._publishing = threading.Lock()
        self._limited = LimitedLog(_log, burst=5, per_second=1 / 60)
        self._groups: dict[str, GroupObject] = {}
        self._said = ""
        self.read_at = 0.0
        self.problem = ""
        self.failures: Counter[FailureReason] = Counter()

    @property
    def objects(self) -> int:
        """Return how many PodGroups are known."""
        return len(self._groups)

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="podgroups", daemon=True).start()

    def stop(self) -> None:
        """Have the thread end; it is not waited for, and publishes nothing more."""
        with self._publishing:
            self._stopping.set()
        self._source.close()

    # What the source says

    def replace(self, groups: dict[str, GroupObject]) -> None:
        """Put all PodGroups in the place of those that were known."""
        with self._publishing:
            if not self._stopping.is_set():
                self._groups = groups
                self._publish(groups)

    def put(self, group: GroupObject) -> None:
        """Add a PodGroup, or replace it."""
        if group.job_id in self._groups or not self.full(len(self._groups)):
            self._groups[group.job_id] = group

    def remove(self, job_id: str) -> None:
        """Drop a PodGroup."""
        self._groups.pop(job_id, None)

    def works(self) -> None:
        """Take note that the source can be read."""
        self.read_at = time()
        self.problem = ""
        if self._said != "read":
            _log.info("PodGroups: %d read from %s", self.objects, self.source)
            self._said = "read"

    def note(self, failure: ReadFailed) -> None:
        """Count the failure to read one object."""
        self.failures[failure.reason] += 1
        text = f"{failure}"
        self._limited.log(logging.WARNING, "PodGroups: left out: %s", text)

    def full(self, count: int) -> bool:
        """Return whether there are as many objects as are kept; count it if so."""
        if count < MAX_GROUPS:
            return False
        self.note(ReadFailed(FailureReason.TOO_MANY, f"expected at most {MAX_GROUPS}"))
        return True

    # The thread

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stopping.is_set():
            began = monotonic()
            try:
                self._source.follow(self, self._stopping)
            except ReadFailed as exc:
                self._failed(exc.reason, str(exc))
            except Exception as exc:  # noqa: BLE001 - the thread must live on
                self._failed(FailureReason.ERROR, f"{type(exc).__name__}: {exc}")
            if monotonic() - began >= GOOD_S:
                wait_s = self._first_s
            # A random part of it, so that the daemons of a cluster do not all ask at
            # the same moment.
            self._stopping.wait(wait_s * random.uniform(0.5, 1))
            wait_s = min(wait_s * 2, LAST_S)

    def _failed(self, reason: FailureReason, text: str) -> None:
        if self._stopping.is_set():
            return
        self.failures[reason] += 1
        if reason is FailureReason.GONE:
            return  # an API server forgets old versions; the list is read again
        self.problem = f"{reason}: {text}"
        if self._said != self.problem:
            line = "PodGroups: %s cannot be read: %s; tried again, those known stay"
            self._limited.log(logging.WARNING, line, self.source, self.problem)
            self._said = self.problem


class PodGroupWatches:
    """At most one watch, as the configuration says. Any thread may call it."""

    def __init__(self, publish: Publish) -> None:
        """Have `publish` get the PodGroups."""
        self._publish = publish
        self._lock = threading.Lock()
        self._section: PodGroupsSection | None = None
        self.watch: PodGroupWatch | None = None

    def configure(self, section: PodGroupsSection) -> None:
        """Follow the source that a configuration names, if it names one."""
        with self._lock:
            if section == self._section:
                return
            self._section = section
            self._end()
            self._publish({})
            if section.enabled:
                self.watch = PodGroupWatch(_source_of(section), self._publish)
                self.watch.start()

    def stop(self) -> None:
        """End the watch; the PodGroups stay as they are."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self.watch is not None:
            self.watch.stop()
            self.watch = None


def _source_of(section: PodGroupsSection) -> FileSource | ApiSource:
    """Return the source that a section names."""
    if section.file is not None:
        from nriplugin.daemon.podgroups.file_source import FileSource

        return FileSource(section.file)
    # Imports `ssl`. The watch's own thread must not: while another thread imports the
    # control API, no thread can (control_service.py).
    from nriplugin.daemon.podgroups import access
    from nriplugin.daemon.podgroups.api_source import ApiSource

    path = section.kubeconfig
    if path is not None:
        return ApiSource(
            f"the API server of {path}", lambda: access.of_kubeconfig(path)
        )
    return ApiSource(
        "the API server of this cluster", lambda: access.in_cluster(os.environ)
    )
