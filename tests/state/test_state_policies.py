"""The loop over the policies, with quota burst on a model of a kernel."""

from __future__ import annotations

from errno import EMFILE
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import PolicyNode
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import restore
from nriplugin.cgroup.types.registry import Type
from nriplugin.engine.policy_settings import ContainerPolicies
from nriplugin.errors import JournalError
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.engine.policies import PolicyAnswer
    from nriplugin.state.pending_updates import PendingUpdate

ON = "quotaBurst: {enabled: true, percent: 150, periodSeconds: null}"
OFF = "{}"

QUOTA = {
    1: ("60000", "72000", "75000"),
    2: ("60000 100000", "72000 100000", "75000 100000"),
}
OWN = {1: "50000", 2: "50000 100000"}


def throttled(node: PolicyNode, intervals: int = 1) -> None:
    for _ in range(intervals):
        node.runs(0.5, throttled=90)
        node.look()


@pytest.mark.parametrize("version", [1, 2])
def test_golden_trace_of_a_burst(version: int) -> None:
    """Up: the pod before the container. Down: the container before the pod."""
    node = PolicyNode(ON, version)
    for value in QUOTA[version]:
        throttled(node)
        assert node.writes() == [("pod", value), ("container", value)]
    throttled(node)
    assert node.writes() == []  # the ceiling
    for value in ("60000", "50000"):
        node.runs(0.1)
        node.look()
        text = value if version == 1 else f"{value} 100000"
        assert node.writes() == [("container", text), ("pod", text)]
    node.runs(0.1)
    node.look()
    assert node.writes() == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("rounded", [False, True])
def test_a_quota_that_systemd_would_round(version: int, *, rounded: bool) -> None:
    """The runtime writes kubelet's own number, and systemd rounds it at a reload."""
    node = PolicyNode(ON, version, quota="12300 100000")
    node.plans.learn({"driver": "systemd"})
    if rounded:
        node.set_quota(CONTAINER, "13000 100000")
    throttled(node, 2)
    assert node.quota() == 17712
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (12300, 50000)
    assert not node.policies.counts.actions["quotaBurst", "left"]


@pytest.mark.parametrize("version", [1, 2])
def test_switched_off_every_value_goes_back(version: int) -> None:
    """By a reload, at once; and by the end of the process."""
    node = PolicyNode(ON, version)
    throttled(node, 2)
    assert node.quota() == 72000
    node.writes()
    node.configure(OFF)
    node.background.work()
    own = OWN[version]
    assert node.writes() == [("container", own), ("pod", own)]
    again = PolicyNode(ON, version)
    throttled(again, 2)
    again.writes()
    again.policies.end()
    assert again.writes() == [("container", own), ("pod", own)]


def test_a_pod_without_a_quota_is_left_alone() -> None:
    """The container alone is raised."""
    node = PolicyNode(ON, pod_quota="max 100000")
    throttled(node)
    assert node.writes() == [("container", "60000 100000")]


def test_a_resize_during_a_burst_wins() -> None:
    """The new number is the new original, and the burst begins anew from it."""
    node = PolicyNode(ON)
    throttled(node, 3)
    assert node.quota() == 75000
    # kubelet raises the pod, the runtime writes the container, and then we are told.
    node.set_quota(POD, "80000 100000")
    node.set_quota(CONTAINER, "80000 100000")
    throttled(node)
    assert node.quota() == 80000  # not known yet, so nobody touches it
    node.know(CONTAINER, "80000 100000")
    throttled(node)
    assert (node.quota(), node.quota(POD)) == (80000, 80000)
    throttled(node)
    assert (node.quota(), node.quota(POD)) == (96000, 96000)
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (80000, 80000)


def test_a_resize_to_the_very_value_of_the_burst_wins() -> None:
    """The files do not change then, but what they go back to does."""
    node = PolicyNode(ON)
    throttled(node, 3)
    node.set_quota(POD, "75000 100000")
    node.set_quota(CONTAINER, "75000 100000")
    node.know(CONTAINER, "75000 100000")
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (75000, 75000)


def test_a_resize_to_the_very_value_wins_after_another_one() -> None:
    """Whose value of the pod was seen in the file."""
    node = PolicyNode(ON)
    throttled(node)
    for quota in ("80000 100000", "96000 100000"):
        node.set_quota(POD, quota)
        node.set_quota(CONTAINER, quota)
        node.know(CONTAINER, quota)
        throttled(node)
        throttled(node, 1 if quota.startswith("8") else 0)
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (96000, 96000)


@pytest.mark.parametrize("by", ["the next process", "restore"])
def test_after_a_crash_a_resize_to_the_very_value_has_won(
    tmp_path: Path, by: str
) -> None:
    """Also where a policy has raised the resized values before the crash."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 3)
        node.set_quota(POD, "75000 100000")
        node.set_quota(CONTAINER, "75000 100000")
        node.know(CONTAINER, "75000 100000")
        throttled(node, 3)
        assert (node.quota(), node.quota(POD)) == (108000, 108000)
    with Journal(str(tmp_path)) as journal:
        if by == "restore":
            restore(node.tree, journal)
        else:
            PolicyNode(
                *(OFF, 2),
                quota="75000 100000",
                kernel=node.killed(),
                journal=journal,
                state=tmp_path,
            )
    assert (node.quota(), node.quota(POD)) == (75000, 75000)


@pytest.mark.parametrize("version", [1, 2])
def test_a_resize_to_the_very_value_after_a_crash_wins(
    tmp_path: Path, version: int
) -> None:
    """Before the next process starts: the files show nothing of it."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(
            ON, version, pod_quota="80000 100000", journal=journal, state=tmp_path
        )
        throttled(node, 3)
        assert (node.quota(), node.quota(POD)) == (75000, 105000)
    for number in range(2):  # after the second process, restore would say the same
        with Journal(str(tmp_path)) as journal:
            after = PolicyNode(
                *(OFF, version),
                quota="75000 100000",
                kernel=node.killed(),
                journal=journal,
                state=tmp_path,
            )
            if number:
                restore(after.tree, journal)
        assert (after.quota(), after.quota(POD)) == (75000, 105000)


def test_a_burst_between_the_resizes_of_a_pod_and_of_its_container() -> None:
    """What it found in the pod's file is kubelet's new value, and counts once."""
    node = PolicyNode(ON, pod_quota="100000 100000")
    node.set_quota(POD, "150000 100000")
    throttled(node)
    assert (node.quota(), node.quota(POD)) == (60000, 160000)
    node.set_quota(CONTAINER, "100000 100000")
    node.know(CONTAINER, "100000 100000")
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (100000, 150000)


def test_after_a_crash_the_next_process_puts_values_back(tmp_path: Path) -> None:
    """By the record and the journal, before it asks any policy."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)
    assert node.quota() == 72000
    with Journal(str(tmp_path)) as journal:
        after = PolicyNode(OFF, kernel=node.killed(), journal=journal, state=tmp_path)
    assert (after.quota(), after.quota(POD)) == (50000, 50000)


@pytest.mark.parametrize("config", [ON, OFF])
def test_what_cannot_be_put_back_after_a_crash_is_tried_again(
    tmp_path: Path, config: str
) -> None:
    """Until then it stays in the record, and is not taken for the pod's own value."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)
    kernel = node.killed()
    kernel.unwilling.add(f"{POD}/cpu.max")
    with Journal(str(tmp_path)) as journal:
        after = PolicyNode(config, kernel=kernel, journal=journal, state=tmp_path)
        throttled(after, 2)
        assert (after.quota(), after.quota(POD)) == (50000, 72000)
        assert f"{POD}/cpu.max" in (tmp_path / "policies.json").read_text()
        kernel.unwilling.clear()
        if config == OFF:
            after.background.work_when_time_is_up()
        else:
            after.look()
        assert (after.quota(), after.quota(POD)) == (50000, 50000)
        assert not (tmp_path / "policies.json").exists()
        throttled(after, 2)
        assert after.quota() == after.quota(POD) == (50000 if config == OFF else 72000)


@pytest.mark.parametrize("later", ["writer", "journal"])
def test_a_process_that_cannot_put_values_back_yet_does_so_later(
    tmp_path: Path,
    later: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its direct writes are opened by a later reload, or its journal was busy."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)

    def fail(*_: object, **__: object) -> None:
        raise JournalError("the journal is busy")

    with Journal(str(tmp_path)) as journal:
        with monkeypatch.context() as busy:
            if later == "journal":
                busy.setattr(DirectWriter, "put_back", fail)
            after = PolicyNode(
                ON, kernel=node.killed(), journal=journal, state=tmp_path, silent=True
            )
            writer = after.pending.writer
            if later == "writer":
                after.pending.writer = None
            after.plans.set_silent(False)
            throttled(after, 2)
        assert after.quota(POD) == 72000
        after.pending.writer = writer
        after.look()
        assert (after.quota(), after.quota(POD)) == (50000, 50000)
    said = "direct writes are off" if later == "writer" else "the journal is busy"
    assert said in caplog.text


def test_a_process_without_a_configuration_tries_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier process with one has left does not wait for a reload."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)
    kernel = node.killed()
    kernel.unwilling.add(f"{POD}/cpu.max")
    monkeypatch.setattr(PolicyNode, "configure", lambda *_: None)
    with Journal(str(tmp_path)) as journal:
        after = PolicyNode(OFF, kernel=kernel, journal=journal, state=tmp_path)
        assert (after.quota(), after.quota(POD)) == (50000, 72000)
        kernel.unwilling.clear()
        after.background.work_when_time_is_up()
        assert (after.quota(), after.quota(POD)) == (50000, 50000)


def test_a_part_that_was_written_goes_back_when_the_rest_was_refused() -> None:
    """As with crun under systemd, whose inner cgroup has the same quota."""
    node = PolicyNode(ON)
    inner = f"{CONTAINER}/container"
    node.kernel.add(inner)
    node.set_quota(inner, "50000 100000")
    node.kernel.unwilling.add(f"{inner}/cpu.max")
    throttled(node, 2)
    assert (node.quota(), node.quota(inner)) == (72000, 50000)
    assert node.policies.counts.actions["quotaBurst", "failed"] == 2
    assert not node.policies.counts.actions["quotaBurst", "left"]
    node.kernel.unwilling.clear()
    node.runs(0.72)
    node.look()
    assert (node.quota(), node.quota(inner)) == (72000, 72000)
    node.configure(OFF)
    node.background.work()
    assert {node.quota(one) for one in (POD, CONTAINER, inner)} == {50000}


def test_a_silent_process_leaves_the_values_of_the_other_one_alone(
    tmp_path: Path,
) -> None:
    """Until it has to answer itself."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)
        silent = PolicyNode(
            ON, kernel=node.kernel, journal=journal, state=tmp_path, silent=True
        )
        throttled(silent, 2)
        assert node.quota() == 72000
        node.killed()
        silent.plans.set_silent(False)
        silent.look()
        assert (node.quota(), node.quota(POD)) == (50000, 50000)
        assert not (tmp_path / "policies.json").exists()


def test_of_two_processes_only_one_acts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each would take the other's value of the pod for the pod's own, and add to it.

    The other one begins when nothing is held any more.
    """
    with Journal(str(tmp_path)) as one, Journal(str(tmp_path)) as other:
        node = PolicyNode(ON, journal=one, state=tmp_path)
        throttled(node)
        beside = PolicyNode(ON, kernel=node.kernel, journal=other, state=tmp_path)
        for _ in range(3):
            throttled(node)
            beside.look()
            beside.start()
        assert (node.quota(), node.quota(POD)) == (75000, 75000)
        assert (
            "another process of nriplugin acts" in beside.policies.counts.waits_because
        )
        assert len([one for one in caplog.messages if "another process" in one]) == 1
        node.configure(OFF)
        node.background.work()
        assert (node.quota(), node.quota(POD)) == (50000, 50000)
        throttled(beside, 2)
        assert (node.quota(), node.quota(POD)) == (60000, 60000)
        assert not beside.policies.counts.waits_because
        node.configure(ON)
        node.background.work()
        throttled(node)
        beside.policies.end()
        assert (node.quota(), node.quota(POD)) == (50000, 50000)
        throttled(node, 2)
        assert node.quota() == 60000


@pytest.mark.parametrize("config", [ON, OFF])
def test_a_record_that_cannot_be_read_just_now_is_not_lost(
    tmp_path: Path,
    config: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the process has too many open files: nothing is raised before."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)

    def fail(*_: object, **__: object) -> None:
        raise OSError(EMFILE, "Too many open files")

    with Journal(str(tmp_path)) as journal:
        with monkeypatch.context() as full:
            full.setattr("nriplugin.node.policy_writes.open", fail, raising=False)
            after = PolicyNode(
                config, kernel=node.killed(), journal=journal, state=tmp_path
            )
            throttled(after, 2)
        assert (after.quota(), after.quota(POD)) == (72000, 72000)
        assert "policies.json: cannot be read" in caplog.text
        if config == OFF:
            after.background.work_when_time_is_up()
        else:
            after.look()
        assert (after.quota(), after.quota(POD)) == (50000, 50000)
        assert not (tmp_path / "policies.json").exists()


@pytest.mark.parametrize("end", ["off", "calm"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_resize_that_begins_while_the_value_goes_back_is_not_lost(
    version: int, end: str
) -> None:
    """The runtime writes between the read and the write of the background thread."""
    node = PolicyNode(ON, version, pod_quota="200000 100000")
    throttled(node)
    kernel, entry = node.kernel, node.inventory.get(CONTAINER.rpartition("/")[2])
    assert entry is not None
    write, updates = kernel.write, node.pending.updates
    begun: list[PendingUpdate | None] = []

    def write_late(path: str, value: str) -> None:
        if not begun and path == node.tree.path(Type.CPU_QUOTA, CONTAINER):
            become = entry._replace(numbers="1024,80000,100000,")
            begun.append(updates.begin(entry, become, (), entry))
            node.set_quota(CONTAINER, "80000 100000")
        write(path, value)

    kernel.write = write_late  # type: ignore[method-assign]
    if end == "off":
        node.configure(OFF)
        node.background.work()
    else:
        node.runs(0.1)
        node.look()
    assert node.quota() == 50000
    [update] = begun
    assert update is not None
    updates.finish(update)
    node.background.work_when_time_is_up()
    node.runs(0.1)
    node.look()
    assert node.quota() == 80000
    if end == "calm":  # and the policy goes on from there
        throttled(node)
        assert node.quota() == 96000


def test_what_another_program_wrote_stays() -> None:
    """A value that is neither the original nor ours is not overwritten."""
    node = PolicyNode(ON)
    throttled(node, 2)
    node.set_quota(CONTAINER, "33000 100000")
    throttled(node, 2)
    assert node.quota() == 33000
    assert node.policies.counts.actions["quotaBurst", "left"]
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (33000, 50000)


@pytest.mark.parametrize("shadow", [True, False])
def test_without_writing_actions_are_only_counted(*, shadow: bool) -> None:
    """In shadow mode, and where direct writes are off."""
    node = PolicyNode(ON + "\nshadow: true" if shadow else ON, writable=shadow)
    throttled(node, 2)
    assert node.quota() == 50000
    assert node.policies.counts.actions == {("quotaBurst", "shown"): 2}


def test_events_tell_the_begin_and_the_end() -> None:
    """And how many changes there were between."""
    node = PolicyNode(ON)
    throttled(node, 2)
    node.configure(OFF)
    node.background.work()
    found = [(one.kind, one.text) for one in node.events.since(0)[0]]
    assert [kind for kind, _ in found] == [EventKind.HELD, EventKind.RELEASED]
    assert "cpu.max 50000 100000 -> 60000 100000" in found[0][1]
    assert "2 changes" in found[1][1]


def test_the_annotation_switches_it_off_for_one_container() -> None:
    """As every handler's annotation does."""
    key = "quota-burst.cgroup2.nri.io/container.app"
    node = PolicyNode(ON, annotations={key: "off"})
    throttled(node, 2)
    assert node.quota() == 50000
    raised = PolicyNode(ON, annotations={key: "120%"})
    throttled(raised, 5)
    assert raised.quota() == 60000


def test_two_containers_of_a_pod_share_its_growth() -> None:
    """The pod grows by the sum, and shrinks by the part of one that ends."""
    node = PolicyNode(ON, pod_quota="100000 100000")
    other = f"{POD}/{'fedcba9876543210' * 4}"
    node.add(other, "25000 50000", "side")
    node.look()
    node.runs(0.5, throttled=90)
    node.runs(0.5, throttled=90, cgroup=other)
    node.look()
    # 10000 per 100000, and 5000 per 50000, which is as much.
    assert (node.quota(), node.quota(other), node.quota(POD)) == (60000, 30000, 120000)
    node.inventory.drop(other.rpartition("/")[2])
    node.kernel.remove(other)
    throttled(node)
    assert (node.quota(), node.quota(POD)) == (72000, 122000)


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_that_has_ended_gives_its_part_of_the_pod_back(
    version: int,
) -> None:
    """When its cgroup is gone: the runtime may list it for long after that."""
    node = PolicyNode(ON, version)
    throttled(node, 3)
    assert node.quota(POD) == 75000
    node.kernel.remove(CONTAINER)
    node.look()
    assert node.quota(POD) == 50000
    assert node.policies.counts.holding == {}
    assert node.events.since(0)[0][-1].text.endswith(": it has ended")


def test_a_burst_above_the_quota_that_goes_back_is_lowered_with_it() -> None:
    """The kernel refuses a quota below the burst."""
    node = PolicyNode(ON)
    throttled(node, 3)
    node.kernel.files[f"{POD}/cpu.max.burst"] = "70000"
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (50000, 50000)
    assert node.kernel.files[f"{POD}/cpu.max.burst"] == "50000"


def test_a_busy_node_takes_everything_back() -> None:
    """At `nodeCpuPercent`, which is 80 here."""
    node = PolicyNode(ON)
    throttled(node, 3)
    node.runs(0.5, throttled=90)
    node.look(node_cpu=0.85)
    assert (node.quota(), node.quota(POD)) == (50000, 50000)


def test_a_container_that_the_runtime_is_changing_is_left_alone() -> None:
    """The next interval comes back to it; the end of the process does not wait."""
    node = PolicyNode(ON)
    throttled(node)
    node.pending._starting[CONTAINER.rpartition("/")[2]] = ()
    throttled(node, 2)
    assert node.quota() == 60000
    node.policies.end()
    assert (node.quota(), node.quota(POD)) == (50000, 50000)


def test_what_was_not_written_is_not_in_the_record(tmp_path: Path) -> None:
    """Else the next process would take other direct writes of that file back."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        node.pending._starting[CONTAINER.rpartition("/")[2]] = ()
        throttled(node, 2)
        assert node.quota() == 50000
        assert not (tmp_path / "policies.json").exists()


def test_a_defect_of_a_policy_takes_its_values_back() -> None:
    """It is counted, and the loop goes on."""

    def fail(*_: Any) -> PolicyAnswer:
        raise ZeroDivisionError

    node = PolicyNode(ON)
    throttled(node)
    [state] = node.policies._states.values()
    [one] = state.policies.on
    broken = one._replace(policy=one.policy._replace(decide=fail))
    state.policies = ContainerPolicies((broken,))
    throttled(node)
    assert (node.quota(), node.quota(POD)) == (50000, 50000)
    assert node.policies.counts.actions["quotaBurst", "failed"] == 1


def test_without_its_record_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a crash nobody could tell whose value it is. The log says so, and once."""
    with Journal(str(tmp_path)) as journal:
        (tmp_path / "policies.json.new").mkdir()
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 5)
        assert node.quota() == 50000
    assert caplog.text.count("cannot be written, so nothing is raised") == 1


@pytest.mark.parametrize("end", ["reload", "end"])
def test_values_go_back_also_while_the_disk_is_full(tmp_path: Path, end: str) -> None:
    """Nothing is raised any more, and what is raised does not stay so."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(ON, journal=journal, state=tmp_path)
        throttled(node, 2)
        journal._database.execute("PRAGMA query_only = ON")
        throttled(node)
        assert (node.quota(), node.quota(POD)) == (72000, 72000)
        if end == "end":
            node.policies.end()
        else:
            node.configure(OFF)
            node.background.work()
    assert (node.quota(), node.quota(POD)) == (50000, 50000)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2]),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.3, 0.5, 0.75]),
            st.sampled_from([0, 0, 5, 90]),
            st.sampled_from([0.1, 0.1, 0.75, 0.9]),
        ),
        max_size=12,
    ),
)
def test_whatever_happens_everything_is_back_when_it_is_switched_off(
    version: int, intervals: list[tuple[float, int, float]]
) -> None:
    """And the quota is within its bounds all the time."""
    node = PolicyNode(ON.replace("null", "20"), version)
    for cpus, cut, busy in intervals:
        node.runs(cpus, cut)
        node.look(node_cpu=busy)
        assert 50000 <= node.quota() == node.quota(POD) <= 75000
    node.configure(OFF)
    node.background.work()
    assert (node.quota(), node.quota(POD)) == (50000, 50000)


@pytest.mark.parametrize("version", [1, 2])
def test_switched_on_by_a_reload_it_acts_on_containers_that_run(version: int) -> None:
    """It has nothing to do with when a container was created."""
    node = PolicyNode(OFF, version)
    throttled(node, 2)
    assert node.writes() == []
    node.configure(ON)
    throttled(node, 2)
    value = QUOTA[version][0]
    assert node.writes()[:2] == [("pod", value), ("container", value)]
