"""Watches kubelet's checkpoint on a thread of its own ("checkpoint").

The thread exists only while a handler that needs memory requests is on, and
`kubeletCheckpoint` is not off.

A request thread never touches the file: stat(2) and read(2) wait for the disk when the
node is short of memory and has dropped the inode or the page, and a request must not.
It looks up the requests that this thread has published, which takes a microsecond.
kubelet writes the file, syncs it to the disk and renames it before it even creates a
pod's sandbox, so a CreateContainer comes much later. inotify wakes this thread at the
rename, and with 500 pods in the file the requests are published about 3 ms after it;
for less than 2 ms of these the parser holds the interpreter lock (`hack/bench
checkpoint` measures all of this).

If a request does come first, or the file cannot be read for a while, the container is
decided about with the estimate, and state/allocated_requests.py corrects it when the
exact request is known. A request thread that waited for this thread instead would make
every container wait that is not kubelet's, and so is in no checkpoint.

After each look the thread rests, so that a burst of pods, each of which makes kubelet
write the whole file again, costs the request thread at most a few percent.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.node.kubelet_checkpoint import KubeletCheckpoint

    Publish = Callable[[Mapping[str, Mapping[str, int]]], None]

_log = logging.getLogger(__name__)

# How often to look without an event: whether the directory is another one now, and if
# there is no inotify, whether the file is.
INTERVAL_S = 5.0
INTERVAL_WITHOUT_EVENTS_S = 1.0
REST_S = 0.05
# How long the start of the process, or a new configuration, waits for the first look.
FIRST_LOOK_S = 0.5


class CheckpointWatch:
    """The watch over one path at a time. Any thread may call it."""

    def __init__(self, host_root: str, publish: Publish) -> None:
        """Watch files below a host root; `publish` gets the requests that they have."""
        self._host_root = host_root.rstrip("/")
        self._publish = publish
        self._lock = threading.Lock()
        self._watched: _WatchedFile | None = None

    @property
    def checkpoint(self) -> KubeletCheckpoint | None:
        """Return the checkpoint that is watched; None if the watch is off."""
        watched = self._watched
        return None if watched is None else watched.checkpoint

    def configure(self, path: str | None) -> None:
        """Watch the file of the host that has a path; None ends the watch.

        Waits a moment for the first look at a new path, so that containers that are
        decided about next have their requests; it does not wait for a disk that hangs.
        """
        wanted = None if path is None else self._host_root + path
        with self._lock:
            before = self._watched
            if wanted == (None if before is None else before.checkpoint.path):
                return
            if before is not None:
                before.stop()
            self._watched = None
            self._publish({})
            if wanted is None:
                return
            self._watched = watched = _WatchedFile(wanted, self._publish)
            watched.start()
        watched.looked.wait(FIRST_LOOK_S)

    def stop(self) -> None:
        """End the watch; the requests stay as they are."""
        with self._lock:
            if self._watched is not None:
                self._watched.stop()
                self._watched = None


class _WatchedFile:
    """One path and the thread that looks at it."""

    def __init__(self, path: str, publish: Publish) -> None:
        # Imported here, because a process without such a watch needs neither inotify
        # nor a parser.
        from nriplugin.node.directory_events import DirectoryEvents
        from nriplugin.node.kubelet_checkpoint import KubeletCheckpoint

        self.checkpoint = KubeletCheckpoint(path)
        self.looked = threading.Event()
        self._publish = publish
        self._stopping = threading.Event()
        self._said = ""
        self._events = DirectoryEvents(os.path.dirname(path) or "/")
        # Held to publish and to stop, so that nothing is published after `stop`.
        self._publishing = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._run, name="checkpoint", daemon=True).start()

    def stop(self) -> None:
        """Have the thread end. It is not waited for: its disk may hang."""
        with self._publishing:
            if not self._stopping.is_set():
                self._stopping.set()
                self._events.wake()

    def _run(self) -> None:
        events = self._events
        while not self._stopping.is_set():
            # Before the look, so that no change between the two is missed.
            watched = events.watch()
            try:
                self._look()
            except Exception:  # noqa: BLE001 - the thread must live on
                _log.exception("kubelet's checkpoint: the look failed")
            self.looked.set()
            self._stopping.wait(REST_S)
            events.wait(INTERVAL_S if watched else INTERVAL_WITHOUT_EVENTS_S)
        with self._publishing:
            events.close()

    def _look(self) -> None:
        checkpoint = self.checkpoint
        changed = checkpoint.look()
        if changed:
            with self._publishing:
                if not self._stopping.is_set():
                    self._publish(checkpoint.requests)
        self._say()

    def _say(self) -> None:
        """Log what is known of the file, if that has changed."""
        checkpoint = self.checkpoint
        if checkpoint.problem:
            said = f"cannot be used: {checkpoint.problem}"
        elif checkpoint.found:
            said = "memory requests are taken from it"
        else:
            said = "there is none: memory requests are estimated"
        if said != self._said:
            level = logging.WARNING if checkpoint.problem else logging.INFO
            _log.log(level, "kubelet's checkpoint %s: %s", checkpoint.path, said)
        self._said = said
