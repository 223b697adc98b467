"""Containers that were created without nriplugin, and how Synchronize corrects them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import (
    FILES,
    GIB,
    asking,
    container_at,
    existing,
    pod_at,
    seen,
    updating,
)
from doors.nri.nodes import FACTS, ByHand, Node, background_of, configure, plugin_on
from support.harness import PATIENCE_S, PATIENT, running, wait_until
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nriplugin.doors.nri.plugin import NodePlugin

BURST = "cpuBurst: {enabled: true, percent: 50}"
ADOPT = f"{BURST}\nadopt: {{enabled: true}}"
FEW = f"{BURST}\nadopt: {{enabled: true, atOnce: 2, perSecond: 7}}"
ALL = {**FILES, "cpu.max.burst": "50000"}


def containers(count: int) -> list[nri.Container]:
    """Return containers of the pod that have no values from nriplugin."""
    return [container_at(path_of(number), number) for number in range(1, count + 1)]


def path_of(number: int) -> str:
    return CONTAINER if number == 1 else f"{POD}/{number:064x}"


def node_with(config: str, count: int = 1) -> Node:
    """Return a node on which a runtime has created containers without nriplugin."""
    node = Node(config)
    for number in range(1, count + 1):
        path = path_of(number)
        node.kernel.add(path)
        # The values of the conversion, except for the weight.
        node.kernel.files[f"{path}/cpu.max"] = FILES["cpu.max"]
        node.kernel.files[f"{path}/memory.max"] = FILES["memory.max"]
    node.kernel.files[f"{POD}/cpu.max"] = "400000 100000"
    return node


def adopted(node: Node, count: int) -> list[bool]:
    return [
        node.file(f"{path_of(number)}/cpu.max.burst") == "50000"
        for number in range(1, count + 1)
    ]


# By direct writes


def test_only_missing_values_are_written() -> None:
    """A file that holds its value is not written; the pod gets its sum."""
    node = node_with(ADOPT)
    assert not node.synchronize(containers(1))
    assert node.written() == {}  # the runtime waits for the answer
    node.background.work()
    at = CONTAINER.removeprefix(f"{POD}/")
    assert node.written() == {
        f"{at}/cpu.weight": "59",
        f"{at}/cpu.max.burst": "50000",
        "cpu.max.burst": "50000",
    }
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files == ALL


def test_some_containers_are_adopted_at_once_and_the_others_paced() -> None:
    """A thousand containers at once would be too much load."""
    node = node_with(FEW, 5)
    node.synchronize(containers(5))
    node.background.work()
    assert adopted(node, 5) == [True, True, False, False, False]
    assert node.background.pace == 7
    node.background.work_later()
    assert adopted(node, 5) == [True] * 5


def test_without_adopt_nothing_is_written() -> None:
    """The entries still say which values nriplugin set."""
    node = node_with(BURST)
    node.synchronize(containers(1))
    node.background.work()
    assert node.background.later == []
    assert node.written() == {}
    assert len(node.plugin.lifecycle.inventory) == 1


def test_explicit_values_are_left_alone() -> None:
    """Values that others have set before are not replaced."""
    node = node_with(f"{ADOPT}\nmemoryQoS: {{enabled: true}}")
    explicit = {"memory.high": "4096", "memory.low": "8192"}
    node.synchronize([container_at(unified=explicit, oom_score=998)])
    node.background.work()
    assert node.of_container("memory.high") == "max"
    assert node.of_container("memory.low") == "0"
    assert node.of_container("cpu.max.burst") == "50000"


THROTTLE = "memoryQoSLevel: {enabled: true, level: BE}"


@pytest.mark.parametrize("adopt", [True, False])
def test_a_memory_high_below_the_use_is_logged(
    adopt: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It slows a running container down at once, so adoption warns about it."""
    node = node_with(f"{BURST}\n{THROTTLE}\nadopt: {{enabled: {str(adopt).lower()}}}")
    node.kernel.files[f"{CONTAINER}/memory.current"] = str(GIB)
    node.synchronize(containers(1))
    logged = [line for line in caplog.messages if "memory.high" in line]
    assert len(logged) == adopt
    assert all(line.startswith("shop/web/app: memory.high") for line in logged)
    node.background.work()
    high = node.of_container("memory.high")
    assert (high == "max") is not adopt
    caplog.clear()
    node.synchronize(containers(1))  # which has it by now
    assert "memory.high" not in caplog.text


def test_containers_that_vanish_meanwhile_are_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With or without a RemoveContainer, and without a log line."""
    node = node_with(FEW, 4)
    node.synchronize(containers(4))
    node.kernel.remove(path_of(2))
    node.remove(container_at(path_of(3), 3))
    node.written()
    caplog.clear()
    node.background.work()
    node.background.work_later()
    assert caplog.messages == []
    assert adopted(node, 1) == [True]
    assert node.file(f"{path_of(3)}/cpu.max.burst") == "0"
    assert node.file(f"{path_of(4)}/cpu.max.burst") == "50000"
    assert node.plugin.lifecycle.inventory.get("c3") is None


def test_an_update_meanwhile_is_not_undone() -> None:
    """A correction that was made from an older entry is dropped."""
    node = node_with(FEW, 3)
    node.synchronize(containers(3))
    app, path = container_at(path_of(3), 3), path_of(3)
    node.update(asking(shares=1024, quota_us=300_000, limit_bytes=GIB), app)
    node.written()
    node.background.work_later()  # the runtime is at it
    assert path.removeprefix(f"{POD}/") not in str(node.written())
    node.post_update(app)
    node.background.work_later()
    node.background.work()
    assert node.file(f"{path}/cpu.weight") == "100"  # untouched: it was 100
    known = node.plugin.lifecycle.inventory.get("c3")
    assert known is not None
    assert known.files["cpu.max"] == "300000 100000"


class Interrupted(Kernel):
    """A kernel that calls a function during a write."""

    def __init__(self) -> None:
        super().__init__(2)
        self.meanwhile: list[tuple[str, object]] = []

    def write(self, path: str, value: str) -> None:
        while self.meanwhile and path.endswith(self.meanwhile[0][0]):
            happens = self.meanwhile.pop(0)[1]
            assert callable(happens)
            happens()
        super().write(path, value)


def test_an_update_in_the_middle_of_adoption_has_the_last_word() -> None:
    """The background thread was about to write values from before the update."""
    kernel = Interrupted()
    node = Node(
        "memoryQoS: {enabled: true, protection: false}\nadopt: {enabled: true}",
        kernel=kernel,
    )
    app = container_at(oom_score=998)
    node.synchronize([app])

    def update() -> None:
        answer = node.update(asking(limit_bytes=4 * GIB), app)
        assert answer is not None
        for file, value in answer.update[0].linux.resources.unified.items():
            kernel.write(f"{CONTAINER}/{file}", value)
        node.post_update(app)

    kernel.meanwhile = [("memory.high", update)]
    node.background.work()
    assert kernel.meanwhile == []
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["memory.max"] == str(4 * GIB)
    assert int(known.files["memory.high"]) > GIB
    node.background.work()
    for file in ("memory.high", "memory.max"):
        assert node.of_container(file) == known.files[file]


def created() -> nri.Container:
    """Return a container that has not started."""
    app = container_at()
    app.state = nri.CONTAINER_CREATED
    return app


@pytest.mark.parametrize("first", ["start", "work"])
def test_a_container_that_has_not_started_is_adopted_at_its_start(first: str) -> None:
    """Until then the runtime has made no cgroup, or writes its own values there."""
    node = node_with(ADOPT)
    node.synchronize([created()])
    if first == "work":
        node.background.work()
        assert node.written() == {}
    node.start()
    node.background.work()
    assert node.of_container("cpu.max.burst") == "50000"
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert (known.state, known.started) == (EntryState.ADOPTED, True)
    assert known.files == ALL


def test_a_start_in_the_middle_of_a_correction_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The background thread replaces the entry while the request thread looks at it."""
    node = node_with(ADOPT)
    node.synchronize([created()])
    lifecycle = node.plugin.lifecycle
    pending, inventory = lifecycle.pending, lifecycle.inventory

    def replaced(*_: object) -> None:
        entry = inventory.get("c1")
        assert entry is not None
        assert inventory.change(entry, entry._replace(numbers="others"))

    monkeypatch.setattr(pending, "start", replaced)  # in the middle of the start
    node.start()
    known = inventory.get("c1")
    assert known is not None
    assert (known.started, known.numbers) == (True, "others")


@pytest.mark.parametrize("end", ["container", "pod", "connection"])
def test_a_container_that_never_starts_leaves_nothing(end: str) -> None:
    """Its correction is forgotten with it, and with the connection."""
    node = node_with(ADOPT)
    node.synchronize([created()])
    node.background.work()
    if end == "container":
        node.remove()
    elif end == "pod":
        node.remove_pod()
    else:
        node.plugin.disconnected("gone")
    assert node.plugin.lifecycle.corrections.started("c1") is None
    assert node.written() == {}


def test_a_new_connection_drops_the_corrections_of_the_last_one() -> None:
    """Its Synchronize makes new corrections."""
    node = node_with(FEW, 5)
    node.synchronize(containers(5))
    node.plugin.disconnected("gone")
    assert node.background.later == []
    node.synchronize(containers(1))
    adopting = [job for job in node.background.now if "Adopting.write" in repr(job)]
    assert len(adopting) == 3
    node.background.work()
    assert adopted(node, 2) == [True, False]


# Through the runtime


def read_only(config: str) -> tuple[NodePlugin, ByHand]:
    """Return a plugin without direct writes, with a current runtime, and its jobs."""
    plugin = plugin_on(FACTS)
    plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    background = background_of(plugin)
    configure(plugin, config)
    return plugin, background


def served(
    tmp_path: Path, apps: Sequence[nri.Container], behaviour: Behaviour
) -> list[list[nri.ContainerUpdate]]:
    """Return the updates that the runtime got when all jobs were done."""
    plugin, background = read_only(FEW)
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, behaviour) as runtime:
        runtime.pods["p1"] = pod_at()
        runtime.containers = {app.id: app for app in apps}
        with running(plugin, path):
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            expected = len(runtime.updates) + len(background.later)
            assert background.pace == 7
            background.work_later()
            wait_until(lambda: len(runtime.updates) == expected)
    return runtime.updates


def test_the_answer_to_synchronize_carries_the_first_ones(tmp_path: Path) -> None:
    """From NRI 0.12.1 on, the others follow as updates of their own."""
    updates = served(tmp_path, containers(4), PATIENT)
    assert [[u.container_id for u in one] for one in updates] == [
        ["c1", "c2"],
        ["c3"],
        ["c4"],
    ]
    for update, *_ in updates:
        assert update.ignore_failure
        resources = update.linux.resources
        assert dict(resources.unified) == ALL
        resources.ClearField("unified")
        assert resources.ByteSize() == 0


@pytest.mark.parametrize(
    ("version", "nri_version"),
    [("2.2.1", "0.11.0"), ("2.3.7", "0.12.0"), ("2.4.0", "0.12.1-unknown")],
)
def test_an_older_runtime_gets_no_unsolicited_updates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: str, nri_version: str
) -> None:
    """It can hang on those, so the other containers stay, and the log says so."""
    older = replace(PATIENT, version=version, nri_version=nri_version)
    updates = served(tmp_path, containers(4), older)
    assert [[u.container_id for u in one] for one in updates] == [["c1", "c2"]]
    assert "2 containers are not corrected" in caplog.text


def test_what_a_container_has_already_is_not_sent_again() -> None:
    """A value that the container's spec has is left out of the update."""
    plugin, _ = read_only(ADOPT)
    some = container_at(number=1, unified=FILES)
    everything = container_at(number=2, unified=ALL)
    updates = plugin.synchronize(*existing([pod_at()], [some, everything]))
    assert updates is not None
    (update,) = updates
    assert update.container_id == "c1"
    assert dict(update.linux.resources.unified) == {"cpu.max.burst": "50000"}


def test_what_the_kernel_holds_already_is_not_sent_either() -> None:
    """The tree is read for that, although direct writes are off."""
    node = node_with("")
    plugin = plugin_on(FACTS, node.kernel.tree)
    configure(plugin, ADOPT)
    updates = plugin.synchronize(*existing([pod_at()], containers(1)))
    assert updates is not None
    assert set(updates[0].linux.resources.unified) == {"cpu.weight", "cpu.max.burst"}


def test_a_runtime_is_not_asked_to_make_a_running_container_idle() -> None:
    """That would need cleared shares; other missing values are sent."""
    plugin, _ = read_only(f"{ADOPT}\ncpuQoS: {{enabled: true, level: BE}}")
    updates = plugin.synchronize(*existing([pod_at()], [container_at()]))
    assert updates is not None
    assert "cpu.idle" not in updates[0].linux.resources.unified
    assert "cpu.weight" not in updates[0].linux.resources.unified
    assert "memory.max" in updates[0].linux.resources.unified


def test_a_container_that_has_started_meanwhile_is_sent_late() -> None:
    """Its entry is another one since, and its values are still missing."""
    plugin, background = read_only(FEW)
    apps = containers(3)
    for app in apps:
        app.state = nri.CONTAINER_CREATED
    plugin.synchronize(*existing([pod_at()], apps))
    plugin.start_container(b"", seen(view.Container, apps[2]))
    background.work_later()
    states = [entry.state for entry in plugin.lifecycle.inventory.snapshot().values()]
    assert states == [EntryState.ADOPTED] * 3


@pytest.mark.parametrize("gone", [True, False])
def test_a_container_that_is_gone_or_updated_is_not_sent_late(gone: bool) -> None:
    """A paced correction is dropped if the entry has changed by then."""
    plugin, background = read_only(FEW)
    sent: list[str] = []
    plugin.attach(lambda updates, done: sent.append(updates[0].container_id))
    plugin.synchronize(*existing([pod_at()], containers(4)))
    app = container_at(path_of(3), 3)
    if gone:
        plugin.remove_container(b"", existing([], [app])[1][0])
    else:
        plugin.update_container(updating(pod_at(), app, asking(shares=1024)))
    background.work_later()
    assert sent == ["c4"]
    assert (plugin.lifecycle.inventory.get("c3") is None) is gone


def test_an_inactive_plugin_replaces_its_inventory_too() -> None:
    """Synchronize lists everything that exists, under any configuration."""
    plugin, _ = read_only(ADOPT)
    plugin.synchronize(*existing([pod_at()], containers(2)))
    assert len(plugin.lifecycle.inventory) == 2
    configure(plugin, "resources: {enabled: false}")
    plugin.synchronize([], [])
    assert len(plugin.lifecycle.inventory) == 0
