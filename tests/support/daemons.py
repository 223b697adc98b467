"""A real daemon process on the embedded runtime, and what it serves over HTTP."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.nri.testing.runtime import EmbeddedRuntime
from support.harness import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Response(NamedTuple):
    """What an HTTP client got."""

    code: int
    text: str
    headers: Mapping[str, str]


def get(address: str, path: str, *, method: str = "GET", **headers: str) -> Response:
    """Ask a server; `_` in a header's name stands for `-`."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=given)
        response = connection.getresponse()
        body = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        text = body.decode() if "content-encoding" not in found else body.hex()
        return Response(response.status, text, found)
    finally:
        connection.close()


class DaemonUnderTest:
    """A process of `nriplugin run`, and the runtime that it is registered with."""

    def __init__(
        self, directory: Path, *options: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.runtime = EmbeddedRuntime(str(directory / "nri.sock"))
        self._command = [
            *(sys.executable, "-m", "nriplugin", "run", "--control", "off"),
            *("--nri-socket", str(directory / "nri.sock"), *options),
        ]
        self._environ = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "NRIPLUGIN_CGROUP_VERSION": "2",
            **(environ or {}),
        }
        self.log: list[str] = []

    def start(self) -> None:
        """Start the process; its log is read on a thread."""
        self.process = subprocess.Popen(
            self._command, stderr=subprocess.PIPE, text=True, env=self._environ
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self) -> int:
        """End the process as systemd does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def kill(self) -> None:
        """End the process in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE_S)
        assert self.process.stderr
        self.process.stderr.close()

    @property
    def address(self) -> str:
        """Return where it serves HTTP, as its log says."""
        wait_until(lambda: self._served())
        return self._served()

    def get(self, path: str, **headers: str) -> Response:
        """Ask the daemon over HTTP."""
        return get(self.address, path, **headers)

    def samples(self) -> dict[str, float]:
        """Return all metrics, by name and labels as they are in the text."""
        lines = self.get("/metrics").text.splitlines()
        pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    def _served(self) -> str:
        found = re.search(r"serving http://(\S+)", "\n".join(self.log))
        return found[1] if found else ""

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))


@contextmanager
def daemon_on_runtime(
    directory: Path, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[DaemonUnderTest]:
    """A registered daemon, with HTTP on a free port unless the options say else."""
    if "--http" not in options:
        options += ("--http", "0")
    daemon = DaemonUnderTest(directory, *options, environ=environ)
    with daemon.runtime:
        daemon.start()
        try:
            daemon.runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            yield daemon
        finally:
            daemon.kill()
