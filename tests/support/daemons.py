"""A real daemon process on the embedded runtime, and what it serves over HTTP."""

from __future__ import annotations

import http.client
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.nri.testing.runtime import EmbeddedRuntime
from support.harness import PATIENCE_S, PATIENT, wait_until
from support.processes import Daemon

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


class DaemonUnderTest(Daemon):
    """A process of `nriplugin run`, and the runtime that it registers with."""

    def __init__(
        self, runtime: EmbeddedRuntime, log: Path, *arguments: str, **environ: str
    ) -> None:
        super().__init__(log, "run", "--control", "off", *arguments, **environ)
        self.runtime = runtime

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
        found = re.search(r"serving http://(\S+)", self.log)
        return found[1] if found else ""


@contextmanager
def daemon_on_runtime(
    directory: Path, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[DaemonUnderTest]:
    """A registered daemon, with HTTP on a free port unless the options say else."""
    if "--http" not in options:
        options += ("--http", "0")
    socket, log = str(directory / "nri.sock"), directory / "daemon.log"
    options += ("--nri-socket", socket)
    environ = {"NRIPLUGIN_CGROUP_VERSION": "2", **(environ or {})}
    with EmbeddedRuntime(socket, PATIENT) as runtime:
        daemon = DaemonUnderTest(runtime, log, *options, **environ)
        try:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            yield daemon
        finally:
            daemon.kill()
