"""Drives the peers built from the released Go NRI library (tests/interop/go)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Starter = Callable[..., "Child"]  # takes more options for the command line

TOP = Path(__file__).resolve().parents[2]
OBSERVER = TOP / "tests/interop/observer.py"

# The library's versions, and a containerd with each: before 0.12 a plugin learns only
# of the latter.
CONTAINERD = {
    "0.6.1": "1.7.25",
    "0.8.0": "2.1.0",
    "0.10.0": "2.2.0",
    "0.11.0": "2.2.1",
    "0.12.5": "2.3.0",
}
VERSIONS = tuple(CONTAINERD)
NEWEST = VERSIONS[-1]

Release = tuple[int, int]

# Without what would make every start compile the generated messages again, and as if on
# a cgroup v2 node: the peers have no containers, so it does not matter what we have.
ENVIRON = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
ENVIRON["NRIPLUGIN_CGROUP_VERSION"] = "2"


class GoPeersMissing(Exception):
    """The peers cannot be built here; says why."""


def release_of(version: str) -> Release:
    """Return the part of a version that decides what there is."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def until(condition: Callable[[], object], what: str, timeout_s: float = 10) -> None:
    """Wait for something that another process brings about.

    Raises:
        TimeoutError: it did not.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s until {what}")
        time.sleep(0.005)


def build_go_peers() -> Path:
    """Return the directory of the built peers."""
    done = subprocess.run(
        [TOP / "hack/go-peers"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GoPeersMissing(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip())


class GoRuntimeError(Exception):
    """The Go runtime answered a command with an error."""


class GoRuntime:
    """A runtime on the real library, one process, one socket."""

    def __init__(self, peers: Path, version: str, log: IO[str] | None = None) -> None:
        self.version = version
        self.release = release_of(version)
        self._directory = tempfile.mkdtemp(prefix="nri-")
        self.socket = f"{self._directory}/nri.sock"
        self._process = subprocess.Popen(
            [peers / f"runtime-{version}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __call__(self, op: str, **arguments: object) -> dict[str, Any]:
        """Run one command."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise GoRuntimeError(f"{op}: the runtime died")
        reply: dict[str, Any] = json.loads(line)
        if not reply.pop("ok"):
            raise GoRuntimeError(reply["error"])
        return reply

    def start(self, **arguments: object) -> None:
        """Listen; containers=N sets how many exist."""
        identity = {"version": CONTAINERD[self.version]}
        self("start", **{"socket": self.socket, **identity, **arguments})

    def wait_sync(self, count: int = 1, timeout_s: float = 10) -> list[dict[str, Any]]:
        """Wait for so many synchronizations since the process began; return them."""
        reply = self("wait_sync", count=count, timeout_ms=int(timeout_s * 1000))
        syncs: list[dict[str, Any]] = reply["syncs"]
        return syncs

    def create(self, **arguments: object) -> Any:
        """Create a container; return its adjustment, None for none."""
        return self("create", **arguments)["adjust"]

    def wait_connections(self, count: int) -> None:
        """Wait until so many plugins are connected."""
        until(
            lambda: self("plugins")["connected"] == count, f"{count} plugins connected"
        )


class Child:
    """A plugin process, killed at the end by its pid."""

    def __init__(self, *command: str | Path, log: IO[str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stderr=log or subprocess.DEVNULL, env=ENVIRON
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Ask the process to end; return its exit code."""
        self.process.terminate()
        return self.process.wait(10)

    def memory_kib(self, field: str = "VmRSS") -> int:
        """Return a line of the kernel's status file."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise LookupError(field)


def nriplugin_command(socket: str, *more: str) -> Iterator[str]:
    """Return the command line of nriplugin, run by this interpreter.

    Services whose addresses two processes could not share are off unless asked for.
    """
    yield from (sys.executable, "-m", "nriplugin", "run", "--nri-socket", socket)
    yield from ("--control", "off", "--http", "off")
    yield from more


def observer_command(socket: str, log: CallLog, *more: str) -> Iterator[str]:
    """Return the command line of tests/interop/observer.py."""
    yield from (sys.executable, str(OBSERVER), "--socket", socket)
    yield from ("--log", str(log.path), *more)


class CallLog:
    """A file to which a plugin of either library appends one JSON line per call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._skipped = 0
        path.touch()

    def skip(self) -> None:
        """Forget what was written so far."""
        self._skipped += len(self.lines())

    def lines(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return what was written, or only the calls of one method."""
        # The last element is empty, or a line that is still being written.
        complete = self.path.read_text().split("\n")[:-1]
        lines = [json.loads(line) for line in complete[self._skipped :]]
        return [line for line in lines if method in (None, line["method"])]

    def calls(self) -> list[tuple[str, str, str]]:
        """Return method, pod and container of each call."""
        return [
            (line["method"], line["pod"], line["container"]) for line in self.lines()
        ]

    def wait_for(self, method: str) -> dict[str, Any]:
        """Wait until a method was called; return the last such line."""
        until(lambda: self.lines(method), f"{method} was called")
        return self.lines(method)[-1]


class Observed(NamedTuple):
    """A runtime and an observer on it, which tests share."""

    runtime: GoRuntime
    log: CallLog
    said: Path  # the runtime's standard error
