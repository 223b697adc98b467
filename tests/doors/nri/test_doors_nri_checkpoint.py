"""Memory requests from kubelet's checkpoint: at creation, at updates, and without."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import GIB, container_at, creation, existing, pod_at, unified_of
from doors.nri.nodes import FACTS, Node, background_of, configure, plugin_on
from doors.nri.runtimes import ModelRuntime
from support.checkpoints import checkpoint_text, replace
from support.harness import wait_until
from support.live_daemon import LiveNode, resources
from support.trees import UID

from nriplugin.state.allocated_requests import MAX_AT_ONCE
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.doors.nri.plugin import NodePlugin
    from nriplugin.state.corrections import Correction

MIB = 1 << 20
CONFIG = "memoryQoS: {enabled: true}\n"
NUMBERS: dict[str, Any] = {"shares": 512, "quota_us": 100_000, "limit_bytes": 256 * MIB}
# kubelet's score of 128 MiB on FACTS' 64 GiB, and of everything down to 0.
SCORE = 999
# By hand: 128 MiB + 9/10 of the other 128 MiB, down to whole pages.
HIGH = "255012864"


def allocated(plugin: NodePlugin | None, mib: int | None) -> None:
    """Publish a checkpoint with the request of the container `app`."""
    assert plugin is not None
    requests = {} if mib is None else {UID: {"app": mib * MIB}}
    plugin.lifecycle.requests.publish(requests)


class Kubelet(ModelRuntime):
    """A runtime with a kubelet that writes checkpoints."""

    def __init__(self, state: Path, mib: int | None, **more: Any) -> None:
        super().__init__(str(state), oom_score=SCORE, **more)
        self.mib = mib

    def connect(self, config: str | None = None) -> None:
        super().connect(config)
        assert self.plugin is not None
        self.plugin.lifecycle.requests.watch = lambda path: None
        configure(self.plugin, self.config)
        self.plugin.synchronize(*self.listed())
        self.allocate(self.mib)

    def listed(self) -> Any:
        there = [self.shown()] if self.spec.numbers else []
        return existing([self.pod], there)

    def allocate(self, mib: int | None) -> None:
        """Write a checkpoint, and let the background thread work."""
        self.mib = mib
        allocated(self.plugin, mib)
        self._settle()

    def low(self) -> int:
        return int(self.files()["memory.low"])


def reasons(runtime: Kubelet) -> dict[str, str]:
    """Return the sources of the container's values, by file."""
    assert runtime.plugin is not None
    (entry,) = runtime.plugin.lifecycle.inventory.snapshot().values()
    assert entry.decision is not None
    pairs = zip(entry.decision.files, entry.decision.reasons, strict=True)
    return {file: why.source for file, why in pairs}


def record(sent: list[nri.ContainerUpdate], update: nri.ContainerUpdate) -> bool:
    """Be a runtime that takes updates."""
    sent.append(update)
    return True


def test_a_creation_has_the_exact_request() -> None:
    """128Mi of 64Gi is 134217728, where the estimate is nothing."""
    plugin = plugin_on(FACTS)
    configure(plugin, CONFIG)
    app = container_at(oom_score=SCORE, **NUMBERS)
    without = unified_of(plugin.create_container(creation(pod_at(), app)))
    assert "memory.low" not in without
    allocated(plugin, 128)
    files = unified_of(plugin.create_container(creation(pod_at(), app)))
    assert (files["memory.low"], files["memory.high"]) == ("134217728", HIGH)
    # The cache of decisions tells requests apart.
    allocated(plugin, 64)
    files = unified_of(plugin.create_container(creation(pod_at(), app)))
    assert files["memory.low"] == str(64 * MIB)
    allocated(plugin, None)
    again = unified_of(plugin.create_container(creation(pod_at(), app)))
    assert again == without


def test_the_annotation_wins_over_the_checkpoint() -> None:
    """A user who states a request knows why."""
    plugin = plugin_on(FACTS)
    configure(plugin, CONFIG)
    allocated(plugin, 128)
    pod = pod_at(annotations={"memory-request.cgroup2.nri.io": "32Mi"})
    files = unified_of(plugin.create_container(creation(pod, container_at(**NUMBERS))))
    assert files["memory.low"] == str(32 * MIB)


def test_another_container_and_another_pod_have_no_request() -> None:
    """They are estimated as without a checkpoint."""
    plugin = plugin_on(FACTS)
    configure(plugin, CONFIG)
    app = container_at(oom_score=SCORE, **NUMBERS)
    without = unified_of(plugin.create_container(creation(pod_at(), app)))
    allocated(plugin, 128)
    app.name = "init"
    assert unified_of(plugin.create_container(creation(pod_at(), app))) == without
    app.name = "app"
    pod = pod_at(uid="other", id="p2")
    assert unified_of(plugin.create_container(creation(pod, app))) == without


def test_without_a_handler_that_needs_it_nothing_is_watched() -> None:
    """kubelet's file is opened only for a reason, and a reload may end that."""
    plugin = plugin_on(FACTS)
    paths: list[str | None] = []
    plugin.lifecycle.requests.watch = paths.append
    for config in (
        "cpuBurst: {enabled: true}",
        CONFIG,
        CONFIG + "kubeletCheckpoint: {enabled: false}",
        "rules: [{match: {namespace: a}, memoryQoSLevel: {enabled: true}}]\n"
        "kubeletCheckpoint: {path: /k/state}",
    ):
        configure(plugin, config)
    default = "/var/lib/kubelet/allocated_pods_state"
    assert paths == [None, default, None, "/k/state"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_creation_before_the_checkpoint_was_read_is_corrected(
    tmp_path: Path, read_only: bool
) -> None:
    """By a direct write, or by the runtime where nriplugin may not write."""
    runtime = Kubelet(tmp_path, None, read_only=read_only)
    runtime.connect(CONFIG)
    sent: list[nri.ContainerUpdate] = []
    assert runtime.plugin is not None
    enqueue = partial(record, sent)
    runtime.plugin._adoption._enqueue_update = enqueue
    runtime.create(NUMBERS)
    estimate = runtime.low()
    runtime.allocate(128)
    if read_only:
        (update,) = sent
        assert dict(update.linux.resources.unified) == {
            "memory.low": "134217728",
            "memory.high": HIGH,
        }
    else:
        assert runtime.low() == 128 * MIB != estimate
        assert runtime.files()["memory.high"] == HIGH
    assert "kubelet's checkpoint" in reasons(runtime)["memory.low"]
    assert reasons(runtime)["cpu.weight"] == "the container's resources"
    runtime.allocate(128)
    assert len(sent) == read_only


def test_a_resize_of_the_request_alone_is_followed(tmp_path: Path) -> None:
    """kubelet calls no runtime for it, and the runtime keeps older values."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    assert runtime.low() == 128 * MIB
    runtime.allocate(64)
    assert runtime.low() == 64 * MIB
    # An update of the CPU makes the runtime write again what it keeps.
    runtime.update({"shares": 1024})
    assert runtime.low() == 64 * MIB
    assert runtime.plugin is not None
    events, _ = runtime.plugin.lifecycle.events.since(0)
    texts = [event.text for event in events if event.kind is EventKind.UPDATED]
    assert "memory request 67108864 from kubelet's checkpoint" in texts


def test_a_door_that_cannot_ask_the_runtime_writes_itself(tmp_path: Path) -> None:
    """As the CRI proxy, which sets no way of its own; the record is stored, too."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    assert runtime.plugin is not None
    lifecycle = runtime.plugin.lifecycle
    lifecycle.requests.correct = lifecycle.requests._write
    runtime.allocate(64)
    assert runtime.low() == 64 * MIB
    assert lifecycle.records is not None
    assert lifecycle.records.load()["c1"].files["memory.low"] == str(64 * MIB)


def test_a_resize_with_an_update_has_the_new_request(tmp_path: Path) -> None:
    """The checkpoint is written first; the request is never above the limit."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    runtime.allocate(512)  # of 1 GiB, but the limit is 256 MiB as yet
    assert runtime.low() == 256 * MIB
    runtime.update({"limit_bytes": GIB})
    assert runtime.low() == 512 * MIB


def test_a_request_that_is_gone_ends_its_values(tmp_path: Path) -> None:
    """A request of 0 protects nothing."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    runtime.allocate(0)
    assert runtime.low() == 0


def test_without_the_file_values_stay_until_the_next_update(tmp_path: Path) -> None:
    """The update is then decided with the estimate."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    runtime.allocate(None)
    assert runtime.low() == 128 * MIB
    runtime.update({"limit_bytes": GIB})
    assert runtime.low() == 0


def test_a_resize_while_the_plugin_was_away_is_followed(tmp_path: Path) -> None:
    """Values that it has set before follow; those that it lacks are for `adopt`."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG)
    runtime.create(NUMBERS)
    runtime.disconnect()
    runtime.mib = 64
    runtime.connect()
    assert runtime.low() == 64 * MIB
    bare = Kubelet(tmp_path / "bare", 128)
    bare.connect("{}")
    bare.create(NUMBERS)
    bare.disconnect()
    bare.connect(CONFIG)
    assert (bare.low(), bare.files()["memory.high"]) == (0, "max")


def test_in_shadow_mode_the_request_is_shown(tmp_path: Path) -> None:
    """Nothing is written, and the entry shows the value of the new request."""
    runtime = Kubelet(tmp_path, 128)
    runtime.connect(CONFIG + "shadow: true\n")
    runtime.create(NUMBERS)
    runtime.allocate(64)
    assert runtime.low() == 0
    assert runtime.plugin is not None
    (entry,) = runtime.plugin.lifecycle.inventory.snapshot().values()
    assert entry.shadow["memory.low"] == str(64 * MIB)


def test_a_container_that_has_not_started_is_corrected_later() -> None:
    """Its cgroup may not exist yet."""
    node = Node(CONFIG)
    node.plugin.lifecycle.requests.watch = lambda path: None
    configure(node.plugin, CONFIG)
    app = container_at(oom_score=SCORE, **NUMBERS)
    node.plugin.create_container(creation(pod_at(), app))
    allocated(node.plugin, 128)
    background = background_of(node.plugin)
    background.work_when_time_is_up()
    (entry,) = node.plugin.lifecycle.inventory.snapshot().values()
    assert "memory.low" not in entry.files
    assert len(background.timed) == 1
    node.plugin.lifecycle.start(app.id)
    background.work()
    background.work_when_time_is_up()
    (entry,) = node.plugin.lifecycle.inventory.snapshot().values()
    assert entry.files["memory.low"] == "134217728"
    assert background.timed == []


def test_many_containers_are_corrected_a_few_at_a_time() -> None:
    """After an upgrade all of a node's may differ."""
    plugin = plugin_on(FACTS)
    plugin.lifecycle.requests.watch = lambda path: None
    configure(plugin, CONFIG)
    corrected: list[Correction] = []

    def correct(one: Correction) -> None:
        corrected.append(one)
        assert plugin.lifecycle.inventory.change(one.was, one.become)

    plugin.lifecycle.requests.correct = correct
    for number in range(2 * MAX_AT_ONCE + 1):
        app = container_at(number=number, oom_score=SCORE, **NUMBERS)
        plugin.create_container(creation(pod_at(), app))
        plugin.lifecycle.start(app.id)
    allocated(plugin, 128)
    background, counts = background_of(plugin), []
    while background.timed:
        background.work_when_time_is_up()
        counts.append(len(corrected))
    assert counts == [MAX_AT_ONCE, 2 * MAX_AT_ONCE, 2 * MAX_AT_ONCE + 1]


def test_a_daemon_follows_the_file(tmp_path: Path) -> None:
    """From creation over a resize to `why`; a broken file is said once in the log."""
    file = tmp_path / "allocated_pods_state"
    uid = "7b0f0a2e-5d6c-4c1f-9c39-000000000001"
    replace(file, checkpoint_text({uid: {"app": "128Mi"}}))
    config = f"{CONFIG}kubeletCheckpoint: {{path: {file}}}\n"
    with LiveNode(tmp_path, config) as node:
        made = node.create("shop", "web", "app", resources(512, 100_000, 256))
        low = made.directory / "memory.low"
        assert low.read_text() == "134217728\n"
        why = node.command("why", "shop/web").stdout
        assert "kubelet's checkpoint" in why
        replace(file, checkpoint_text({uid: {"app": "96Mi"}}))
        wait_until(lambda: low.read_text().strip() == str(96 * MIB))
        replace(file, b"broken")
        log = node.directory / "daemon.log"
        wait_until(lambda: "cannot be used: JSON is malformed" in log.read_text())
        file.unlink()
        wait_until(lambda: "there is none: memory" in log.read_text())
        other = node.create("shop", "late", "app", resources(512, 100_000, 256))
        assert (other.directory / "memory.low").read_text() != "134217728\n"
    assert log.read_text().count("cannot be used") == 1
