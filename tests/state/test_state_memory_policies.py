"""The loop over the policies, with memory guard and proactive reclaim."""

from __future__ import annotations

import logging
from errno import EAGAIN, EINVAL, EIO
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import INTERVAL_S, PolicyNode
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.engine.policies import Trigger
from nriplugin.errors import CgroupError
from nriplugin.node.policy_triggers import pull
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
OWN, LIMIT = 64 * MIB, 128 * MIB
GUARD = "memoryGuard: {enabled: true, stepPercent: 50, cooldownSeconds: 20}"
RECLAIM = "proactiveReclaim: {enabled: true, keepBytes: 8388608, percent: 10}"
OFF = "{}"
HIGH, NOW = f"{CONTAINER}/memory.high", f"{CONTAINER}/memory.reclaim"


def guarded(config: str = GUARD, **more: Any) -> PolicyNode:
    """Return a node with a container that has a memory.high."""
    node = PolicyNode(config, **more)
    node.give(memory_high=str(OWN), memory_max=str(LIMIT))
    node.uses(OWN)
    node.look()
    node.kernel.writes.clear()
    return node


def high(node: PolicyNode) -> int:
    return int(node.kernel.files[HIGH])


def stall(node: PolicyNode, intervals: int = 1) -> None:
    for _ in range(intervals):
        node.uses(high(node), held=5, stalled=9.0)
        node.look()


def rest(node: PolicyNode, use: int = MIB, intervals: int = 1) -> None:
    for _ in range(intervals):
        node.uses(use)
        node.look()


def test_up_to_the_limit_and_back() -> None:
    """By steps while the container stalls, and down after the cooldown."""
    node = guarded()
    seen = []
    for _ in range(4):
        stall(node)
        seen.append(high(node) // MIB)
    assert seen == [96, 128, 128, 128]
    rest(node)
    assert high(node) == LIMIT  # the cooldown
    rest(node, use=100 * MIB, intervals=5)
    assert high(node) == LIMIT  # what it uses does not fit into less
    seen = []
    for _ in range(5):
        rest(node)
        seen.append(high(node) // MIB)
    assert seen == [96, 96, 64, 64, 64]


def test_after_a_crash_a_decided_value_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it was written directly, so that the journal has what was before."""
    with Journal(str(tmp_path)) as journal:
        node = PolicyNode(GUARD, journal=journal, state=tmp_path)
        writer = node.pending.writer
        assert writer is not None
        writer.put({"memory.high": str(OWN)}, CONTAINER)
        node.give(memory_high=str(OWN), memory_max=str(LIMIT))
        node.uses(OWN)
        node.look()
        stall(node)
        assert high(node) > OWN
        decided = node.inventory.snapshot()
        after = PolicyNode(
            OFF, kernel=node.killed(), journal=journal, state=tmp_path, silent=True
        )
        for entry in decided.values():
            after.inventory.put(entry)
        after.plans.set_silent(False)
        after.uses(100 * MIB)
        after.policies.look()
    assert high(after) == OWN
    assert f"it uses {100 * MIB}, so the kernel reclaims" in caplog.text


def test_the_pod_is_not_touched() -> None:
    """Only the container's own file is written."""
    node = guarded()
    stall(node, 3)
    assert {path for path, _ in node.kernel.writes if path.startswith(POD)} == {HIGH}


@pytest.mark.parametrize("end", ["reload", "end"])
def test_switched_off_it_goes_back_and_says_what_is_used(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the container uses more, which an event and the log tell."""
    node = guarded()
    stall(node, 2)
    node.uses(100 * MIB)
    if end == "reload":
        node.configure(OFF)
        node.background.work()
    else:
        node.policies.end()
    assert high(node) == OWN
    held, released = node.events.since(0)[0]
    assert (held.kind, released.kind) == (EventKind.HELD, EventKind.RELEASED)
    assert "held back 5 times" in held.text
    assert f"it uses {100 * MIB}" in released.text
    assert f"memory.high back to {OWN}; it uses {100 * MIB}" in caplog.text


@pytest.mark.parametrize("use", [OWN, 100 * MIB])
def test_after_a_crash_the_next_process_puts_it_back(
    tmp_path: Path, use: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By the record and the journal; and it says if more than that is used."""
    with Journal(str(tmp_path)) as journal:
        node = guarded(journal=journal, state=tmp_path)
        stall(node, 2)
        assert high(node) == LIMIT
    node.uses(use)
    with Journal(str(tmp_path)) as journal:
        PolicyNode(OFF, kernel=node.killed(), journal=journal, state=tmp_path)
    assert high(node) == OWN
    assert (f"it uses {use}" in caplog.text) == (use > OWN)


@pytest.mark.parametrize("same", [True, False])
def test_the_inner_cgroup_of_crun_follows_if_it_has_the_same(*, same: bool) -> None:
    """Its own value is never replaced by that of the outer one."""
    node = guarded()
    inner = f"{CONTAINER}/container"
    node.kernel.add(inner)
    own = str(OWN) if same else "max"
    node.kernel.files[f"{inner}/memory.high"] = own
    stall(node)
    raised = node.kernel.files[f"{inner}/memory.high"]
    assert raised == (str(96 * MIB) if same else "max")
    node.configure(OFF)
    node.background.work()
    assert node.kernel.files[f"{inner}/memory.high"] == own


def test_shadow_writes_nothing() -> None:
    """Neither a value nor a trigger; both are counted."""
    node = guarded(f"shadow: true\n{GUARD}\n{RECLAIM}")
    node.kernel.files[NOW] = ""
    node.kernel.writes.clear()
    stall(node, 2)
    rest(node, use=OWN, intervals=20)
    assert node.kernel.writes == []
    actions = node.policies.counts.actions
    assert actions["memoryGuard", "shown"] > 0
    assert actions["proactiveReclaim", "shown"] > 0


def cached(config: str = RECLAIM, use: int = 80 * MIB, **more: Any) -> PolicyNode:
    """Return a node with a container full of page cache."""
    node = PolicyNode(OFF, **more)
    node.kernel.files[NOW] = ""
    node.uses(use)
    node.configure(config)
    node.look()
    node.kernel.writes.clear()
    return node


def taken(node: PolicyNode) -> list[str]:
    """Return what was written to memory.reclaim since the last call."""
    found = [value for path, value in node.kernel.writes if path == NOW]
    node.kernel.writes.clear()
    return found


def test_a_step_per_look_until_it_keeps_the_rest() -> None:
    """Without swap, as far as the node tells; and nothing goes to the journal."""
    node = cached()
    for use, amount in ((80, "8388608"), (72, "7536640"), (9, "917504"), (8, None)):
        rest(node, use=use * MIB)
        assert taken(node) == ([] if amount is None else [f"{amount} swappiness=0"])
    counts = node.policies.counts
    assert counts.actions == {("proactiveReclaim", "triggered"): 3}
    assert counts.holding == {}
    assert node.events.since(0)[0] == []
    state = node.policies.state_of(CONTAINER.rpartition("/")[2])
    assert state is not None
    assert state.reasons == {"proactiveReclaim": "it uses no more than it keeps"}


def test_pressure_and_refaults_stop_it_at_once() -> None:
    """And the container is left alone for a while."""
    for harm in ({"stalled": 0.2}, {"refaults": 5000}, {"held": 1}):
        node = cached()
        rest(node, use=80 * MIB)
        assert taken(node)
        node.uses(72 * MIB, **harm)
        node.look()
        rest(node, use=72 * MIB, intervals=5)
        assert taken(node) == []
        rest(node, use=72 * MIB)
        assert taken(node)


def test_without_a_sample_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger is for one look: what was asked for earlier is not done again."""
    node = cached()
    rest(node, use=80 * MIB)
    assert taken(node)

    def fail(*_: object) -> None:
        raise CgroupError("read", "memory.current", None, EIO)

    monkeypatch.setattr(node.policies.sampler, "container", fail)
    node.look()
    assert taken(node) == []


def refusing(node: PolicyNode, errno: int) -> None:
    """Have the kernel answer writes to memory.reclaim with an error."""
    write = node.kernel.write

    def refuse(path: str, value: str) -> None:
        if path == NOW:
            node.kernel.writes.append((path, value))
            raise CgroupError("write", path, value, errno)
        write(path, value)

    node.kernel.write = refuse  # type: ignore[method-assign]


def test_less_than_was_asked_for_is_normal(caplog: pytest.LogCaptureFixture) -> None:
    """EAGAIN is counted, not logged, and the container rests."""
    node = cached()
    refusing(node, EAGAIN)
    rest(node, use=80 * MIB, intervals=5)
    assert len(taken(node)) == 1
    assert node.policies.counts.actions == {("proactiveReclaim", "partly"): 1}
    assert not caplog.records


@pytest.mark.parametrize(
    ("errno", "text"),
    [(None, "expected at least 5.19"), (EINVAL, "cannot leave swap alone")],
)
def test_what_the_kernel_lacks_is_told_once(
    caplog: pytest.LogCaptureFixture, errno: int | None, text: str
) -> None:
    """A kernel without memory.reclaim, or without its argument."""
    node = cached()
    if errno is None:
        del node.kernel.files[NOW]
    else:
        refusing(node, errno)
    with caplog.at_level(logging.WARNING):
        rest(node, use=80 * MIB, intervals=30)
    said = [one.message for one in caplog.records if "does nothing" in one.message]
    assert len(said) == 1
    assert text in said[0]
    assert sum(node.policies.counts.actions.values()) == 1


def test_a_node_of_version_1_says_that_it_cannot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is written there."""
    with caplog.at_level(logging.WARNING):
        node = PolicyNode(f"{GUARD}\n{RECLAIM}", 1)
        for _ in range(3):
            node.look()
    assert node.kernel.writes == [] or not taken(node)
    [said] = [one.message for one in caplog.records if "does nothing" in one.message]
    assert "proactiveReclaim" in said


def test_one_look_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The containers whose turn has not come are first at the next look."""
    node = cached()
    names = [CONTAINER]
    for number in range(3):
        name = f"{POD}/{'abc'[number] * 64}"
        node.add(name, "50000 100000", f"app{number}")
        node.kernel.files[f"{name}/memory.reclaim"] = ""
        names.append(name)
    now = [0.0]

    def clock() -> float:
        now[0] += 0.4
        return now[0]

    monkeypatch.setattr(node.policies._triggers, "clock", clock)
    seen: list[str] = []
    for _ in range(5):
        for name in names:
            node.uses(80 * MIB, cgroup=name)
        node.kernel.writes.clear()
        node.look()
        written = [p for p, _ in node.kernel.writes if p.endswith("memory.reclaim")]
        assert len(written) <= 2
        seen += written
    assert {path.rpartition("/")[0] for path in seen} == set(names)


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        (CONTAINER, "memory.max"),
        (POD, "memory.reclaim"),
        ("/", "memory.reclaim"),
        ("/system.slice/sshd.service", "memory.reclaim"),
    ],
)
def test_a_trigger_writes_one_file_of_containers_only(cgroup: str, file: str) -> None:
    """No other file, and no cgroup that is not a container's."""
    node = cached()
    node.kernel.files[f"{cgroup}/{file}"] = ""
    assert pull(node.tree, cgroup, Trigger(file, "4096")).errno == EINVAL
    assert node.kernel.writes == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2 * LIMIT),
            st.integers(0, 10),
            st.floats(0.0, INTERVAL_S),
            st.integers(0, 2000),
            st.sampled_from(
                ["-", "-", "-", "max", str(LIMIT), str(OWN), str(96 * MIB)]
            ),
        ),
        max_size=20,
    )
)
@settings(max_examples=50, deadline=None)
def test_whatever_happens_off_means_its_own_value(taken: list[Any]) -> None:
    """And meanwhile memory.high is between its own and the limit."""
    node = guarded(f"{GUARD}\n{RECLAIM}")
    node.kernel.files[NOW] = ""
    limit: float = LIMIT
    for use, held, stalled, refaults, new in taken:
        if new != "-":
            node.kernel.files[f"{CONTAINER}/memory.max"] = new
            limit = float("inf") if new == "max" else int(new)
        node.uses(use, held=held, stalled=stalled, refaults=refaults)
        node.look()
        assert OWN <= high(node) <= max(limit, OWN)
    node.configure(OFF)
    node.background.work()
    assert high(node) == OWN
