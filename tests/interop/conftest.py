from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from nodes.programs import program
from nodes.shell import NodeError
from support.gopeers import (
    VERSIONS,
    CallLog,
    Child,
    GoPeersMissing,
    GoRuntime,
    Observed,
    build_go_peers,
    nriplugin_command,
    observer_command,
)
from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.gopeers import Starter

# Not the capturing object, but the descriptor that pytest redirects: what the peers
# say is shown with the test that failed.
STDERR = sys.__stderr__


@pytest.fixture(scope="session")
def go_peers() -> Path:
    """The directory of the programs on the Go library."""
    try:
        return build_go_peers()
    except GoPeersMissing as exc:
        need("go", str(exc))


@pytest.fixture(scope="session")
def kubelet_values() -> Path:
    """The program that prints what kubelet's own functions make of pods."""
    try:
        return program("kubelet-values") / "kubelet-values"
    except NodeError as exc:
        need("go", str(exc).splitlines()[-1])


@pytest.fixture(params=VERSIONS, scope="module")
def version(request: pytest.FixtureRequest) -> str:
    """A version of the Go library."""
    value: str = request.param
    return value


@pytest.fixture
def runtime(go_peers: Path, version: str) -> Iterator[GoRuntime]:
    """A runtime that has not been started yet."""
    with GoRuntime(go_peers, version, STDERR) as runtime:
        yield runtime


@pytest.fixture
def log(tmp_path: Path) -> CallLog:
    """Where an observer or a Go stub writes down its calls."""
    return CallLog(tmp_path / "calls")


@pytest.fixture
def observer(runtime: GoRuntime, log: CallLog) -> Starter:
    """Starts an observer on the runtime, with the given options."""

    def start(*options: str) -> Child:
        return Child(*observer_command(runtime.socket, log, *options), log=STDERR)

    return start


@pytest.fixture
def nriplugin(runtime: GoRuntime) -> Starter:
    """Starts `nriplugin run` on the runtime, with the given options."""

    def start(*options: str) -> Child:
        return Child(*nriplugin_command(runtime.socket, *options), log=STDERR)

    return start


@pytest.fixture(scope="module")
def _observed(
    go_peers: Path, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observed]:
    directory = tmp_path_factory.mktemp("observed")
    log = CallLog(directory / "calls")
    said = directory / "stderr"
    with (
        said.open("w") as stderr,
        GoRuntime(go_peers, version, stderr) as runtime,
    ):
        runtime.start(containers=10)
        with Child(*observer_command(runtime.socket, log), log=STDERR):
            runtime.wait_sync()
            yield Observed(runtime, log, said)


@pytest.fixture
def observed(_observed: Observed) -> Iterator[Observed]:
    """A shared runtime with ten containers; no test may get its observer dropped."""
    _observed.log.skip()
    yield _observed
    assert _observed.runtime("plugins")["connected"] == 1
    assert not _observed.log.lines("Disconnected")
    # The library logs events that it had to deliver the old way, and stray answers.
    said = _observed.said.read_text().splitlines()
    assert [line for line in said if "level=info" not in line] == []
