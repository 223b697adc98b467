"""`nriplugin run` as a real process on this machine, beside an embedded runtime."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.harness import PATIENCE_S
from support.trees import make_v2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nriplugin.nri.testing.runtime import EmbeddedRuntime

OFF = ("--control", "off", "--http", "off")


class Daemon:
    """A process whose log is a file."""

    def __init__(self, log: Path, *arguments: str, **environ: str) -> None:
        self._log = log
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nriplugin", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env={**os.environ, "CGROUP_DRIVER": "cgroupfs", **environ},
            )

    @property
    def log(self) -> str:
        """Return everything that was logged."""
        return self._log.read_text()

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until a text was logged so many times; return the whole log."""
        deadline = time.monotonic() + PATIENCE_S
        while (log := self.log).count(text) < times:
            assert self.process.poll() is None, f"it ended:\n{log}"
            assert time.monotonic() < deadline, f"{text!r} was not logged:\n{log}"
            time.sleep(0.01)
        return log

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.send(number)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End the process if it still runs."""
        self.process.kill()
        self.process.wait()


class Place:
    """A node in a directory: a tree of plain files, a socket, a state directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.socket = str(directory / "nri.sock")
        self.cgroups = directory / "cgroup"
        make_v2(self.cgroups)

    def arguments(self, *options: str, state: Path | None = None) -> list[str]:
        """Return the command line of `run` on this node."""
        return [
            *("run", "--nri-socket", self.socket),
            *("--cgroup-root", str(self.cgroups)),
            *("--state-dir", str(self.state if state is None else state)),
            *OFF,
            *options,
        ]

    @contextmanager
    def daemon(
        self, *options: str, name: str = "daemon", state: Path | None = None
    ) -> Iterator[Daemon]:
        """Start `run`; kill it at the end if it still runs."""
        log = self.directory / f"{name}.log"
        daemon = Daemon(log, *self.arguments(*options, state=state))
        try:
            yield daemon
        finally:
            daemon.kill()


def sent(runtime: EmbeddedRuntime) -> threading.Event:
    """Return an event that is set when the runtime has sent its next request."""
    connection: Any = runtime.plugins[0]._connection
    event, send = threading.Event(), connection.send_call

    def send_call(head: bytes, body: bytes) -> None:
        send(head, body)
        event.set()

    connection.send_call = send_call
    return event


class Asking:
    """A request of the runtime on a thread of its own."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._result: Any = None
        self._failure: BaseException | None = None

        def run() -> None:
            try:
                self._result = ask()
            except BaseException as exc:  # noqa: BLE001 - handed to the test
                self._failure = exc

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Wait for the answer."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "no answer"
        if self._failure is not None:
            raise self._failure
        return self._result
