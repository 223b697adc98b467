"""Drives the peers built from the released Go NRI library (tests/interop/go)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
VERSIONS = ("0.6.1", "0.8.0", "0.10.0", "0.11.0", "0.12.5")
NEWEST = VERSIONS[-1]

# Without what would make every start compile the generated messages again.
ENVIRON = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class GoPeersMissing(Exception):
    """The peers cannot be built here; says why."""


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
        self.release = tuple(int(part) for part in version.split(".")[:2])
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
        self("start", socket=self.socket, **arguments)

    def wait_sync(self, count: int = 1, timeout_s: float = 10) -> list[dict[str, Any]]:
        """Wait for so many synchronizations since the process began; return them."""
        reply = self("wait_sync", count=count, timeout_ms=int(timeout_s * 1000))
        syncs: list[dict[str, Any]] = reply["syncs"]
        return syncs


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

    def memory_kib(self, field: str = "VmRSS") -> int:
        """Return a line of the kernel's status file."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise LookupError(field)


def nriplugin_command(socket: str, *more: str) -> Iterator[str]:
    """Return the command line of our plugin, as this interpreter runs it."""
    yield from (sys.executable, "-m", "nriplugin", "run", "--nri-socket", socket)
    yield from more
