"""Reloads the configuration file when it changes, on a thread of its own ("config").

A new text is applied completely or not at all: it is parsed and compiled first. If that
fails, the configuration in force stays, and the log gets one line about the reason.

The thread calls stat(2) every few seconds. inotify would need a watch on each directory
of a chain of symlinks, because an update of a ConfigMap replaces a directory link. stat
follows links and then shows another inode. kubelet itself takes up to a minute.

The file may be read while an editor writes it, and half of a configuration is often
valid. So a change is applied when two reads in a row gave the same text. An empty file
is refused, because a file is also empty just before its first line is written or when
the disk is full; the text for all defaults is `{}`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager, nullcontext
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from nriplugin.config import read_text
from nriplugin.daemon.config_status import ConfigStatus
from nriplugin.errors import ConfigError, NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

_log = logging.getLogger(__name__)

T = TypeVar("T")

INTERVAL_S = 5.0

# Lines that begin and end a YAML document; a file of these lines alone is empty, too.
_MARKERS = ("---", "...")

# The result of stat(2): device, inode, modification time and size of the file; or, if
# stat failed, the error number alone.
_Look = tuple[int, ...]


class _Content(NamedTuple):
    """The text of the file, or the reason why it could not be read."""

    text: str
    problem: str


class Wake(Enum):
    """Why the thread stops waiting."""

    LOOK = auto()  # the interval has passed
    RELOAD = auto()  # `reload` was called, as on SIGHUP
    STOP = auto()  # `stop` was called


class ConfigWatch(Generic[T]):
    """Applies the configuration in a file whenever the file has a new, valid one."""

    def __init__(
        self,
        path: str,
        parse: Callable[[str, str], T],
        apply: Callable[[T], None],
        interval_s: float = INTERVAL_S,
        *,
        status: ConfigStatus | None = None,
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
        wait: Callable[[float], Wake] | None = None,
    ) -> None:
        """Prepare the watch; the file is read by `initial` first.

        Args:
            path: the path of the file, or of a link to it.
            parse: makes a configuration of a text and the path that it was read from;
                raises NRIPluginError if the text is not valid.
            apply: puts a configuration in force; called on the thread of `check`.
            interval_s: the time between two calls of stat(2).
            status: takes note of what becomes of each text.
            reloading: entered while the file is read because `reload` was called.
            wait: in tests, replaces the wait of at most so many seconds.
        """
        self._path = path
        self._parse = parse
        self._apply = apply
        self._interval_s = interval_s
        self.status = ConfigStatus(path) if status is None else status
        self._reloading = reloading
        self._wait = self._next_wake if wait is None else wait
        # A SimpleQueue, because a signal handler calls `put`, and may do so while the
        # same thread is inside another `put`. SimpleQueue allows that; the lock of an
        # Event would deadlock.
        self._wakes: SimpleQueue[Wake] = SimpleQueue()
        # Held for a whole check: the control API checks on its own threads.
        self._checking = threading.Lock()
        self._seen: _Look | None = None
        # Content that was read once, and is applied if the next read is equal.
        self._unsettled: _Content | None = None
        self._refused = ""  # the reason that was logged last, to log it only once
        self._thread: threading.Thread | None = None

    def initial(self) -> T:
        """Read the file and return the first configuration.

        Raises:
            NRIPluginError: the file cannot be read, or `parse` raised it. At the start
                there is no earlier configuration that could stay in force.
        """
        self._seen = self._look()
        text = read_text(self._path)
        config = self._parse(text, self._path)
        self.status.applied(text, first=True)
        return config

    def start(self) -> None:
        """Start the thread; it runs until `stop` or the end of the process."""
        self._thread = threading.Thread(target=self._run, name="config", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if it was started, and wait for its end."""
        if self._thread is None:
            return
        self._wakes.put(Wake.STOP)
        self._thread.join()
        self._thread = None

    def reload(self) -> None:
        """Have the thread read the file soon; signal handlers may call this."""
        self._wakes.put(Wake.RELOAD)

    def check(self, *, always: bool = False) -> bool:
        """Check the file once, on any thread; return whether a text was applied.

        With `always`, the file is read even if stat shows no change, its content is
        applied after a single read, and an error in it is logged again.
        """
        with self._checking:
            return self._check(always=always)

    def _check(self, *, always: bool) -> bool:
        # stat comes before the read: a change between the two is then noticed by the
        # next check.
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
        except Exception as exc:  # noqa: BLE001 - a defect must not end the thread
            _log.exception("configuration: the old one stays in force")
            self.status.refused(repr(exc))
            return False
        self._refused = ""
        self.status.applied(content.text)
        _log.info("configuration: %s is in force", self._path)
        return True

    def _read(self) -> _Content:
        try:
            return _Content(read_text(self._path), "")
        except ConfigError as exc:
            return _Content("", str(exc))

    def _refuse(self, reason: str, always: bool) -> None:
        self.status.refused(reason)
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
            if wake is Wake.RELOAD:
                with self._reloading():
                    self.check(always=True)
            else:
                self.check()

    def _next_wake(self, timeout_s: float) -> Wake:
        try:
            return self._wakes.get(timeout=timeout_s)
        except Empty:
            return Wake.LOOK


def _checked(content: _Content, path: str) -> str:
    """Return the text that replaces the configuration in force.

    Raises:
        ConfigError: the file could not be read, or has nothing but comments.
    """
    if content.problem:
        raise ConfigError(content.problem)
    lines = [line.strip() for line in content.text.splitlines()]
    if all(not line or line[0] == "#" or line in _MARKERS for line in lines):
        raise ConfigError(f"{path}: empty, expected settings, or {{}} for the defaults")
    return content.text


@contextmanager
def reloading_on_sighup(watch: ConfigWatch[T]) -> Iterator[None]:
    """Have a watch read its file on SIGHUP.

    To be called on the main thread: Python sets signal handlers only there. The handler
    only wakes the watch, because it runs on the thread that serves requests.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        watch.reload()

    before = signal.signal(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def watching(watch: ConfigWatch[T]) -> Iterator[None]:
    """Run a watch within the `with` block; SIGHUP makes it read the file at once."""
    with reloading_on_sighup(watch):
        watch.start()
        try:
            yield
        finally:
            watch.stop()
