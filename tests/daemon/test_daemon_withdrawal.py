"""`withdraw`: direct writes go back, decisions end, and no resize is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    seen,
    updating,
)
from doors.nri.nodes import FACTS, background_of, configure, plugin_on
from doors.nri.runtimes import ModelRuntime
from support.trees import CONTAINER, POD

from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.convert.result import Rule
from nriplugin.daemon.process import DaemonProcess
from nriplugin.daemon.restoring import restore
from nriplugin.daemon.withdrawal import at_resize, withdraw
from nriplugin.engine.decision import Level, When, Why, Write
from nriplugin.errors import JournalError
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.nri.plugin import NodePlugin

BURST = "cpuBurst: {enabled: true, percent: 50}"
BURST_FILE = "cpu.max.burst"
WHY = Why("cpuBurst", Rule((), "a test"), "a test")
LATE = Write(BURST_FILE, "7000", Level.CONTAINER, When.AFTER, False, WHY)
REPAIR = f"{BURST}\nadopt: {{enabled: true}}\nrepair: {{enabled: true}}"


def process_of(plugin: NodePlugin) -> DaemonProcess:
    """Return the daemon around a plugin."""
    background: Any = background_of(plugin)
    return DaemonProcess("nri", plugin.lifecycle, background)


class Bursting:
    """A plugin that writes bursts to a model of a kernel, with a journal."""

    def __init__(self, directory: Path) -> None:
        self.kernel = Kernel(2)
        self.kernel.files[f"{POD}/cpu.max"] = "400000 100000"
        self.journal = Journal(str(directory))
        tree = self.kernel.tree
        # A burst does not go through the door of this node: see FACTS.
        self.plugin = plugin_on(
            FACTS,
            tree,
            open_writer=lambda: DirectWriter(
                *(tree, Executor(tree, journal=self.journal, refresh_s=0.0)),
                self.journal,
            ),
        )
        self.process = process_of(self.plugin)
        configure(self.plugin, BURST)

    def create(self) -> dict[str, str]:
        answer = self.plugin.create_container(creation(pod_at(), container_at()))
        if answer is None:
            return {}
        self.plugin.start_container(b"", seen(view.Container, container_at()))
        background_of(self.plugin).work()
        return dict(answer.adjust.linux.resources.unified)

    def update(self, shares: int) -> dict[str, str]:
        app = container_at(unified=FILES)
        request = updating(pod_at(), app, asking(shares=shares))
        answer = self.plugin.update_container(request)
        if answer is None:
            return {}
        self.plugin.post_update_container(b"", seen(view.Container, app))
        background_of(self.plugin).work()
        return dict(answer.update[0].linux.resources.unified)

    def bursts(self) -> list[str]:
        paths = (POD, CONTAINER)
        return [self.kernel.files[f"{path}/{BURST_FILE}"] for path in paths]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Bursting]:
    node = Bursting(tmp_path / "state")
    yield node
    node.journal.close()


def test_direct_writes_go_back_and_decisions_end(node: Bursting) -> None:
    """A container that is created afterwards gets no values."""
    node.create()
    held = node.bursts()
    assert held[0] != "0"
    answer = withdraw(node.process)
    assert node.bursts()[0] == "0"
    restored = {f"{one.cgroup}/{one.file}": one for one in answer.files}
    assert restored[f"{POD}/{BURST_FILE}"].status == "restored"
    assert restored[f"{POD}/{BURST_FILE}"].value == "0"
    assert node.process.withdrawn
    assert node.create() == {}
    assert node.process.lifecycle.events.since(0)[0][-1].kind is EventKind.WITHDRAWN


def test_a_dry_run_changes_nothing(node: Bursting) -> None:
    """The answer says what would be done."""
    node.create()
    held = node.bursts()
    answer = withdraw(node.process, dry_run=True)
    assert {one.status for one in answer.files} == {"would be restored"}
    assert node.bursts() == held
    assert not node.process.withdrawn
    assert node.create() != {}
    assert withdraw(node.process).carrying == answer.carrying


def test_the_containers_that_keep_keys_are_named(node: Bursting) -> None:
    """Only with the values that the runtime keeps; those of direct writes are gone."""
    sent = node.create()
    (one,) = withdraw(node.process).carrying
    assert (one.id, one.namespace, one.pod, one.container) == (
        "c1",
        "shop",
        "web",
        "app",
    )
    assert dict(one.files) == sent
    assert "cpu.max=100000 100000" in one.at_resize


def test_a_resize_is_followed_although_nothing_is_decided(node: Bursting) -> None:
    """Without an answer the runtime would write the old weight over kubelet's."""
    node.create()
    withdraw(node.process)
    before = node.bursts()
    assert node.update(1024)["cpu.weight"] == "100"
    assert node.bursts() == before


def test_a_reload_does_not_start_decisions_again(node: Bursting) -> None:
    """Neither do `adopt` and `repair` in it."""
    node.create()
    withdraw(node.process)
    configure(node.plugin, REPAIR)
    assert node.create() == {}
    before = node.bursts()
    background = background_of(node.plugin)
    assert background.periodic["verify"] is None
    there = existing([pod_at()], [container_at(unified=FILES)])
    assert not node.plugin.synchronize(*there)
    background.work()
    background.work_later()
    assert node.bursts() == before


def test_writes_that_were_on_their_way_are_not_done(node: Bursting) -> None:
    """A container whose start was awaited is not written to after the withdrawal."""
    node.plugin.create_container(creation(pod_at(), container_at()))
    node.process.lifecycle.pending.wait_for_start("c1", [LATE])
    withdraw(node.process)
    node.plugin.start_container(b"", seen(view.Container, container_at()))
    background_of(node.plugin).work()
    assert node.bursts() == ["0", "0"]


def withdrawing_after(
    node: Bursting, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Have another thread withdraw right after the next decision of this kind."""
    lifecycle = node.process.lifecycle
    decide = getattr(lifecycle, name)

    def decide_and_withdraw(*given: Any, **options: Any) -> Any:
        decided = decide(*given, **options)
        monkeypatch.setattr(lifecycle, name, decide)
        withdraw(node.process)
        return decided

    monkeypatch.setattr(lifecycle, name, decide_and_withdraw)


def test_a_creation_in_flight_writes_nothing(
    node: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its decision was made before the withdrawal, its direct writes come after."""
    withdrawing_after(node, monkeypatch, "decide_new")
    assert node.create() != {}
    assert node.bursts() == ["0", "0"]
    assert not withdraw(node.process, dry_run=True).files


def resize(node: Bursting, quota_us: int) -> None:
    """Have a container resized, without the background thread's part of it."""
    app = container_at(unified=FILES)
    request = updating(pod_at(), app, asking(quota_us=quota_us))
    assert node.plugin.update_container(request) is not None
    node.plugin.post_update_container(b"", seen(view.Container, app))


@pytest.mark.parametrize("quota_us", [50_000, 200_000])
def test_an_update_in_flight_writes_nothing(
    node: Bursting, monkeypatch: pytest.MonkeyPatch, quota_us: int
) -> None:
    """A smaller burst comes before the runtime's part, a larger one after it."""
    node.create()
    withdrawing_after(node, monkeypatch, "decide_update")
    resize(node, quota_us)
    background_of(node.plugin).work()
    assert node.bursts() == ["0", "0"]


def test_the_rest_of_an_update_is_not_written(
    node: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime has done its part; the rest comes as soon as values are back."""
    node.create()
    lifecycle = node.process.lifecycle
    entry, updates = lifecycle.inventory.get("c1"), lifecycle.pending.updates
    writer = lifecycle.pending.writer
    assert entry is not None
    assert writer is not None
    update = updates.begin(entry, entry._replace(numbers=""), [LATE], entry)
    assert update is not None
    rest = updates.finish(update)
    assert rest is not None
    put_back = writer.put_back

    def put_back_and_work(*, dry_run: bool) -> Any:
        found = put_back(dry_run=dry_run)
        rest()
        return found

    monkeypatch.setattr(writer, "put_back", put_back_and_work)
    withdraw(node.process)
    assert node.bursts() == ["0", "0"]


def test_adoptions_that_wait_are_not_done(node: Bursting) -> None:
    """Those of the answer to Synchronize are in the background thread's queue."""
    configure(node.plugin, f"{BURST}\nadopt: {{enabled: true}}")
    node.plugin.synchronize(*existing([pod_at()], [container_at()]))
    background = background_of(node.plugin)
    assert background.now
    withdraw(node.process)
    background.work()
    background.work_when_time_is_up()
    assert node.bursts() == ["0", "0"]


def test_values_that_cannot_be_put_back_are_no_silent_success(
    node: Bursting, tmp_path: Path
) -> None:
    """A process that must not write says that an earlier one's values stay, and why."""
    node.create()
    held = node.bursts()
    plugin = plugin_on(FACTS, node.kernel.tree)
    process = process_of(plugin)
    process.unwritable_because = "--read-only was given"
    process.state_directory = str(tmp_path / "state")
    with pytest.raises(JournalError, match=r"stay as they are.*--read-only was given"):
        restore(process, dry_run=False)
    with pytest.raises(JournalError, match=r"^\d+ direct writes"):
        withdraw(process, dry_run=True)
    assert not process.withdrawn
    with pytest.raises(JournalError, match="nothing is decided any more, but"):
        withdraw(process)
    assert process.withdrawn
    assert process.lifecycle.plans.withdrawn
    assert node.bursts() == held
    withdraw(node.process)
    assert not withdraw(process).files  # now the journal has nothing


# Against a model of a runtime

MEMORY = "memoryQoS: {enabled: true}"
NUMBERS = {"shares": 512, "quota_us": 100_000, "limit_bytes": GIB}
LARGER = {"shares": 2048, "quota_us": 200_000, "limit_bytes": 2 * GIB}
SMALLER = {"shares": 128, "quota_us": 20_000, "limit_bytes": GIB // 2}
IDLE = "cpuQoS: {enabled: true, level: BE}"
CONFIGS = ["", MEMORY, BURST, IDLE, "resources: {send: different}"]
CRIO = {"runtime": "cri-o", "version": "1.35.0"}


def backwards(files: Any) -> list[str]:
    """Return files in another order than the sorted one."""
    return sorted(files, reverse=True)


def withdrawn(state: Path, config: str, **settings: Any) -> ModelRuntime:
    """Return a runtime with a container from before the withdrawal of its plugin."""
    runtime = ModelRuntime(str(state), **settings)
    runtime.connect(config)
    runtime.create(NUMBERS)
    assert runtime.plugin is not None
    withdraw(process_of(runtime.plugin))
    return runtime


@pytest.mark.parametrize("resized", [LARGER, SMALLER], ids=["larger", "smaller"])
@pytest.mark.parametrize("order", [sorted, backwards])
@pytest.mark.parametrize(
    ("settings", "config"),
    [
        *(({}, config) for config in CONFIGS),
        *(({"shows_unified": False}, config) for config in CONFIGS),
        # It writes burst and idle again, also after a reload without these handlers.
        *((CRIO, config) for config in CONFIGS if config not in (BURST, IDLE)),
    ],
)
def test_a_resize_ends_as_without_nriplugin(
    tmp_path: Path,
    config: str,
    settings: dict[str, Any],
    order: Any,
    resized: dict[str, int],
) -> None:
    """Whatever the runtime keeps, the container gets what kubelet asks for.

    A runtime writes `unified` in any order, and the kernel accepts a quota and a burst
    in one order only.
    """
    settings = {**settings, "order": order}
    runtime = withdrawn(tmp_path / "state", config, **settings)
    runtime.update(resized)
    other = ModelRuntime(str(tmp_path / "other"), **settings)
    other.create(NUMBERS)
    other.update(resized)
    assert runtime.files() == other.files()


def test_what_is_said_about_a_resize_is_true(tmp_path: Path) -> None:
    """When the plugin is gone, the runtime writes its old values again."""
    runtime = withdrawn(tmp_path / "state", MEMORY)
    assert runtime.plugin is not None
    (one,) = withdraw(process_of(runtime.plugin)).carrying
    kept = dict(one.files)
    assert set(FILES) <= kept.keys()
    runtime.disconnect()
    runtime.update(LARGER)
    held = runtime.files()
    for file, value in kept.items():
        assert same(file, value, held[file])  # the kernel rounds bytes to pages
        assert f"{file}={value}" in one.at_resize


def test_a_container_without_core_values_can_be_resized() -> None:
    """The sentence says so, and which value stays."""
    assert at_resize({"memory.high": "4096"}) == (
        "a resize takes effect, but memory.high=4096 stays as it is, whatever the new "
        "numbers are"
    )
    assert at_resize({"cpu.max": "5000 10000", "memory.high": "4096"}) == (
        "the runtime writes cpu.max=5000 10000 again, over kubelet's new numbers, so a "
        "resize of these has no effect; memory.high=4096 stays as it is, whatever the "
        "new numbers are"
    )
    assert at_resize({"memory.high": "4096", "memory.low": "0"}) == (
        "a resize takes effect, but memory.high=4096, memory.low=0 stay as they are, "
        "whatever the new numbers are"
    )
