"""A configuration file that may change while we run.

All or nothing: a new file is read, checked and compiled first, and only then handed
over. One that is no good leaves the old configuration in force and is told of in one
line, once.

The file is looked at every few seconds. Being told of changes (inotify) would take a
watch on every directory of a chain of symlinks: a ConfigMap's files are links into a
directory that is itself a link, and an update replaces the latter. The kubelet takes up
to a minute for that anyway, and a look costs one system call. The look follows links,
so a swap shows as another inode.

A file may be looked at while it is being written, and the first half of a configuration
is often a valid one. So a change counts when two looks in a row have read the same. An
empty file is refused once a configuration is in force: it is what a file is before its
first line is written, or after a disk was full. Who wants the defaults writes `{}`.

It happens on a thread of its own: reading YAML takes milliseconds that no container
should wait for, and a signal handler runs in the thread that serves requests.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from nriplugin.config import read_text
from nriplugin.errors import ConfigError, NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_log = logging.getLogger(__name__)

T = TypeVar("T")

INTERVAL_S = 5.0

# Begin and end of a YAML document, which may have nothing in between.
_MARKERS = ("---", "...")

# Device, inode, time of change and length; or the number of the error.
_Look = tuple[int, ...]


class _Content(NamedTuple):
    """What a look has read, or why it could not."""

    text: str
    problem: str


class Wake(Enum):
    """Why the thread stops waiting."""

    LOOK = auto()  # it is time
    RELOAD = auto()  # somebody asked for it
    STOP = auto()


class ConfigWatch(Generic[T]):
    """Hands over a new configuration whenever the file holds a good one."""

    def __init__(
        self,
        path: str,
        parse: Callable[[str, str], T],
        apply: Callable[[T], None],
        interval_s: float = INTERVAL_S,
        *,
        wait: Callable[[float], Wake] | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            path: of the file, or of a link to it.
            parse: checks and compiles a text that comes from that path; raises
                NRIPluginError for one that is no good.
            apply: puts a configuration in force; called on the watch's thread.
            interval_s: between two looks.
            wait: waits for so many seconds at most, in tests.
        """
        self._path = path
        self._parse = parse
        self._apply = apply
        self._interval_s = interval_s
        self._wait = self._next_wake if wait is None else wait
        # Unlike that of an Event, its `put` may interrupt itself: signal handlers may.
        self._wakes: SimpleQueue[Wake] = SimpleQueue()
        self._seen: _Look | None = None
        self._unsettled: _Content | None = None  # that the last look has read
        self._refused = ""
        self._thread: threading.Thread | None = None

    def initial(self) -> T:
        """Return the configuration to begin with; later looks compare with it.

        Raises:
            NRIPluginError: as `parse`, or the file cannot be read; there is nothing
                older to keep.
        """
        self._seen = self._look()
        return self._parse(read_text(self._path), self._path)

    def start(self) -> None:
        """Look at the file from now on, until `stop` or the end of the process."""
        self._thread = threading.Thread(target=self._run, name="config", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if there is one, and wait for it."""
        if self._thread is None:
            return
        self._wakes.put(Wake.STOP)
        self._thread.join()
        self._thread = None

    def reload(self) -> None:
        """Have the thread read the file soon, changed or not; for signal handlers."""
        self._wakes.put(Wake.RELOAD)

    def check(self, *, always: bool = False) -> bool:
        """Look once; whether a new configuration is in force now.

        With `always` the file is read even if it looks the same, counts at once, and
        what is wrong with it is said again.
        """
        # Before reading: what changes in between is then seen by the next look.
        look = self._look()
        if look == self._seen and not always:
            self._unsettled = None
            return False
        content = self._read()
        if content != self._unsettled and not always:
            self._unsettled = content
            return False
        self._seen, self._unsettled = look, None
        try:
            self._apply(self._parse(_checked(content, self._path), self._path))
        except NRIPluginError as exc:
            self._refuse(str(exc), always)
            return False
        except Exception:  # noqa: BLE001 - a fault of ours must not end the watch
            _log.exception("configuration: the old one stays in force")
            return False
        self._refused = ""
        _log.info("configuration: %s is in force", self._path)
        return True

    def _read(self) -> _Content:
        try:
            return _Content(read_text(self._path), "")
        except ConfigError as exc:
            return _Content("", str(exc))

    def _refuse(self, reason: str, always: bool) -> None:
        if reason != self._refused or always:
            _log.error("configuration: the old one stays in force: %s", reason)
        self._refused = reason

    def _look(self) -> _Look:
        try:
            found = os.stat(self._path)
        except OSError as exc:
            return (exc.errno or 0,)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def _run(self) -> None:
        while (wake := self._wait(self._interval_s)) is not Wake.STOP:
            self.check(always=wake is Wake.RELOAD)

    def _next_wake(self, timeout_s: float) -> Wake:
        try:
            return self._wakes.get(timeout=timeout_s)
        except Empty:
            return Wake.LOOK


def _checked(content: _Content, path: str) -> str:
    """Return the text that is to replace a configuration in force.

    Raises:
        ConfigError: it could not be read, or is empty but for comments.
    """
    if content.problem:
        raise ConfigError(content.problem)
    lines = [line.strip() for line in content.text.splitlines()]
    if all(not line or line[0] == "#" or line in _MARKERS for line in lines):
        raise ConfigError(f"{path}: empty, expected settings, or {{}} for the defaults")
    return content.text


@contextmanager
def reloading_on_sighup(watch: ConfigWatch[T]) -> Iterator[None]:
    """Have a watch read its file on SIGHUP; in the main thread, which alone may."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        watch.reload()

    before = signal.signal(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def watching(watch: ConfigWatch[T]) -> Iterator[None]:
    """Look at the file for a while, and at once on SIGHUP."""
    with reloading_on_sighup(watch):
        watch.start()
        try:
            yield
        finally:
            watch.stop()
