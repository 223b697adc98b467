"""The plugin's direct writes and their order, on a model of the kernel."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import (
    FILES,
    GIB,
    asking,
    container_at,
    creation,
    existing,
    pod_at,
)
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import (
    FACTS,
    Node,
    configure,
    plugin_on,
    repair_all,
)
from support.harness import PATIENT, connected
from support.trees import CONTAINER, POD, QOS, UID

from nriplugin.errors import JournalError
from nriplugin.state import lifecycle
from nriplugin.state.plan import CurrentPlan
from nriplugin.state.protection_checks import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.doors.nri.plugin import NodePlugin
    from nriplugin.node.direct_writes import DirectWriter

BURST = "cpuBurst: {enabled: true, percent: 50}"
IDLE = "cpuQoS: {enabled: true, level: BE}"
PROTECT = "memoryQoS: {enabled: true, raiseAncestors: true}"

# A runtime of an unknown name may not take cpu.idle, so it is written directly.
UNKNOWN = FACTS._replace(oci_runtime=None)
OF_UNKNOWN = pod_at(runtime_handler="other")


def burst_of(path: str) -> str:
    return f"{path}/cpu.max.burst"


def bursting() -> Node:
    """A node whose pod has a quota from kubelet."""
    node = Node(BURST)
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    return node


def apply(node: Node, quota: str, files: Mapping[str, str]) -> None:
    """Write an answer as runc does: the numbers first, then `unified`."""
    node.kernel.write(f"{CONTAINER}/cpu.max", quota)
    for file, value in files.items():
        node.kernel.write(f"{CONTAINER}/{file}", value)


def files_in(response: nri.UpdateContainerResponse | None) -> dict[str, str]:
    assert response is not None
    (update,) = response.update
    return dict(update.linux.resources.unified)


# Creation


def test_the_pods_burst_is_there_before_the_answer() -> None:
    """The kernel refuses a container's burst above that of its pod."""
    node = bursting()
    node.kernel.remove(CONTAINER)
    answer = node.create()
    assert node.file(burst_of(POD)) == "50000"
    assert files_of(answer)["cpu.max.burst"] == "50000"
    assert list(node.written()) == ["cpu.max.burst"]
    assert node.background.now == []


def test_a_container_that_is_to_be_idle_is_so_before_it_starts() -> None:
    """cpu.idle is written after the runtime's weight, and before any process runs."""
    node = Node(IDLE, UNKNOWN)
    node.kernel.remove(CONTAINER)
    answer = node.create(pod=OF_UNKNOWN)
    assert files_of(answer) == {f: FILES[f] for f in ("cpu.max", "memory.max")}
    node.kernel.add(CONTAINER)
    node.kernel.write(f"{CONTAINER}/cpu.weight", "59")
    # A container that the runtime is still creating is not repaired.
    repair_all(node.plugin)
    assert node.of_container("cpu.idle") == "0"
    node.start()
    assert node.of_container("cpu.idle") == "1"
    node.written()
    node.start()
    assert node.written() == {}


def test_an_update_before_the_start_keeps_the_writes_at_the_start() -> None:
    """At the end of the update the container has no cgroup yet."""
    node = Node(IDLE, UNKNOWN)
    node.kernel.remove(CONTAINER)
    node.create(pod=OF_UNKNOWN)
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.post_update()
    node.background.work()
    node.kernel.add(CONTAINER)
    node.start()
    assert node.of_container("cpu.idle") == "1"


UNDER_SYSTEMD = FACTS._replace(driver="systemd")


@pytest.mark.parametrize(
    ("config", "weight"),
    [
        ("curve: kep", "20"),
        ("cpuQoS: {enabled: true, level: BE, equivalent: weight}", "1"),
        ("", "59"),
    ],
)
def test_the_weight_of_cruns_scope_is_written_directly(
    config: str, weight: str
) -> None:
    """crun gives the scope the weight of the shares, and siblings compare scopes."""
    node = Node(config, UNDER_SYSTEMD)
    assert node.opened == bool(config)
    name = f"kubepods-pod{UID.replace('-', '_')}.slice"
    scope = f"/kubepods.slice/{name}/cri-containerd-{'a' * 64}.scope"
    app = container_at(f"{name}:cri-containerd:{'a' * 64}")
    answer = node.create(app, pod_at(name, runtime_handler="crun"))
    assert files_of(answer)["cpu.weight"] == weight
    node.kernel.add(scope)
    node.kernel.write(f"{scope}/cpu.weight", "59")  # of 512 shares
    node.written()
    node.start(app)
    assert node.file(f"{scope}/cpu.weight") == weight
    assert len(node.written()) == bool(config)


def test_a_curve_that_is_the_nodes_own_takes_no_look_at_pods() -> None:
    """Every runtime would compute the same weights."""
    for facts in (FACTS, UNDER_SYSTEMD):
        assert Node("curve: quadratic", facts).plugin.plan.numbers_only
    assert Node("curve: kep", FACTS).plugin.plan.numbers_only
    assert not Node("curve: kep", UNDER_SYSTEMD).plugin.plan.numbers_only


def test_writes_that_wait_for_a_start_are_dropped_with_the_container() -> None:
    """They must not be done for another container."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.written()
    node.remove()
    node.start()
    node.post_update()
    node.background.work()
    assert node.written() == {}
    assert len(node.plugin.lifecycle.inventory) == 0


def test_a_new_connection_drops_containers_that_ended_meanwhile() -> None:
    """The runtime does not report their removal later."""
    node = Node(IDLE, UNKNOWN)
    gone, there = container_at(f"{POD}/gone", 2), container_at()
    for app in (gone, there):
        node.create(app, OF_UNKNOWN)
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.synchronize([there], [OF_UNKNOWN])
    node.written()
    node.kernel.add(f"{POD}/gone")
    node.start(gone)
    known = node.plugin.lifecycle.inventory.get(there.id)
    node.post_update(there)  # of an update that the last connection took with it
    node.background.work()
    assert node.written() == {}
    assert node.plugin.lifecycle.inventory.get(there.id) is known
    node.start(there)
    assert node.of_container("cpu.idle") == "1"


# Updates


def test_a_burst_is_lowered_before_the_quota() -> None:
    """The kernel refuses a quota below the burst, so the burst is written first."""
    node = bursting()
    apply(node, "100000 100000", files_of(node.create()))
    answer = files_in(node.update(asking(quota_us=20_000)))
    assert node.of_container("cpu.max.burst") == "10000"
    for order in itertools.permutations(answer):
        apply(node, "20000 100000", {file: answer[file] for file in order})
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.max.burst") == "10000"
    assert node.file(burst_of(POD)) == "10000"


def test_a_burst_is_raised_after_the_quota() -> None:
    """It is written directly when the runtime has done the update."""
    node = bursting()
    apply(node, "100000 100000", files_of(node.create()))
    answer = files_in(node.update(asking(quota_us=400_000)))
    assert node.of_container("cpu.max.burst") == "50000"
    for order in itertools.permutations(answer):
        apply(node, "400000 100000", {file: answer[file] for file in order})
    assert node.of_container("cpu.max.burst") == "50000"
    node.post_update()
    assert node.of_container("cpu.max.burst") == "50000"  # the event does not wait
    node.background.work()
    assert node.of_container("cpu.max.burst") == "200000"
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.max.burst"] == "200000"


def test_an_idle_container_is_not_idle_while_its_weight_is_written() -> None:
    """The kernel refuses a weight beside cpu.idle=1, and runtimes write one."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.kernel.write(f"{CONTAINER}/cpu.weight", "100")
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.idle") == "1"


# A container that the runtime itself made idle: it keeps cpu.idle, and no shares.
def made_idle(node: Node) -> nri.Container:
    sent = files_of(node.create())
    apply(node, "100000 100000", sent)
    node.start()
    assert node.of_container("cpu.idle") == "1"
    return container_at(quota_us=100_000, unified=sent)


def test_shares_of_an_idle_container_pass_to_the_runtime() -> None:
    """It keeps them, and kubelet reports what it keeps as the CPU request."""
    node = Node(IDLE)
    app = made_idle(node)
    assert node.update(asking(shares=1024), app) is None
    node.kernel.write(f"{CONTAINER}/cpu.weight", "100")
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.idle") == "1"
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.idle"] == "1"


@pytest.mark.parametrize("started", [True, False])
def test_shares_are_cleared_if_idle_cannot_be_ended(started: bool) -> None:
    """A container that was not started has no cgroup yet."""
    node = Node(IDLE)
    app = made_idle(node)
    if started:
        node.kernel.unwilling.add(f"{CONTAINER}/cpu.idle")
    else:
        node.kernel.remove(CONTAINER)
    answer = node.update(asking(shares=1024), app)
    assert files_in(answer) == {"cpu.idle": "1"}
    assert answer is not None
    (update,) = answer.update
    assert update.linux.resources.cpu.HasField("shares")
    assert update.linux.resources.cpu.shares.value == 0
    node.written()
    node.post_update()
    node.background.work()
    node.background.work_when_time_is_up()
    assert node.written() == {}
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.idle"] == "1"


def test_shares_that_the_runtime_keeps_pass_to_it_in_any_case() -> None:
    """No answer could take them from it."""
    node = Node(IDLE)
    kept = made_idle(node).linux.resources.unified
    node.kernel.unwilling.add(f"{CONTAINER}/cpu.idle")
    app = container_at(shares=512, unified=kept)
    assert node.update(asking(shares=1024), app) is None


def test_a_burst_that_was_raised_later_is_lowered_before_the_quota() -> None:
    """The runtime does not know that burst."""
    node = bursting()
    apply(node, "100000 100000", files_of(node.create()))
    apply(node, "400000 100000", files_in(node.update(asking(quota_us=400_000))))
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.max.burst") == "200000"
    app = container_at(quota_us=400_000, unified={"cpu.max.burst": "50000"})
    answer = files_in(node.update(asking(quota_us=150_000), app))
    apply(node, "150000 100000", answer)
    assert node.of_container("cpu.max.burst") == "75000"


@pytest.mark.parametrize("off", ["", "resources: {enabled: false}"])
@pytest.mark.parametrize("shown", [True, False])
def test_values_of_a_handler_that_is_off_do_not_fail_an_update(
    off: str, shown: bool
) -> None:
    """The kernel would refuse the runtime's writes beside them."""
    node = Node(f"{BURST}\n{IDLE}")
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    sent = files_of(node.create())
    apply(node, "100000 100000", sent)
    configure(node.plugin, off)
    # The runtime keeps the values that it was sent, and has no shares.
    app = container_at(quota_us=100_000, unified=sent if shown else None)
    answer = files_in(node.update(asking(shares=1024, quota_us=20_000), app))
    node.kernel.write(f"{CONTAINER}/cpu.weight", "100")
    kept = {**sent, **answer}
    for order in itertools.permutations(kept):
        apply(node, "20000 100000", {file: kept[file] for file in order})
    assert node.of_container("cpu.idle") == "0"
    assert node.of_container("cpu.weight") == "100"
    assert node.of_container("cpu.max") == "20000 100000"
    assert node.of_container("cpu.max.burst") == "0"
    assert node.file(burst_of(POD)) == "0"


def test_writes_after_an_update_are_dropped_if_the_next_one_has_begun() -> None:
    """They would make the kernel refuse the writes of the second update."""
    node = bursting()
    apply(node, "100000 100000", files_of(node.create()))
    app = container_at(unified={"cpu.max.burst": "50000"})
    node.update(asking(quota_us=400_000), app)
    node.kernel.write(f"{CONTAINER}/cpu.max", "400000 100000")
    node.post_update()
    app = container_at(quota_us=400_000, unified={"cpu.max.burst": "50000"})
    answer = files_in(node.update(asking(quota_us=30_000), app))
    node.background.work()  # what the first update left
    apply(node, "30000 100000", answer)
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.max.burst") == "15000"


def test_an_update_that_fails_is_not_remembered() -> None:
    """The runtime reports no end, so the entry stays."""
    node = bursting()
    node.create()
    node.update(asking(quota_us=400_000))
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.max"] == FILES["cpu.max"]


def test_an_update_that_fails_is_undone() -> None:
    """Writes before the runtime's part are taken back after the time limit."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    assert node.of_container("cpu.idle") == "1"
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    assert node.of_container("cpu.idle") == "0"
    node.background.work_when_time_is_up()
    assert node.of_container("cpu.idle") == "1"


def test_an_update_that_is_only_slow_is_done_again() -> None:
    """Its end may be reported after the time limit."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.background.work_when_time_is_up()
    node.kernel.files[f"{CONTAINER}/cpu.idle"] = "0"  # as a runtime's write does
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.idle") == "1"


def test_an_update_that_ended_is_not_undone() -> None:
    """The time limit has no effect on it."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.post_update()
    node.background.work()
    node.written()
    node.background.work_when_time_is_up()
    assert node.written() == {}


@pytest.mark.parametrize("raising", [True, False])
def test_protection_without_effect_is_logged(
    raising: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The line names the cgroup and the setting; none if ancestors are raised."""
    node = Node(PROTECT.replace("true}", f"{str(raising).lower()}}}"))
    node.kernel.remove(CONTAINER)
    node.create(container_at(oom_score=998))
    node.background.work_when_time_is_up()
    logged = "memory.low of containers has no effect: /kubepods has" in caplog.text
    assert logged is not raising
    assert ("set memoryQoS.raiseAncestors: true" in caplog.text) is logged


def test_protection_is_checked_in_batches_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many containers wake the background thread once."""
    node = Node(PROTECT.replace("true}", "false}"))
    node.kernel.remove(CONTAINER)
    for _ in range(2):
        for _ in range(MAX_BATCH + 5):
            node.create(container_at(oom_score=998))
        assert len(node.background.timed) == 1
        assert len(node.plugin.lifecycle.protection) == MAX_BATCH
        node.background.work_when_time_is_up()
        assert len(node.plugin.lifecycle.protection) == 0
    assert caplog.text.count("has no effect") == 1


def test_a_pod_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its containers are dropped, and sums raised for them are lowered."""
    node = Node(PROTECT)
    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    calls: list[tuple[str, str]] = []

    def noting(name: str, cgroup: str) -> list[Outcome]:
        calls.append((name, cgroup))
        return []

    for name in ("forget", "lower"):
        monkeypatch.setattr(writer, name, partial(noting, name))
    node.create(container_at(oom_score=998))
    node.background.work()
    node.remove()
    node.remove_pod()
    node.background.work()
    assert calls == [("forget", CONTAINER), ("lower", POD), ("forget", POD)]


def test_protection_is_raised_above_before_the_answer() -> None:
    """A container has no more protection than the cgroups above it."""
    node = Node(PROTECT)
    node.kernel.remove(CONTAINER)
    node.create(container_at(oom_score=998))
    low = files_of(node.create(container_at(oom_score=998)))["memory.low"]
    page = 4096
    for cgroup in (POD, QOS, "/kubepods"):
        assert node.file(f"{cgroup}/memory.low") == str(int(low) // page * page)


# CRI-O up to 1.35 drops `unified` from the answer to an update.


def test_files_that_the_runtime_drops_are_written_when_it_is_done(
    tmp_path: Path,
) -> None:
    """Else the runtime's own weight would stay in force after an update."""
    node = Node(BURST)
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    behaviour = replace(PATIENT, name="cri-o", version="1.35.2", nri_version="0.11.0")
    asked = asking(shares=1024, quota_us=40_000, limit_bytes=2 * GIB)
    pod, app = pod_at(), container_at()
    with connected(node.plugin, tmp_path, behaviour) as (runtime, _):
        apply(
            node,
            "100000 100000",
            dict(runtime.create_container(pod, app).adjust.linux.resources.unified),
        )
        runtime.start_container(pod, app)
        node.written()
        updated = runtime.update_container(pod, app, asked)
        assert updated.resources == asked
        before = node.written()
        assert before["cpu.max.burst"] == "20000"  # the pod's, and lowered
        node.background.work()
    at = CONTAINER.removeprefix(f"{POD}/")
    assert node.written() == {
        f"{at}/cpu.weight": "100",
        f"{at}/cpu.max": "40000 100000",
        f"{at}/memory.max": str(2 * GIB),
    }
    assert node.of_container("cpu.max.burst") == "20000"


# Opening direct writes


def test_the_writer_is_opened_when_a_configuration_needs_it() -> None:
    """A node without direct writes needs no journal and no state directory."""
    node = Node("")
    assert node.opened == 0
    assert not node.plugin.plan.facts.writable
    configure(node.plugin, "curve: kep")
    assert node.opened == 0
    for config in (BURST, IDLE, "", "repair: {enabled: true}"):
        configure(node.plugin, config)
        assert node.opened == 1
        assert node.plugin.plan.facts.writable


def test_the_file_says_how_long_a_submitted_value_counts_as_held() -> None:
    """When the writer is opened, and at every reload after that."""
    refresh = "directWrites: {refreshSeconds: %d}"
    node = Node(f"repair: {{enabled: true}}\n{refresh % 7}")
    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    assert writer.refresh_s == 7
    configure(node.plugin, refresh % 0)
    assert writer.refresh_s == 0
    configure(node.plugin, "{}")
    assert writer.refresh_s == 60


@pytest.mark.parametrize(
    "config", ["repair: {enabled: true}", "adopt: {enabled: true}", BURST]
)
def test_each_of_these_configurations_needs_the_writer(config: str) -> None:
    """Repair and adoption write even if no handler does."""
    assert Node(config).opened == 1


class Refused:
    """Opens a DirectWriter, or fails as long as a test wants."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.failing: Exception | None = JournalError("journal /x: Read-only")

    def __call__(self) -> DirectWriter:
        if self.failing is not None:
            raise self.failing
        from nriplugin.cgroup.writing.executor import Executor
        from nriplugin.node.direct_writes import DirectWriter

        return DirectWriter(self.kernel.tree, Executor(self.kernel.tree, refresh_s=0.0))


@pytest.fixture
def refused() -> Refused:
    return Refused(Kernel(2))


@pytest.fixture
def plugin(refused: Refused) -> NodePlugin:
    return plugin_on(FACTS, refused.kernel.tree, open_writer=refused)


def test_without_a_journal_nothing_is_written_and_everything_answered(
    refused: Refused, plugin: NodePlugin, caplog: pytest.LogCaptureFixture
) -> None:
    """Settings that need direct writes are skipped; other files are sent."""
    configure(plugin, f"{BURST}\nrepair: {{enabled: true}}\nadopt: {{enabled: true}}")
    assert caplog.messages == [
        "direct writes are off: journal /x: Read-only",
        "repair: on, but direct writes are off: only a runtime with NRI 0.12.1 or "
        "later can put values right",
    ]
    assert not plugin.plan.facts.writable
    answer = plugin.create_container(creation(pod_at(), container_at()))
    assert files_of(answer) == {**FILES, "cpu.max.burst": "50000"}
    updates = plugin.synchronize(*existing([pod_at()], [container_at()]))
    assert updates is not None
    assert len(updates) == 1
    repair_all(plugin)
    plugin.close()
    assert refused.kernel.writes == []


def test_a_reload_opens_the_journal_once_that_is_possible(
    refused: Refused, plugin: NodePlugin
) -> None:
    """Settings that need direct writes work from then on."""
    configure(plugin, BURST)
    refused.failing = None
    configure(plugin, BURST)
    assert plugin.plan.facts.writable


def test_a_configuration_is_in_force_whole_or_not_at_all(
    refused: Refused, plugin: NodePlugin
) -> None:
    """An error on the way leaves the earlier configuration unchanged."""
    before = plugin.plan
    refused.failing = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        configure(plugin, f"failurePolicy: fail\nadopt: {{enabled: true}}\n{BURST}")
    assert plugin.plan is before
    assert plugin.failure_policy.value == "ignore"


def test_a_new_configuration_never_meets_old_facts(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No decision uses the new configuration while `writable` is still false."""
    refused.failing = None
    seen: list[tuple[bool, bool]] = []

    class Watched(CurrentPlan):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "now":
                plan = self.now
                seen.append((plan.config.base.only_resources, plan.facts.writable))

    monkeypatch.setattr(lifecycle, "CurrentPlan", Watched)
    plugin = plugin_on(FACTS, refused.kernel.tree, open_writer=refused)
    configure(plugin, BURST)
    assert seen == [(True, False), (True, True), (False, True)]


@pytest.mark.parametrize("ended", [True, False])
def test_the_end_stops_the_background_work_and_then_closes_the_writer(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """A job that is under way may still write; while one is, the writer stays open."""
    node = Node(BURST)
    order: list[str] = []

    def stop() -> bool:
        order.append("background")
        return ended

    monkeypatch.setattr(node.background, "stop", stop)
    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    monkeypatch.setattr(writer, "close", lambda: order.append("writer"))
    node.plugin.close()
    assert order == (["background", "writer"] if ended else ["background"])


def test_a_write_that_the_kernel_refuses_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The runtime gets its answer all the same."""
    node = bursting()
    node.kernel.unwilling.add(burst_of(POD))
    assert files_of(node.create())["cpu.max.burst"] == "50000"
    assert burst_of(POD) in caplog.text


def test_a_path_that_is_no_pods_is_not_written_to() -> None:
    """Direct writes go below kubepods only, whatever paths a request has."""
    node = Node(f"{BURST}\nrepair: {{enabled: true}}\nadopt: {{enabled: true}}")
    for path in ("/system.slice/x", "/kubepods/../x", "nonsense", ""):
        pod, app = pod_at(path.rpartition("/")[0]), container_at(path)
        node.create(app, pod)
        node.start(app)
        node.update(asking(quota_us=20_000), app, pod)
        node.post_update(app)
        node.synchronize([app], [pod])
        node.background.work()
        repair_all(node.plugin)
        node.remove(app)
    assert node.kernel.writes == []
