"""What an operator sees of a node with handlers on: status, why, events, doctor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet, Pod

pytestmark = [on_nodes("containerd-2.4"), pytest.mark.timeout(1800)]

CONFIG = "/tmp/operating.yaml"
TEXT = """
cpuBurst: {enabled: true, percent: 50}
memoryQoS: {enabled: true}
"""
REQUEST = {"memory-request.cgroup2.nri.io": "32Mi"}
RESOURCES = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 64 << 20,
}
# Those of the two handlers; the others follow from the numbers.
FILES = {"cpu.max.burst": "25000", "memory.low": str(32 << 20)}
WIDTH = 80


class Shown(NamedTuple):
    """A node with the plugin and a container, and the container's pod."""

    node: Machine
    pod: Pod

    @property
    def name(self) -> str:
        """The pod as `why` names it."""
        metadata = self.pod.config["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    def page(self, *command: str) -> str:
        """Return a page in a pipe, after a look at its form."""
        text = self.node.check("nriplugin", *command)
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert "\x1b" not in text
        return text

    def document(self, *command: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.node.check("nriplugin", *command, "-o", "json"))


@pytest.fixture(scope="module")
def shown(node: Machine, kubelet: Kubelet) -> Iterator[Shown]:
    """The plugin with handlers on, and one container."""
    node.write(CONFIG, TEXT)
    with (
        running(node, "--config", CONFIG),
        kubelet.sandbox("Burstable", annotations=REQUEST) as pod,
    ):
        kubelet.start(pod, "shown", RESOURCES)
        yield Shown(node, pod)


def test_status(shown: Shown) -> None:
    """The page is that of a daemon in order, and fits."""
    page = shown.page("status")
    assert "healthy, ready" in page.splitlines()[0]
    status = shown.document("status")
    assert status["problems"] == []
    enabled = {one["name"] for one in status["handlers"] if one["enabled"]}
    assert enabled == {"cpuBurst", "memoryQoS", "resources"}
    assert status["node"]["direct_writes"]
    brief = shown.node.check("nriplugin", "status", "--brief")
    assert brief.count("\n") == 1


def test_why(shown: Shown) -> None:
    """The kernel holds what was decided, and the page says by which handler."""

    def look() -> dict[str, Any]:
        (container,) = shown.document("why", shown.name)["containers"]
        return {one["file"]: one for one in container["files"]}

    def differing(files: dict[str, Any]) -> list[Any]:
        return [one for one in files.values() if one["now"] != one["decided"]]

    # Direct writes come after the start.
    files = keep_looking(look, lambda files: not differing(files))
    assert differing(files) == []
    assert {file: files[file]["now"] for file in FILES} == FILES
    assert files["cpu.max.burst"]["handler"] == "cpuBurst"
    assert files["memory.low"]["source"].endswith("memory-request.cgroup2.nri.io")
    page = shown.page("why", shown.name)
    assert all(file in page for file in files)


def test_events(shown: Shown) -> None:
    """The creation is an event, with the values that it led to."""
    command = ("events", "--all", "--kind", "created", "-o", "json")
    lines = shown.node.check("nriplugin", *command, "--count", "1").splitlines()
    (event,) = map(json.loads, lines)
    assert f"{event['namespace']}/{event['pod']}" == shown.name
    assert event["files"]["memory.low"] == FILES["memory.low"]


def test_doctor(shown: Shown) -> None:
    """Nothing on such a node stops the plugin."""
    shown.page("doctor")
    found = shown.document("doctor")["findings"]
    assert [one for one in found if one["level"] == "problem"] == []
    levels = {one["check"]: one["level"] for one in found}
    assert levels["nri-socket"] == levels["controllers"] == "ok"
