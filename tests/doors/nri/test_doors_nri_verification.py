"""Files of containers are compared with the decisions, and drift is counted and named.

test_doors_nri_repair.py has what repair writes directly. Here are the comparison, and
what repair does when another program does not give way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from doors.nri.messages import FILES, GIB, asking, container_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import FACTS, Node, background_of, configure, plugin_on
from support.harness import PATIENCE_S, PATIENT, running, wait_until
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime
from nriplugin.state import verifier as verification
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import EntryState
from nriplugin.state.policy_holds import HeldFile, PolicyState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from cgroup.kernels import Kernel

    from nriplugin.doors.nri.plugin import NodePlugin

REPAIR = "repair: {enabled: true}"


def write(kernel: Kernel, files: Mapping[str, str], cgroup: str = CONTAINER) -> None:
    """Write files of a container as a runtime does."""
    for file, value in files.items():
        kernel.files[f"{cgroup}/{file}"] = value


def started(config: str = "", *, leaving_out: str = "") -> Node:
    """Return a node whose runtime has written all values but one."""
    node = Node(config)
    files = files_of(node.create())
    write(node.kernel, {f: v for f, v in files.items() if f != leaving_out})
    node.start()
    return node


def drift(node: Node) -> tuple[str, ...]:
    return node.plugin.lifecycle.inventory.drift_of("c1")


def texts(plugin: NodePlugin, kind: EventKind) -> list[str]:
    events, _ = plugin.lifecycle.events.since(0)
    return [event.text for event in events if event.kind is kind]


def state(plugin: NodePlugin) -> EntryState:
    entry = plugin.lifecycle.inventory.get("c1")
    assert entry is not None
    return plugin.lifecycle.inventory.state_of(entry)


# The comparison


def test_a_container_that_holds_its_values_has_not_drifted() -> None:
    """It was compared all the same: after its start, and with all others."""
    node = started()
    node.verify()
    counts = node.plugin.lifecycle.verification
    assert counts.checked == 1
    node.verify()
    assert counts.checked == 2
    assert counts.last_at is not None
    assert counts.interval_s == 60
    assert (drift(node), not counts.drift) == ((), True)
    assert state(node.plugin) is EntryState.MANAGED


def test_a_started_container_settles_before_it_is_compared() -> None:
    """At the first look the runtime may still be writing."""
    node = started(leaving_out="memory.max")
    look = node.background.periodic["verify"]
    assert look is not None
    look()
    assert drift(node) == ()
    write(node.kernel, FILES)
    look()
    assert node.plugin.lifecycle.verification.checked == 1
    assert drift(node) == ()


def test_a_request_only_appends() -> None:
    """No job is handed over, because that would wake the background thread."""
    node = started()
    node.update(asking(limit_bytes=2 * GIB))
    node.post_update()
    assert node.background.now == node.background.timed == []
    assert "c1" in node.plugin.lifecycle.pending.to_verify


def test_all_containers_are_compared_beside_many_that_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else on a node where containers always change, others would drift unseen."""
    monkeypatch.setattr(verification, "BATCH", 4)
    node = started()
    node.verify()
    changing = [container_at(number=number) for number in range(2, 32)]
    for app in changing:
        node.create(app)
        node.start(app)
    queue = node.plugin.lifecycle.pending.to_verify
    for number in range(len(changing)):
        if number == 3:
            write(node.kernel, {"cpu.max": "max 100000"})
        queue.extend(app.id for app in changing)
        node.verify()
    assert drift(node) == ("cpu.max",)


def test_drift_is_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """It ends when the file holds its value again, and can come again."""
    node = started()
    node.verify()
    write(node.kernel, {"cpu.max": "max 100000"})
    for _ in range(3):
        node.verify()
    counts = node.plugin.lifecycle.verification
    text = "cpu.max holds 'max 100000', decided was '100000 100000'"
    assert drift(node) == ("cpu.max",)
    assert state(node.plugin) is EntryState.DRIFTED
    assert counts.drift == {"cpu.max": 1}
    assert texts(node.plugin, EventKind.DRIFTED) == [text]
    assert caplog.messages == [f"drift: shop/web/app: {text}"]
    assert node.written() == {}
    write(node.kernel, FILES)
    node.verify()
    assert (drift(node), state(node.plugin)) == ((), EntryState.MANAGED)
    write(node.kernel, {"cpu.max": "max 100000"})
    node.verify()
    assert counts.drift == {"cpu.max": 2}
    assert node.written() == {}  # `repair` is off


def test_a_value_that_the_runtime_never_wrote_is_named_so() -> None:
    """Some runtimes ignore keys that they do not know."""
    node = started(leaving_out="memory.max")
    node.verify()
    assert texts(node.plugin, EventKind.DRIFTED) == [
        f"memory.max holds 'max', decided was '{GIB}' (the runtime did not write it)"
    ]


def test_a_value_that_an_update_did_not_bring_is_named_so() -> None:
    """Some runtimes drop the answer to an update."""
    node = started()
    node.verify()
    node.update(asking(limit_bytes=2 * GIB))
    node.post_update()
    node.verify()
    (text,) = texts(node.plugin, EventKind.DRIFTED)
    assert text.startswith(f"memory.max holds '{GIB}', decided was '{2 * GIB}'")
    assert text.endswith("(the runtime did not write it)")


def test_a_container_is_not_compared_during_an_update() -> None:
    """Neither before its end, nor before the writes that come after it."""
    node = started()
    node.verify()
    node.update(asking(limit_bytes=2 * GIB))
    write(node.kernel, {"memory.max": str(2 * GIB)})
    node.verify()
    assert drift(node) == ()
    node.post_update()
    node.verify()
    assert drift(node) == ()
    assert node.plugin.lifecycle.verification.drift == {}


def test_a_container_without_a_cgroup_has_not_drifted() -> None:
    """It has ended, and the runtime has not said so yet."""
    node = started()
    node.kernel.remove(CONTAINER)
    node.verify()
    assert drift(node) == ()


def with_earlier_container() -> Node:
    """Return a node that knows the values of a container by its annotation alone."""
    answer = Node("").create()
    assert answer is not None
    app = container_at(unified=files_of(answer))
    app.annotations.update(answer.adjust.annotations)
    node = Node("")
    node.synchronize([app])
    return node


def test_containers_of_an_earlier_process_are_compared() -> None:
    """By the record in their annotations; Synchronize has them compared soon."""
    node = with_earlier_container()
    node.verify(0.0)
    assert set(drift(node)) == set(FILES)
    assert state(node.plugin) is EntryState.DRIFTED


def test_at_one_look_only_some_containers_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node with thousands of them is compared in many steps."""
    monkeypatch.setattr(verification, "BATCH", 2)
    node = Node("")
    for number in range(1, 6):
        path = f"{POD}/{number:064x}"
        node.kernel.add(path)
        write(node.kernel, FILES, path)
        node.create(container_at(path, number))
        node.start(container_at(path, number))
    counts = node.plugin.lifecycle.verification
    look = node.background.periodic["verify"]
    assert look is not None
    seen = []
    for _ in range(4):
        look()
        seen.append(counts.checked)
    assert seen == [0, 2, 4, 5]


def test_comparison_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    """Then nothing is known to have drifted."""
    node = started()
    write(node.kernel, {"cpu.max": "max 100000"})
    node.verify()
    assert drift(node) == ("cpu.max",)
    configure(node.plugin, "verify: {enabled: false}")
    node.background.work()
    assert node.background.periodic["verify"] is None
    assert node.plugin.lifecycle.verification.interval_s == 0
    assert drift(node) == ()
    configure(node.plugin, "verify: {enabled: false}\nrepair: {enabled: true}")
    assert node.background.periodic["verify"] is not None


def test_a_container_that_has_ended_leaves_nothing_behind() -> None:
    """Neither as drift nor as attempts to repair it."""
    node = started(REPAIR)
    node.kernel.unwilling.add(f"{CONTAINER}/memory.max")
    write(node.kernel, {"memory.max": "max"})
    node.verify()
    assert node.plugin.lifecycle.verifier.drift_of("c1")
    node.remove()
    node.verify()
    verifier = node.plugin.lifecycle.verifier
    assert not verifier.drift_of("c1")
    kept = (verifier._drift, verifier._compared, verifier.repairs._backoff._attempts)
    assert kept == ({}, {}, {})


# Repair


def test_a_repair_is_counted_and_named() -> None:
    """The drift is over."""
    node = started(REPAIR)
    node.verify()
    write(node.kernel, {"cpu.max": "max 100000"})
    node.verify()
    counts = node.plugin.lifecycle.verification
    assert (counts.drift, counts.repairs) == ({"cpu.max": 1}, {"cpu.max": 1})
    assert not counts.failed_repairs
    assert texts(node.plugin, EventKind.REPAIRED) == [
        "cpu.max is '100000 100000' again, it held 'max 100000'"
    ]
    assert drift(node) == ()


def test_a_repair_that_fails_is_counted() -> None:
    """The file stays drifted."""
    node = started(REPAIR)
    node.kernel.unwilling.add(f"{CONTAINER}/memory.max")
    write(node.kernel, {"memory.max": "max"})
    node.verify()
    counts = node.plugin.lifecycle.verification
    assert (counts.repairs, counts.failed_repairs) == ({}, {"memory.max": 1})
    assert drift(node) == ("memory.max",)
    assert texts(node.plugin, EventKind.REPAIRED) == []


def test_two_agents_do_not_fight_in_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Another program that always writes its own value wins after five attempts."""
    node = started(REPAIR)
    for _ in range(300):
        write(node.kernel, {"memory.max": "max"})
        node.verify(30.0)
    assert [path for path, _ in node.kernel.writes] == [f"{CONTAINER}/memory.max"] * 5
    said = [text for text in caplog.messages if "gives up" in text]
    assert len(said) == 1
    assert "'max' in place of '1073741824'" in said[0]
    assert state(node.plugin) is EntryState.DRIFTED
    node.update(asking(limit_bytes=2 * GIB))
    node.post_update()
    node.verify()
    assert node.of_container("memory.max") == str(2 * GIB)


def test_a_record_alone_is_no_reason_to_write() -> None:
    """Only values that this process has decided about are written again."""
    node = with_earlier_container()
    configure(node.plugin, REPAIR)
    node.verify()
    assert set(drift(node)) == set(FILES)
    assert node.written() == {}


# Repair through the runtime


class Served:
    """A plugin that is connected to an embedded runtime, and a model of the kernel."""

    def __init__(self, node: Node, runtime: EmbeddedRuntime) -> None:
        self.node, self.runtime = node, runtime

    def updates(self, number: int) -> list[dict[str, str]]:
        """Return the files of unsolicited updates, once there are so many."""
        wait_until(lambda: len(self.runtime.updates) >= number)
        return [
            dict(one.linux.resources.unified)
            for updates in self.runtime.updates
            for one in updates
        ]


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """A node with one container, whose memory.max another program has changed."""
    behaviour: Behaviour = getattr(request, "param", PATIENT)
    path = str(tmp_path / "nri.sock")
    node = Node(REPAIR)
    with EmbeddedRuntime(path, behaviour) as runtime, running(node.plugin, path):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        write(node.kernel, files_of(node.create()))
        node.start()
        node.verify()
        write(node.kernel, {"memory.max": "max"})
        yield Served(node, runtime)


def look_once(node: Node) -> None:
    """Let a minute pass, and have the background thread look once."""
    node.now += 60
    look = node.background.periodic["verify"]
    assert look is not None
    look()


def test_the_runtime_is_asked_first(served: Served) -> None:
    """So that what it keeps for the container agrees with the file."""
    node = served.node
    look_once(node)
    assert served.updates(1) == [{"memory.max": str(GIB)}]
    assert node.written() == {}
    counts = node.plugin.lifecycle.verification
    assert (counts.repairs, counts.failed_repairs) == ({}, {})
    write(node.kernel, {"memory.max": str(GIB)})
    node.verify()
    assert counts.repairs == {"memory.max": 1}
    assert texts(node.plugin, EventKind.REPAIRED) == [
        f"memory.max is '{GIB}' again, set by the runtime"
    ]
    assert drift(node) == ()
    assert node.written() == {}


def test_what_the_runtime_does_not_do_is_written(served: Served) -> None:
    """Directly, without waiting for the next attempt."""
    node = served.node
    look_once(node)
    served.updates(1)
    assert node.written() == {}
    node.verify(0.0)
    assert node.of_container("memory.max") == str(GIB)
    counts = node.plugin.lifecycle.verification
    assert counts.failed_repairs == {"memory.max": 1}
    assert counts.repairs == {"memory.max": 1}
    assert len(served.updates(1)) == 1


@pytest.mark.parametrize(
    "served", [replace(PATIENT, version="2.3.7", nri_version="0.12.0")], indirect=True
)
def test_an_older_runtime_is_not_asked(served: Served) -> None:
    """It may hang on an update that it did not ask for."""
    served.node.verify()
    assert served.node.of_container("memory.max") == str(GIB)
    assert served.runtime.updates == []


def test_an_update_that_comes_while_the_runtime_is_asked_has_the_last_word() -> None:
    """The update is marked as overtaken, and its values are written once more."""
    node = started(REPAIR)
    node.plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    done: list[Callable[[object], None]] = []

    def send(updates: object, then: Callable[[object], None]) -> None:
        done.append(then)

    node.plugin.attach(send)  # type: ignore[arg-type]
    node.verify()
    write(node.kernel, {"memory.max": "max"})
    node.verify()
    assert len(done) == 1
    node.update(asking(limit_bytes=2 * GIB))
    node.post_update()
    done[0](None)  # the runtime has written the older value by now
    node.background.work()
    assert node.of_container("memory.max") == str(2 * GIB)
    assert node.plugin.lifecycle.pending.being_written == []


def test_without_direct_writes_the_runtime_alone_is_asked() -> None:
    """`--read-only` forbids direct writes, not answers."""
    kernel = Node("").kernel
    plugin = plugin_on(FACTS, kernel.tree)
    configure(plugin, REPAIR)
    plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    sent: list[object] = []
    plugin.attach(lambda updates, done: sent.append(updates))
    node = Node("")
    node.plugin, node.kernel = plugin, kernel
    write(kernel, files_of(node.create()))
    write(kernel, {"memory.max": "max"})
    node.start()
    look = background_of(plugin).periodic["verify"]
    assert look is not None
    for _ in range(6):
        look()
    assert len(sent) == 1
    assert kernel.writes == []
    assert plugin.lifecycle.verification.failed_repairs == {"memory.max": 1}


def test_a_burst_is_never_left_to_the_runtime() -> None:
    """The kernel takes it only after a quota, and runtimes write in any order."""
    node = started("cpuBurst: {enabled: true, percent: 50}\nrepair: {enabled: true}")
    node.plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    sent: list[object] = []
    node.plugin.attach(lambda updates, done: sent.append(updates))
    node.verify()
    write(node.kernel, {"cpu.max.burst": "0"})
    node.verify()
    assert sent == []
    assert node.of_container("cpu.max.burst") == "50000"


def test_the_runtime_is_not_asked_about_a_container_with_direct_writes() -> None:
    """It would write the older values that it keeps over those."""
    node = started("cpuBurst: {enabled: true, percent: 50}\nrepair: {enabled: true}")
    node.plugin.configure(nri.ConfigureRequest(NRI_version="0.12.5"))
    sent: list[object] = []
    node.plugin.attach(lambda updates, done: sent.append(updates))
    node.verify()
    write(node.kernel, {"cpu.max.burst": "0", "memory.max": "max"})
    node.verify()
    assert sent == []
    assert node.of_container("cpu.max.burst") == "50000"
    assert node.of_container("memory.max") == str(GIB)


def test_a_value_of_a_policy_is_no_drift() -> None:
    """Neither counted nor repaired, as long as the policy holds the file."""
    node = Node("repair: {enabled: true}\nquotaBurst: {enabled: true}")
    node.create()
    node.kernel.files.update({f"{CONTAINER}/{f}": v for f, v in FILES.items()})
    node.start()
    [(container_id, entry)] = node.plugin.lifecycle.inventory.snapshot().items()
    hold = HeldFile("quotaBurst", "1 2", "1 2", FILES["cpu.max"], 0.0, "")
    state = PolicyState(entry)
    state.held = {"cpu.max": hold}
    node.plugin.lifecycle.policies._states = {container_id: state}
    node.kernel.files[f"{CONTAINER}/cpu.max"] = "150000 100000"
    node.verify()
    assert not node.plugin.lifecycle.verification.drift
    assert node.of_container("cpu.max") == "150000 100000"
    state.held = {}
    node.verify()
    assert node.plugin.lifecycle.verification.drift["cpu.max"] == 1
