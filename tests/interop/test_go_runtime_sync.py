from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.gopeers import until

if TYPE_CHECKING:
    from support.gopeers import CallLog, GoRuntime, Observed, Starter

pytestmark = pytest.mark.needs_go


# Of 1500 bytes each: the last is more than the 4 MiB of a message. The library cuts it
# into pieces since 0.7; before, it sends it all the same.
@pytest.mark.parametrize("size", [0, 100, 2000, 5000])
def test_all_that_exists_arrives_once(
    runtime: GoRuntime, observer: Starter, log: CallLog, size: int
) -> None:
    """However many containers there are, Synchronize hands each over, once."""
    runtime.start(containers=size, container_bytes=1500)
    with observer():
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        (line,) = log.lines("Synchronize")
        containers = [f"c{index:06}" for index in range(1, size + 1)]
        assert line["containers"] == containers
        # Every third container shares the pod of the one before it.
        pods = [f"p{index:06}" for index in range(1, size - size // 3 + 1)]
        assert line["pods"] == pods
        assert runtime.create()


@pytest.mark.parametrize("count", [1, 5])
def test_unsolicited_updates_arrive(
    runtime: GoRuntime, observer: Starter, log: CallLog, count: int
) -> None:
    """An update that a plugin's thread queues reaches the runtime, with a receipt."""
    runtime.start(containers=count)
    with observer("--update-after-sync", str(count)):
        runtime.wait_sync()
        until(lambda: len(log.lines("done")) == count, "all are done")
        assert {line["error"] for line in log.lines("done")} == {None}
        calls = runtime("updates")["updates"]
        ids = [update["containerId"] for (update,) in calls]
        assert ids == [f"c{index:06}" for index in range(1, count + 1)]
        for (update,) in calls:
            assert update["linux"]["resources"]["unified"] == {"cpu.weight": "42"}


def test_a_failed_update_is_reported(
    runtime: GoRuntime, observer: Starter, log: CallLog
) -> None:
    """The code that queued the update gets the runtime's error."""
    runtime("fail_updates", error="no such cgroup")
    runtime.start(containers=3)
    with observer("--update-after-sync", "1"):
        runtime.wait_sync()
        done = log.wait_for("done")
        assert done["code"] == 2
        assert "no such cgroup" in done["error"]
        assert runtime.create()


def test_a_handler_may_queue_an_update(observed: Observed) -> None:
    """An update that a handler queues is sent after its answer: no deadlock."""
    runtime, log, _ = observed
    pod = {"id": "p1", "annotations": {"enqueue": "c000002"}}
    assert runtime.create(pod=pod)
    runtime("event", event="StartContainer", pod=pod)
    until(lambda: len(log.lines("done")) == 2, "both are done")
    assert [line["error"] for line in log.lines("done")] == [None, None]
    calls = runtime("updates")["updates"]
    assert [update["containerId"] for (update,) in calls] == ["c000002", "c000002"]
