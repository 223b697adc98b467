from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.gopeers import NEWEST, GoRuntimeError, until

if TYPE_CHECKING:
    from pathlib import Path

    from support.gopeers import CallLog, GoRuntime, Observed, Starter

pytestmark = pytest.mark.needs_go

BROKEN = {"id": "p1", "annotations": {"raise": "told to"}}


def test_a_late_handler_does_not_hold_up_the_node(
    observed: Observed, tmp_path: Path
) -> None:
    """While a handler is stuck, requests get empty answers and events are kept."""
    runtime, log, _ = observed
    hold = tmp_path / "hold"
    hold.touch()
    assert runtime.create(pod={"id": "p1", "annotations": {"hold": str(hold)}}) is None
    for index in range(2, 5):  # the runtime would have waited 2 s for each
        assert runtime.create(pod={"id": f"p{index}"}) is None
    runtime("event", event="StartContainer", pod={"id": "p5"})
    runtime("event", event="PostStartContainer", pod={"id": "p6"})
    assert runtime("plugins")["connected"] == 1
    assert log.calls() == [("CreateContainer", "p1", "c900000")]

    hold.unlink()
    log.wait_for("PostStartContainer")
    assert runtime.create(pod={"id": "p7"})
    assert log.calls() == [
        ("CreateContainer", "p1", "c900000"),
        ("held", "p1", "c900000"),
        ("StartContainer", "p5", "c900000"),
        ("PostStartContainer", "p6", "c900000"),
        ("CreateContainer", "p7", "c900000"),
    ]


def test_a_failing_handler_is_ignored(observed: Observed) -> None:
    """By default a container is created as if the plugin were not there."""
    runtime = observed.runtime
    assert runtime.create(pod=BROKEN) is None
    assert runtime("update", pod=BROKEN)["update"] == []
    assert runtime("stop", pod=BROKEN)["update"] == []
    runtime("event", event="StartContainer", pod=BROKEN)
    assert runtime.create()


def test_policy_fail_fails_the_request(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """With policy fail an exception or lateness fails the request, not the plugin."""
    hold = tmp_path / "hold"
    hold.touch()
    runtime.start()
    with observer("--fail"):
        runtime.wait_sync()
        with pytest.raises(GoRuntimeError, match="ValueError: told to"):
            runtime.create(pod=BROKEN)
        assert runtime.create()
        with pytest.raises(GoRuntimeError, match="late"):
            runtime.create(pod={"id": "p1", "annotations": {"hold": str(hold)}})
        with pytest.raises(GoRuntimeError, match="late"):
            runtime.create()
        hold.unlink()
        runtime("event", event="StartContainer")
        log.wait_for("StartContainer")
        assert runtime.create()
        assert runtime("plugins")["connected"] == 1


def test_policy_fail_of_our_plugin_changes_nothing_else(
    runtime: GoRuntime, nriplugin: Starter, tmp_path: Path
) -> None:
    """Every release takes a registration with policy fail, which 0.12 is told of."""
    config = tmp_path / "config.yaml"
    config.write_text("failurePolicy: fail\n")
    runtime.start(containers=3)
    with nriplugin("--config", str(config)):
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        assert runtime.create()


def test_a_shorter_timeout_is_kept(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """The plugin learns how long this runtime waits, and answers before that.

    The plugin has the last quarter of the time to answer, also on a busy machine.
    """
    hold = tmp_path / "hold"
    hold.touch()
    # Before 0.7 a runtime does not tell, so its usual 2 s count.
    told = runtime.release >= (0, 7)
    runtime.start(request_timeout_ms=4000)
    with observer(*["--assume-timeout-s", "60"] * told):
        runtime.wait_sync()
        pod = {"id": "p1", "annotations": {"hold": str(hold)}}
        assert runtime.create(pod=pod) is None
        hold.unlink()
        log.wait_for("held")
        # One that was dropped comes back, and writes that down before.
        until(runtime.create, "containers are adjusted")
        assert not log.lines("Disconnected")


@pytest.mark.parametrize("version", ["0.6.1", NEWEST], scope="module")
def test_a_late_configure_is_made_up_for(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """A plugin that was late to configure comes to be synchronized all the same."""
    hold = tmp_path / "hold"
    hold.touch()
    runtime.start(containers=3)
    with observer("--hold-configure", str(hold)):
        log.wait_for("Configure")
        until(
            lambda: not runtime("plugins")["connected"] or runtime.wait_sync(0),
            "the runtime has had enough",
        )
        hold.unlink()
        log.wait_for("Synchronize")
        until(runtime.create, "containers are adjusted")


@pytest.mark.parametrize("version", ["0.6.1", NEWEST], scope="module")
def test_a_late_synchronize_is_handled_once(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """A plugin that takes long over what exists is registered, and hears the rest."""
    hold = tmp_path / "hold"
    hold.touch()
    runtime.start(containers=3)
    with observer("--hold-synchronize", str(hold)):
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        runtime("event", event="StartContainer", pod={"id": "p1"})
        hold.unlink()
        log.wait_for("StartContainer")
        assert runtime.create(pod={"id": "p2"})
        assert [line["method"] for line in log.lines()] == [
            "Configure",
            "Synchronize",
            "StartContainer",
            "CreateContainer",
        ]
