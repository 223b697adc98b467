"""A node that is played: the real Go runtime library, and cgroups of plain files.

The runtime keeps its containers over a restart and writes their cgroups (see
tests/interop/go/README.md, `play`). nriplugin is a process of its own with everything
on.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nodes.ports import free_ports
from support.gopeers import (
    NEWEST,
    Child,
    GoRuntime,
    GoRuntimeDied,
    nriplugin_command,
    until,
)
from support.jumping_clock import jumping_command
from support.trees import V2_FILES, make_v2

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 60
# The library's own, which a plugin that is stopped for 3 s overruns; one that waits for
# its processor may do so, too. The other is for tests in which no plugin is stopped.
REQUEST_TIMEOUT_MS = 2000
PATIENT_MS = 30_000
TOP_CGROUPS = ("/", "/kubepods", "/kubepods/burstable")


class Size(NamedTuple):
    """The numbers that kubelet gives a container."""

    shares: int
    quota: int
    limit: int

    def resources(self) -> dict[str, Any]:
        """Return them as protojson."""
        return {
            "cpu": {
                "shares": {"value": self.shares},
                "quota": {"value": self.quota},
                "period": {"value": 100_000},
            },
            "memory": {"limit": {"value": self.limit}},
        }


def memory() -> str | None:
    """Return a directory in memory, where the journal waits for no disk, or None."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


class PlayedNode:
    """The directories, the runtime and the plugin of a node."""

    def __init__(
        self, peers: Path, config: str, *, files: Sequence[str] = tuple(V2_FILES)
    ) -> None:
        """Make the directories.

        Args:
            peers: the programs on the Go library.
            config: the text of the plugin's configuration file.
            files: the files that a cgroup has.
        """
        self._peers = peers
        self._temporary = tempfile.TemporaryDirectory(prefix="nri-", dir=memory())
        self.top = Path(self._temporary.name)
        self.cgroups, self.state = self.top / "cgroup", self.top / "state"
        self.sockets, self.specs = self.top / "run", self.top / "specs"
        self.config, self.log = self.top / "config.yaml", self.top / "log"
        self.clock = self.top / "clock"  # of the plugin, which disturbances set
        self.control = f"unix://{self.top}/c.sock"
        self.http = f"127.0.0.1:{free_ports(1)[0]}"
        template = self.top / "template"
        for directory in (self.state, self.sockets, self.specs, template):
            directory.mkdir()
        make_v2(self.cgroups, TOP_CGROUPS)
        for name in files:
            (template / name).write_text(V2_FILES[name])
        self.config.write_text(config)
        self._log = self.log.open("a")
        self._lock = threading.Lock()
        self.runtime: GoRuntime | None = None
        self.plugin: Child | None = None
        self.drifted: set[str] = set()  # containers that had wrong values once

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._log.close()
        self._temporary.cleanup()

    def kill(self) -> None:
        """End both processes."""
        if self.plugin:
            self.plugin.__exit__()
        if self.runtime:
            self.runtime.__exit__()
        self.plugin = self.runtime = None

    def kill_runtime(self) -> None:
        """Kill the runtime, also while it answers a command."""
        assert self.runtime
        self.runtime.kill()
        with self._lock:
            self.runtime.__exit__()
            self.runtime = None

    def start_runtime(self, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        """Start a runtime, which finds the containers of an earlier one."""
        runtime = GoRuntime(self._peers, NEWEST, self._log, self.sockets)
        runtime.start(
            specs=str(self.specs),
            cgroups=str(self.cgroups),
            template=str(self.top / "template"),
            request_timeout_ms=request_timeout_ms,
        )
        self.runtime = runtime

    def start_plugin(self, *options: str) -> Child:
        """Start nriplugin with everything on, unless the options say otherwise."""
        if self.plugin:
            self.plugin.__exit__()
        command = nriplugin_command(
            f"{self.sockets}/nri.sock",
            *("--config", str(self.config), "--cgroup-root", str(self.cgroups)),
            *("--state-dir", str(self.state)),
            *("--control", self.control, "--http", self.http, *options),
        )
        self.plugin = Child(*jumping_command(self.clock, [*command]), log=self._log)
        return self.plugin

    def __call__(self, op: str, **arguments: object) -> dict[str, Any]:
        """Run a command of the runtime."""
        with self._lock:
            if self.runtime is None:
                raise GoRuntimeDied(f"{op}: there is no runtime")
            return self.runtime(op, **arguments)

    def play(self, part: str, first: int, **arguments: object) -> list[str]:
        """Take containers through a part of their lives; return what failed."""
        failed: list[str] = self("play", part=part, first=first, **arguments)["failed"]
        return failed

    def wait_sync(self, count: int = 1) -> None:
        """Wait until the runtime has synchronized so many times."""
        with self._lock:
            assert self.runtime
            self.runtime.wait_sync(count, PATIENCE_S)

    def containers(self) -> dict[int, dict[str, Any]]:
        """Return the specifications of the runtime's containers, by index."""
        found = {}
        for path in self.specs.glob("*.json"):
            # A container may be removed while the others are read.
            with suppress(FileNotFoundError):
                found[int(path.stem[1:])] = json.loads(path.read_text())
        return found

    def files(self, spec: dict[str, Any], names: Sequence[str]) -> dict[str, str]:
        """Return what files of a container hold."""
        cgroup = self.cgroups / spec["linux"]["cgroupsPath"].lstrip("/")
        return {name: (cgroup / name).read_text().strip() for name in names}

    def wait_until(self, condition: Any, what: str) -> None:  # noqa: ANN401
        """Wait for something; the error has the end of the log."""
        try:
            until(condition, what, PATIENCE_S)
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}\n{self.log.read_text()[-3000:]}") from exc
