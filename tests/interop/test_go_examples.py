"""The programs in examples/ on a runtime with the released Go library."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import TOP, Child, GoRuntime, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs_go

LIMIT = 1 << 30
CONTAINER: dict[str, Any] = {
    "id": "c1",
    "podSandboxId": "p1",
    "name": "app",
    "linux": {"resources": {"memory": {"limit": {"value": LIMIT}}}},
}


def pod(**annotations: str) -> dict[str, Any]:
    """Return a pod with these annotations."""
    return {
        "id": "p1",
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "annotations": annotations,
    }


@contextmanager
def example(name: str, runtime: GoRuntime, directory: Path) -> Iterator[Path]:
    """Run an example on a runtime; yields the file of what it prints."""
    printed = directory / "printed"
    path = TOP / "examples" / name
    # The shell is replaced by the example, so that its process id is the example's.
    script = f'exec "{sys.executable}" "{path}" "{runtime.socket}" >"{printed}" 2>&1'
    runtime.start(containers=1)
    with Child("/bin/sh", "-c", script):
        runtime.wait_sync()
        yield printed


def test_the_event_logger_prints_a_life(runtime: GoRuntime, tmp_path: Path) -> None:
    """Every event of the release is one line of JSON, in order."""
    with example("event_logger.py", runtime, tmp_path) as printed:
        runtime("event", event="RunPodSandbox", pod=pod())
        runtime.create(pod=pod(), container=CONTAINER)
        runtime("event", event="StartContainer", pod=pod(), container=CONTAINER)
        runtime("stop", pod=pod(), container=CONTAINER)
        runtime("event", event="RemovePodSandbox", pod=pod())
        until(lambda: "remove_pod_sandbox" in printed.read_text(), "it was printed")
    lines = [line for line in printed.read_text().splitlines() if line[0] == "{"]
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == [
        *("exists", "exists", "run_pod_sandbox", "create_container"),
        *("start_container", "stop_container", "remove_pod_sandbox"),
    ]
    told = {"namespace": "shop", "pod": "web"}
    assert events[2] == {"event": "run_pod_sandbox", **told}
    started = {"event": "start_container", **told, "container": "app", "id": "c1"}
    assert events[4] == started


def test_memory_qos_throttles_by_class(runtime: GoRuntime, tmp_path: Path) -> None:
    """The class decides `memory.high`; an unknown class is told and changes nothing."""
    key = "class.memory-qos.nri.io"
    with example("memory_qos.py", runtime, tmp_path) as printed:

        def unified_of(**annotations: str) -> dict[str, str]:
            adjust = runtime.create(pod=pod(**annotations), container=CONTAINER)
            if not adjust:
                return {}
            unified: dict[str, str] = adjust["linux"]["resources"]["unified"]
            return unified

        bronze = {"memory.high": str(LIMIT // 2), "memory.swap.max": "max"}
        assert unified_of(**{key: "bronze"}) == bronze
        of_container = {key: "gold", f"{key}/container.app": "bronze"}
        assert unified_of(**of_container) == bronze
        assert unified_of() == {}
        assert unified_of(**{key: "gold"}) == {}
        expected = f"WARNING web: {key}: 'gold', expected one of bronze, silver"
        until(lambda: expected in printed.read_text(), "the mistake was logged")


def test_the_device_injector_adds_devices(runtime: GoRuntime, tmp_path: Path) -> None:
    """The annotation's devices are in the answer; a wrong one starts no trouble."""
    key = "devices.nri.io/container.app"
    fuse = "- {path: /dev/fuse, type: c, major: 10, minor: 229, file_mode: 0666}"
    with example("device_injector.py", runtime, tmp_path) as printed:
        adjust = runtime.create(pod=pod(**{key: fuse}), container=CONTAINER)
        assert adjust["linux"]["devices"] == [
            {
                "path": "/dev/fuse",
                "type": "c",
                "major": "10",
                "minor": "229",
                "fileMode": {"value": 0o666},
            }
        ]
        for wrong in ("- {path: /dev/fuse}", "[", "7", "- 7", "- {path: 7}"):
            answer = runtime.create(pod=pod(**{key: wrong}), container=CONTAINER)
            assert not answer, wrong
        until(lambda: printed.read_text().count("WARNING") == 5, "all were logged")
        assert "ERROR" not in printed.read_text()
