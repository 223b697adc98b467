"""nriplugin and another plugin on one runtime of the real library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import CallLog, Child, GoRuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.gopeers import GoRuntime, Starter

    Policy = Callable[..., Child]
    Watcher = Callable[[str, CallLog], Child]

pytestmark = pytest.mark.needs_go

POD = {"id": "p1", "name": "web", "namespace": "default", "uid": "u1"}
HUGE_PAGES = [{"pageSize": "2MB", "limit": "4194304"}]


def resources(shares: int, limit: int, **more: Any) -> dict[str, Any]:
    """Return resources as protojson has them: numbers of 64 bits are text."""
    cpu = {"shares": {"value": str(shares)}, **more}
    return {"cpu": cpu, "memory": {"limit": {"value": str(limit)}}}


# What kubelet asks for, at creation and by a resize, and what the policy plugin sets
# instead. Its set of CPUs is in no request.
MADE = {**resources(1024, 256 << 20), "hugepageLimits": HUGE_PAGES}
ASKED = {
    **resources(512, 128 << 20, quota={"value": "50000"}, period={"value": "100000"}),
    "hugepageLimits": HUGE_PAGES,
}
POLICY_MADE = resources(2048, 512 << 20, cpus="0-1")
POLICY_ASKED = resources(4096, 64 << 20, cpus="1")

CONTAINER = {
    "id": "c1",
    "podSandboxId": "p1",
    "name": "server",
    "linux": {"resources": MADE},
}


@pytest.fixture
def policy(go_peers: Path, version: str, runtime: GoRuntime) -> Policy:
    """Starts a plugin on the Go library that sets given resources."""

    def start(idx: str, create: dict[str, Any], update: dict[str, Any]) -> Child:
        return Child(
            go_peers / f"stubplugin-{version}",
            *("-socket-path", runtime.socket, "-name", "policy", "-idx", idx),
            *("-set-at-creation", json.dumps(create)),
            *("-set-at-update", json.dumps(update)),
        )

    return start


@pytest.fixture
def watcher(go_peers: Path, version: str, runtime: GoRuntime) -> Watcher:
    """Starts a plugin on the Go library that writes down calls and changes nothing."""

    def start(idx: str, log: CallLog) -> Child:
        return Child(
            go_peers / f"stubplugin-{version}",
            *("-socket-path", runtime.socket, "-name", "watcher", "-idx", idx),
            *("-all-events", "-only-watch", "-events-log", log.path),
        )

    return start


def unified_of(message: dict[str, Any]) -> dict[str, str]:
    """Return the files of an adjustment or an update."""
    files: dict[str, str] = message["linux"]["resources"]["unified"]
    return files


def update(runtime: GoRuntime, asked: dict[str, Any]) -> dict[str, Any]:
    """Resize the container; return what the runtime is to apply."""
    (entry,) = runtime("update", pod=POD, container=CONTAINER, resources=asked)[
        "update"
    ]
    applied: dict[str, Any] = entry["linux"]["resources"]
    return applied


@pytest.mark.parametrize("policy_idx", ["10", "95"])
def test_both_set_their_own(
    runtime: GoRuntime, nriplugin: Starter, policy: Policy, policy_idx: str
) -> None:
    """By default nriplugin is asked last, and converts values that the other set."""
    runtime.start()
    with policy(policy_idx, POLICY_MADE, POLICY_ASKED), nriplugin():
        runtime.wait_sync(2)
        adjust = runtime.create(pod=POD, container=CONTAINER)
        adjusted = adjust["linux"]["resources"]
        assert adjusted["cpu"] == POLICY_MADE["cpu"]
        assert adjusted["memory"] == POLICY_MADE["memory"]
        assert unified_of(adjust) == {
            "cpu.weight": "174",
            "memory.max": str(512 << 20),
        }

        applied = update(runtime, ASKED)
        assert applied["cpu"] == {**ASKED["cpu"], **POLICY_ASKED["cpu"]}
        assert applied["memory"] == POLICY_ASKED["memory"]
        assert applied["hugepageLimits"] == HUGE_PAGES
        assert applied["unified"] == {
            "cpu.weight": "303",
            "cpu.max": "50000 100000",
            "memory.max": str(64 << 20),
        }
        assert runtime("plugins")["connected"] == 2


@pytest.mark.parametrize("policy_idx", ["10", "95"])
def test_an_early_plugin_is_in_nobodys_way(
    runtime: GoRuntime, nriplugin: Starter, policy: Policy, policy_idx: str
) -> None:
    """At index 05 nriplugin converts kubelet's values; the other's fields pass."""
    runtime.start()
    with policy(policy_idx, POLICY_MADE, POLICY_ASKED), nriplugin("--idx", "05"):
        runtime.wait_sync(2)
        adjust = runtime.create(pod=POD, container=CONTAINER)
        assert adjust["linux"]["resources"]["cpu"] == POLICY_MADE["cpu"]
        assert unified_of(adjust)["cpu.weight"] == "100"

        applied = update(runtime, ASKED)
        assert applied["cpu"] == {**ASKED["cpu"], **POLICY_ASKED["cpu"]}
        assert applied["hugepageLimits"] == HUGE_PAGES
        assert applied["unified"]["cpu.weight"] == "59"


def test_alone_our_answer_leaves_the_request_as_it_is(
    runtime: GoRuntime, nriplugin: Starter
) -> None:
    """All that kubelet asks for is applied once, and nriplugin's files beside it."""
    runtime.start()
    with nriplugin():
        runtime.wait_sync()
        applied = update(runtime, ASKED)
    files = applied.pop("unified")
    assert applied == ASKED
    assert files == {
        "cpu.weight": "59",
        "cpu.max": "50000 100000",
        "memory.max": str(128 << 20),
    }


def test_a_file_of_an_earlier_plugin_is_left(
    runtime: GoRuntime, nriplugin: Starter, policy: Policy
) -> None:
    """In every release a plugin sees the files that earlier ones have set."""
    theirs = {"unified": {"cpu.weight": "77", "memory.high": "1000"}}
    runtime.start()
    with policy("10", theirs, theirs), nriplugin():
        runtime.wait_sync(2)
        adjust = runtime.create(pod=POD, container=CONTAINER)
        assert unified_of(adjust) == {
            **theirs["unified"],
            "memory.max": str(256 << 20),
        }
        assert update(runtime, ASKED)["unified"] == {
            **theirs["unified"],
            "cpu.max": "50000 100000",
            "memory.max": str(128 << 20),
        }


def test_a_file_of_ours_fails_a_later_plugin(
    runtime: GoRuntime, nriplugin: Starter, policy: Policy
) -> None:
    """A plugin that is asked after nriplugin and sets its file fails the request."""
    theirs = {"unified": {"cpu.weight": "77"}}
    runtime.start()
    with policy("95", theirs, theirs), nriplugin("--idx", "90"):
        runtime.wait_sync(2)
        both = r'"95-policy" and "90-nriplugin" both tried to set'
        with pytest.raises(GoRuntimeError, match=both):
            runtime.create(pod=POD, container=CONTAINER)
        with pytest.raises(GoRuntimeError, match=both):
            update(runtime, ASKED)


def test_who_comes_later_is_shown_our_files(
    runtime: GoRuntime, nriplugin: Starter, watcher: Watcher, tmp_path: Path
) -> None:
    """In every release only a plugin that is asked after nriplugin sees its files."""
    early, late = CallLog(tmp_path / "early"), CallLog(tmp_path / "late")
    runtime.start()
    with watcher("01", early), nriplugin("--idx", "50"), watcher("99", late):
        runtime.wait_sync(3)
        adjust = runtime.create(pod=POD, container=CONTAINER)
        applied = update(runtime, ASKED)
    for log, made, asked in (
        (early, MADE, ASKED),
        (
            late,
            {**MADE, "unified": unified_of(adjust)},
            {**ASKED, "unified": applied["unified"]},
        ),
    ):
        (created,), (updated,) = (
            log.lines("CreateContainer"),
            log.lines("UpdateContainer"),
        )
        assert created["resources"] == made
        assert updated["resources"] == MADE
        assert updated["change"] == asked
