"""What the plugin writes by itself, and when, on a model of a kernel."""

from __future__ import annotations

import itertools
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
from doors.nri.nodes import FACTS, Node, background_of, configure, plugin_on
from support.harness import connected
from support.trees import CONTAINER, POD, QOS, UID

from nriplugin.errors import JournalError
from nriplugin.nri.testing.runtime import Behaviour
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

# Of a runtime that is not known, it is not known that it takes cpu.idle: so we write.
UNKNOWN = FACTS._replace(oci_runtime=None)
OF_UNKNOWN = pod_at(runtime_handler="other")


def burst_of(path: str) -> str:
    return f"{path}/cpu.max.burst"


def bursting() -> Node:
    """A node whose pod has a quota, as kubelet sets it."""
    node = Node(BURST)
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    return node


def apply(node: Node, quota: str, files: Mapping[str, str]) -> None:
    """Do as runc does with an answer: the numbers first, then `unified`."""
    node.kernel.write(f"{CONTAINER}/cpu.max", quota)
    for file, value in files.items():
        node.kernel.write(f"{CONTAINER}/{file}", value)


def files_in(response: nri.UpdateContainerResponse | None) -> dict[str, str]:
    assert response is not None
    (update,) = response.update
    return dict(update.linux.resources.unified)


# Creation


def test_the_pods_burst_is_there_before_the_answer() -> None:
    """The kernel takes none for a container whose pod has less."""
    node = bursting()
    node.kernel.remove(CONTAINER)
    answer = node.create()
    assert node.file(burst_of(POD)) == "50000"
    assert files_of(answer)["cpu.max.burst"] == "50000"
    assert list(node.written()) == ["cpu.max.burst"]
    assert node.background.now == []


def test_a_container_that_is_to_be_idle_is_so_before_it_starts() -> None:
    """Not before its runtime has written a weight, and nobody has to wait for it."""
    node = Node(IDLE, UNKNOWN)
    node.kernel.remove(CONTAINER)
    answer = node.create(pod=OF_UNKNOWN)
    assert files_of(answer) == {f: FILES[f] for f in ("cpu.max", "memory.max")}
    node.kernel.add(CONTAINER)
    node.kernel.write(f"{CONTAINER}/cpu.weight", "59")
    # A container that the runtime is still creating is not repaired.
    node.plugin.lifecycle.corrections.repair()
    assert node.of_container("cpu.idle") == "0"
    node.start()
    assert node.of_container("cpu.idle") == "1"
    node.written()
    node.start()
    assert node.written() == {}


def test_an_update_before_the_start_does_not_make_the_start_forget() -> None:
    """There is no cgroup yet that the end of the update could write to."""
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
def test_crun_with_systemd_has_its_scope_weighed(config: str, weight: str) -> None:
    """It gives the scope the weight of the shares, and that is what siblings see."""
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
    """There is nothing that any runtime would do otherwise."""
    for facts in (FACTS, UNDER_SYSTEMD):
        assert Node("curve: quadratic", facts).plugin.plan.numbers_only
    assert Node("curve: kep", FACTS).plugin.plan.numbers_only
    assert not Node("curve: kep", UNDER_SYSTEMD).plugin.plan.numbers_only


def test_what_waits_for_a_container_is_dropped_with_it() -> None:
    """The next container with that ID is another one."""
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


def test_a_new_connection_forgets_what_has_gone_meanwhile() -> None:
    """Nobody will ever tell that a container was removed in between."""
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
    """The kernel refuses a quota below the burst, so we are first."""
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
    """By us, when the runtime says that it is done."""
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
    """The kernel takes no weight beside idle, and runtimes write one."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    node.kernel.write(f"{CONTAINER}/cpu.weight", "100")
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.idle") == "1"


def test_a_burst_that_was_raised_later_is_lowered_before_the_quota() -> None:
    """The runtime does not know of it, but we do."""
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
def test_what_a_handler_left_behind_is_not_in_an_updates_way(
    off: str, shown: bool
) -> None:
    """It was switched off since; the kernel would refuse the runtime's writes."""
    node = Node(f"{BURST}\n{IDLE}")
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    sent = files_of(node.create())
    apply(node, "100000 100000", sent)
    configure(node.plugin, off)
    # The runtime keeps what it was sent, and has no shares.
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


def test_the_end_of_an_update_does_not_meet_the_next_one() -> None:
    """What the first leaves to be done would make the kernel refuse the second."""
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
    """The runtime says nothing, so what we know stays what it was."""
    node = bursting()
    node.create()
    node.update(asking(quota_us=400_000))
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.max"] == FILES["cpu.max"]


def test_an_update_that_fails_is_undone() -> None:
    """What was written for it before the runtime's turn is put back after a while."""
    node = Node(IDLE, UNKNOWN)
    node.create(pod=OF_UNKNOWN)
    node.start()
    assert node.of_container("cpu.idle") == "1"
    node.update(asking(shares=1024), pod=OF_UNKNOWN)
    assert node.of_container("cpu.idle") == "0"
    node.background.work_when_time_is_up()
    assert node.of_container("cpu.idle") == "1"


def test_an_update_that_is_only_slow_is_done_again() -> None:
    """Its end may come after we gave it up."""
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
    """The time being up means nothing then."""
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
def test_protection_without_effect_is_told(
    raising: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the cgroup that has too little and the setting; not if we raised it."""
    node = Node(PROTECT.replace("true}", f"{str(raising).lower()}}}"))
    node.kernel.remove(CONTAINER)
    node.create(container_at(oom_score=998))
    node.background.work_when_time_is_up()
    told = "memory.low of containers has no effect: /kubepods has" in caplog.text
    assert told is not raising
    assert ("set memoryQoS.raiseAncestors: true" in caplog.text) is told


def test_protection_is_looked_at_for_a_few_containers_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many that come at once wake the background once, and say nothing new."""
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
    """With its containers, and what was raised for them is lowered."""
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
    """A container has no more of it than its pod and all above."""
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
    """Else the weight of an update would follow another curve, or none."""
    node = Node(BURST)
    node.kernel.files[f"{POD}/cpu.max"] = "200000 100000"
    behaviour = Behaviour(name="cri-o", version="1.35.2", nri_version="0.11.0")
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


def test_the_writer_is_opened_when_a_configuration_has_a_use_for_them() -> None:
    """A node where nothing is written needs no journal, and no directory for it."""
    node = Node("")
    assert node.opened == 0
    assert not node.plugin.plan.facts.writable
    configure(node.plugin, "curve: kep")
    assert node.opened == 0
    for config in (BURST, IDLE, "", "repair: {enabled: true}"):
        configure(node.plugin, config)
        assert node.opened == 1
        assert node.plugin.plan.facts.writable


@pytest.mark.parametrize(
    "config", ["repair: {enabled: true}", "adopt: {enabled: true}", BURST]
)
def test_any_of_these_has_a_use_for_the_writer(config: str) -> None:
    """Repair and adoption write even where no handler does."""
    assert Node(config).opened == 1


class Refused:
    """A DirectWriter that cannot be had, until it can."""

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
    """What only we could do is left alone, the rest goes through the door."""
    configure(plugin, f"{BURST}\nrepair: {{enabled: true}}\nadopt: {{enabled: true}}")
    assert caplog.messages == [
        "direct writes are off: journal /x: Read-only",
        "repair: on, but direct writes are off: nothing is repaired",
    ]
    assert not plugin.plan.facts.writable
    assert background_of(plugin).again is None
    answer = plugin.create_container(creation(pod_at(), container_at()))
    assert files_of(answer) == {**FILES, "cpu.max.burst": "50000"}
    updates = plugin.synchronize(*existing([pod_at()], [container_at()]))
    assert updates is not None
    assert len(updates) == 1
    plugin.lifecycle.corrections.repair()
    plugin.close()
    assert refused.kernel.writes == []


def test_a_journal_that_is_back_is_taken_at_the_next_reload(
    refused: Refused, plugin: NodePlugin
) -> None:
    """And what it makes possible is possible from then on."""
    configure(plugin, BURST)
    refused.failing = None
    configure(plugin, BURST)
    assert plugin.plan.facts.writable


def test_a_configuration_is_in_force_whole_or_not_at_all(
    refused: Refused, plugin: NodePlugin
) -> None:
    """Whatever goes wrong on the way, it goes wrong before anything has changed."""
    before = plugin.plan
    refused.failing = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        configure(plugin, f"failurePolicy: fail\nadopt: {{enabled: true}}\n{BURST}")
    assert plugin.plan is before
    assert plugin.failure_policy.value == "ignore"


def test_a_new_configuration_never_meets_old_facts(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No container is decided about as if we could not write, when we can."""
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


def test_the_end_stops_the_background_work_and_then_closes_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that is under way may still write."""
    node = Node(BURST)
    order: list[str] = []
    monkeypatch.setattr(node.background, "stop", lambda: order.append("background"))
    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    monkeypatch.setattr(writer, "close", lambda: order.append("writer"))
    node.plugin.close()
    assert order == ["background", "writer"]


def test_a_write_that_the_kernel_refuses_is_said_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The answer is given all the same."""
    node = bursting()
    node.kernel.unwilling.add(burst_of(POD))
    assert files_of(node.create())["cpu.max.burst"] == "50000"
    assert burst_of(POD) in caplog.text


def test_a_path_that_is_no_pods_is_not_written_to() -> None:
    """Whatever a request says, we write below kubepods only."""
    node = Node(f"{BURST}\nrepair: {{enabled: true}}\nadopt: {{enabled: true}}")
    for path in ("/system.slice/x", "/kubepods/../x", "nonsense", ""):
        pod, app = pod_at(path.rpartition("/")[0]), container_at(path)
        node.create(app, pod)
        node.start(app)
        node.update(asking(quota_us=20_000), app, pod)
        node.post_update(app)
        node.synchronize([app], [pod])
        node.background.work()
        node.plugin.lifecycle.corrections.repair()
        node.remove(app)
    assert node.kernel.writes == []
