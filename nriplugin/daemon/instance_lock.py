"""The lock that keeps two processes of nriplugin from serving the same runtime.

Two plugins that set the same key fail a container. So when nriplugin is upgraded in
place, and the new process starts before the old one has left, the new one waits here
until the old one has answered its last request and stored its records.

There is one lock file per door and runtime, in the state directory: two runtimes on a
node may each have a process of nriplugin. The kernel ends a lock (flock) with its
process, however that ends. The file is never removed: otherwise one process could hold
the lock on a removed file while the next one locks a new file of the same name. Its
text has the holder's process ID, host name and version. The host name is that of the
pod if nriplugin runs in one; there the process ID is mostly 1.

The file's modification time is the holder's last sign of life: it is set every few
seconds while the holder is connected to the runtime, and a holder that ends in order
adds a word to the text. So the next process knows since when nobody has served the
runtime, and whether its predecessor was killed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING
from zlib import crc32

from nriplugin import __version__
from nriplugin.cgroup.journal.journal import INSTANCE_PREFIX
from nriplugin.state.connection import EarlierProcess, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from nriplugin.state.connection import RuntimeConnection
    from nriplugin.stopping import StopFlag

_log = logging.getLogger(__name__)

# How long to sleep between two attempts. No container is seen meanwhile.
ATTEMPT_S = 0.05
# How long between two lines of the log that say that the process still waits.
REMIND_S = 60.0
# No text in a lock file is longer; another one is not ours.
_MAX_TEXT = 200
# The last line of the text of a holder that has ended in order.
_ENDED = "ended"
# How often a process that is connected to the runtime gives a sign of life.
SIGN_OF_LIFE_S = 5.0


def lock_path(state_directory: str, door: str, runtime: str) -> str:
    """Return the path of a lock file; `runtime` is the path of the runtime's socket."""
    # A checksum, because a path has slashes and may be longer than a file's name.
    name = crc32(os.fsencode(os.path.realpath(runtime)))
    return os.path.join(state_directory, f"{INSTANCE_PREFIX}{door}-{name:08x}.lock")


def holders(state_directory: str) -> list[str]:
    """Return the processes that hold a lock in a state directory, as their texts say.

    A directory or a file that cannot be read has none.
    """
    return list(held_locks(state_directory).values())


def held_locks(state_directory: str) -> dict[str, str]:
    """Return path -> holder of the locks in a state directory that a process holds."""
    found: dict[str, str] = {}
    try:
        names = sorted(os.listdir(state_directory))
    except OSError:
        return found
    for name in names:
        if name.startswith(INSTANCE_PREFIX):
            path = os.path.join(state_directory, name)
            with InstanceLock(path) as lock:
                if lock.is_taken():
                    found[path] = lock.holder()
    return found


class InstanceLock:
    """The lock of one process. It is released at the end of a `with` block."""

    def __init__(self, path: str | None) -> None:
        """Prepare the lock; None stands for a node that has no state directory."""
        self._path = path
        self._file: int | None = None
        self.held = False
        self.earlier: EarlierProcess | None = None  # who had the lock before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self.held = False

    def acquire(
        self,
        stopping: StopFlag,
        waits: Callable[[str], None],
        limit_s: float | None = None,
    ) -> bool:
        """Wait for the lock; return whether the process may go on.

        It may also go on if there can be no lock, because the state directory cannot be
        written: that is logged. False says that the process was told to stop, or that
        the holder has not left after `limit_s`.

        Args:
            stopping: set when the process has to end.
            waits: told once for whom the process waits.
            limit_s: the longest wait; None for no limit.
        """
        try:
            if self.attempt():
                return True
            began = said = monotonic()
            holder = self.holder()
            waits(f"waits for {holder} to end")
            _log.warning("%s still serves this runtime: waiting for its end", holder)
            while not stopping.wait(ATTEMPT_S):
                if self.attempt():
                    _log.info("%s has ended after %.1f s", holder, monotonic() - began)
                    return True
                now = monotonic()
                if limit_s is not None and now - began >= limit_s:
                    return False
                if now - said >= REMIND_S:
                    said, holder = now, self.holder()
                    _log.warning("still waiting for %s to end", holder)
        except OSError as exc:
            _log.warning(
                "%s: %s: without this lock nothing keeps a second nriplugin from "
                "setting the same values, which would fail containers",
                *(self._path, exc.strerror),
            )
            return True
        return False

    def attempt(self) -> bool:
        """Take the lock if nobody has it; return whether this process has it now.

        Raises:
            OSError: the file cannot be made or locked.
        """
        if self.held or self._path is None:
            return True
        if self._file is None:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._path, flags | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.held = True
        self.earlier = self._earlier(self._file)
        self._sign(self._file)
        return True

    def is_taken(self) -> bool:
        """Whether another process has the lock; nothing is made or written."""
        assert self._path is not None
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file = os.open(self._path, flags)
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def holder(self) -> str:
        """Return who has the lock, as its text says."""
        return _holder(self._text()[0])

    def give_sign_of_life(self, connection: RuntimeConnection) -> None:
        """Have the file say that this process is connected now, if it is."""
        if connection.since is not None:
            self._set_time(time())

    def note_end(self, connection: RuntimeConnection) -> None:
        """Have the file say that this process ends in order."""
        if self._file is None or not self.held:
            return
        try:
            seen = os.fstat(self._file).st_mtime
            end = os.fstat(self._file).st_size
            os.pwrite(self._file, f"{_ENDED}\n".encode(), end)
        except OSError:
            return
        # The text has changed the time of the file. A process that was never connected
        # leaves the time of the one before it.
        if connection.since is not None:
            seen = time()
        elif connection.gap_count:
            seen = connection.began
        self._set_time(seen)

    def _text(self) -> list[str]:
        """Return the lines of the file, at least one; empty if it is not readable."""
        try:
            text = os.pread(self._file or -1, _MAX_TEXT, 0).decode("ascii")
        except (OSError, UnicodeDecodeError):
            text = ""
        return text.splitlines() or [""]

    def _earlier(self, file: int) -> EarlierProcess | None:
        """Return how the process ended that had the lock before, if that is known."""
        signed, *more = self._text()
        try:
            seen = os.fstat(file).st_mtime
        except OSError:
            return None
        if not _is_signed(signed):
            return None
        who = f"{_holder(signed)}, which served before,"
        if seen > (now := time()):  # the clock was set back since
            how = "ended" if _ENDED in more else "was killed or crashed"
            return EarlierProcess(now, f"{who} {how}; the clock was set since")
        at = utc_text(seen)
        if _ENDED in more:
            return EarlierProcess(seen, f"{who} ended; it was connected until {at}")
        reason = f"{who} was killed or crashed; last sign of life at {at}"
        return EarlierProcess(seen, reason)

    def _set_time(self, seconds: float) -> None:
        if self._file is not None and self.held:
            with suppress(OSError):
                os.utime(self._file, (seconds, seconds))

    def _sign(self, file: int) -> None:
        """Write who has the lock. A full disk does not matter: the lock holds."""
        host = socket.gethostname()
        text = f"{os.getpid()} on {host}, nriplugin {__version__}\n"
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, text.encode("ascii", "replace")[:_MAX_TEXT], 0)
        except OSError:
            return
        if self.earlier is not None:
            # Until this process is connected, the last sign of life is the earlier one.
            self._set_time(self.earlier.last_seen)


def _is_signed(line: str) -> bool:
    pid, _, rest = line.partition(" ")
    return pid.isdecimal() and bool(rest) and rest.isprintable()


def _holder(line: str) -> str:
    pid, _, rest = line.partition(" ")
    if not _is_signed(line):
        return "another process of nriplugin"
    return f"process {pid} ({rest})"
