"""The result of a request if a handler cannot do its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import FILES, container_at, existing, pod_at
from doors.nri.nodes import FACTS, configure, plugin_on
from support.handlers import registered_handler
from support.harness import connected

from nriplugin.engine.handlers.cpu_burst import CPU_BURST
from nriplugin.nri import FailurePolicy
from nriplugin.nri.testing.runtime import RequestRejected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.nri.plugin import NodePlugin

# A quota below what any kernel takes.
IMPOSSIBLE: dict[str, Any] = {"shares": 512, "quota_us": 5}

RESOURCES_FAIL = "resources: {failurePolicy: fail}"
BURST_FAILS = "cpuBurst: {enabled: true, percent: 50, failurePolicy: fail}"


def plugin_of(config: str) -> NodePlugin:
    plugin = plugin_on(FACTS)
    configure(plugin, config)
    return plugin


@pytest.fixture
def broken() -> Iterator[None]:
    """A handler with a defect."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    with registered_handler(CPU_BURST._replace(decide=fail)):
        yield


def test_a_handler_that_is_to_fail_fails_the_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own failure policy wins over the file's `ignore`."""
    plugin = plugin_of(RESOURCES_FAIL)
    assert plugin.failure_policy is FailurePolicy.IGNORE
    pod = pod_at()
    with connected(plugin, tmp_path) as (runtime, _):
        with pytest.raises(
            RequestRejected, match=r"resources: cpu\.quota: 5, expected"
        ):
            runtime.create_container(pod, container_at(**IMPOSSIBLE))
        asked = container_at(**IMPOSSIBLE).linux.resources
        with pytest.raises(RequestRejected, match="resources"):
            runtime.update_container(pod, container_at(), asked)
        # The connection goes on.
        created = runtime.create_container(pod, container_at())
    assert dict(created.adjust.linux.resources.unified) == FILES
    assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("broken")
def test_a_defect_fails_the_request_if_the_handler_is_to_fail(
    tmp_path: Path,
) -> None:
    """The policy holds for any reason why the handler did not do its work."""
    with (
        connected(plugin_of(BURST_FAILS), tmp_path) as (runtime, _),
        pytest.raises(RequestRejected, match="cpuBurst: ZeroDivisionError"),
    ):
        runtime.create_container(pod_at(), container_at())


@pytest.mark.usefixtures("broken")
def test_a_handler_that_may_fail_does_not_affect_the_others(
    tmp_path: Path,
) -> None:
    """The failure is counted, and all other files are sent."""
    plugin = plugin_of("cpuBurst: {enabled: true, percent: 50}")
    with connected(plugin, tmp_path) as (runtime, _):
        created = runtime.create_container(pod_at(), container_at())
    assert dict(created.adjust.linux.resources.unified) == FILES
    assert plugin.lifecycle.log.refusals == {("cpuBurst", "error"): 1}


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_a_defect_outside_the_handlers_follows_the_files_policy(
    policy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With `ignore`, the container starts as it would without nriplugin."""
    plugin = plugin_of(f"failurePolicy: {policy}")
    monkeypatch.setattr(plugin.lifecycle, "decide_new", lambda *_, **__: 1 / 0)
    with connected(plugin, tmp_path) as (runtime, _):
        if policy == "fail":
            with pytest.raises(RequestRejected, match="ZeroDivisionError"):
                runtime.create_container(pod_at(), container_at())
        else:
            created = runtime.create_container(pod_at(), container_at())
            assert not created.adjust.HasField("linux")
    assert "ZeroDivisionError" in caplog.text


def test_a_container_that_runs_already_fails_nothing() -> None:
    """An error at Synchronize would end every connection anew."""
    plugin = plugin_of(f"{RESOURCES_FAIL}\nadopt: {{enabled: true}}")
    good, bad = container_at(number=1), container_at(number=2, **IMPOSSIBLE)
    odd = container_at(number=3, limit_bytes=-5)
    updates = plugin.synchronize(*existing([pod_at()], [bad, odd, good]))
    assert updates is not None
    assert [update.container_id for update in updates] == ["c1"]
