"""When drift may be repaired, which values are compared, and what the counts hold."""

from __future__ import annotations

from cgroup.kernels import Kernel
from doors.nri.messages import FILES
from support.trees import CONTAINER

from nriplugin.config import parse_config
from nriplugin.node.observe import differing
from nriplugin.state.decision_summary import DecisionSummary
from nriplugin.state.inventory import ContainerEntry
from nriplugin.state.repair_backoff import CALM_S, WAITS_S, Attempt, RepairBackoff, Way
from nriplugin.state.verification import ShadowCounts
from nriplugin.state.verifier import values_to_compare

NOTHING = DecisionSummary("", (), (), ())
CPU = {"cpu.max": "max"}
OPEN = {"cpu.max": Attempt(Way.DIRECT, "7")}


def attempts_until(backoff: RepairBackoff, end_s: int) -> list[int]:
    """Return the seconds at which a file that never keeps its value is tried."""
    tried = []
    for now in range(end_s):
        for _ in backoff.due("c1", CPU, now):
            backoff.tried("c1", CPU, now, OPEN)
            tried.append(now)
    return tried


def test_attempts_become_rare_and_end() -> None:
    """The first is at once, the last after half an hour, and then there are none."""
    backoff = RepairBackoff()
    assert attempts_until(backoff, 20_000) == [0, 60, 360, 2160, 3960]
    assert len(WAITS_S) == 5
    assert backoff.gives_up("c1", CPU) == ["cpu.max"]
    assert backoff.gives_up("c1", CPU) == []  # it is said once


def test_a_new_value_begins_anew() -> None:
    """An update came, so what was written against the old value does not count."""
    backoff = RepairBackoff()
    attempts_until(backoff, 20_000)
    assert backoff.due("c1", {"cpu.max": "1 2"}, 20_000) == ["cpu.max"]
    assert backoff.due("c2", CPU, 20_000) == ["cpu.max"]


def test_a_new_decision_begins_anew_even_with_the_same_value() -> None:
    """A runtime may have written an old value at an update, which nobody repeats."""
    backoff = RepairBackoff()
    backoff.begin("c1", 5.0)
    attempts_until(backoff, 20_000)
    assert backoff.gives_up("c1", CPU) == ["cpu.max"]
    backoff.begin("c1", 5.0)
    assert backoff.due("c1", CPU, 20_000) == []
    backoff.begin("c1", 6.0)
    assert not backoff.gave_up("c1", "cpu.max")
    assert backoff.due("c1", CPU, 20_000) == ["cpu.max"]


def test_a_file_that_kept_its_value_for_long_begins_anew() -> None:
    """A program that changes it once a day is not fighting."""
    backoff = RepairBackoff()
    backoff.tried("c1", CPU, 0.0, OPEN)
    backoff.held("c1", (), CALM_S - 1)
    assert backoff.due("c1", CPU, 1.0) == []
    backoff.held("c1", (), CALM_S)
    assert backoff.due("c1", CPU, 1.0) == ["cpu.max"]


def test_a_file_that_has_drifted_all_the_time_is_not_forgotten() -> None:
    """Else repair would never give up."""
    backoff = RepairBackoff()
    attempts_until(backoff, 20_000)
    backoff.held("c1", CPU, 10 * CALM_S)
    assert backoff.due("c1", CPU, 10 * CALM_S) == []


def test_an_attempt_whose_result_is_open_is_reported_once() -> None:
    """Each attempt has one outcome."""
    backoff = RepairBackoff()
    backoff.tried("c1", CPU, 0.0, OPEN)
    assert backoff.take_open("c1", ["cpu.max", "memory.max"]) == OPEN
    assert backoff.take_open("c1", ["cpu.max"]) == {}
    backoff.keep_only(())
    assert backoff.due("c1", CPU, 0.0) == ["cpu.max"]


def test_only_values_that_are_decided_or_recorded_are_compared() -> None:
    """Outdated ones count for a container that nobody has decided about yet."""
    both = ContainerEntry("c1", files={"cpu.max": "1 2"}, outdated={"memory.max": "4"})
    assert values_to_compare(both) == {"cpu.max": "1 2", "memory.max": "4"}
    assert values_to_compare(both._replace(decision=NOTHING)) == {"cpu.max": "1 2"}
    unknown = ContainerEntry("c1", outdated={"memory.max": ""})
    assert values_to_compare(unknown) == {}


def test_an_idle_container_has_no_weight_to_compare() -> None:
    """The kernel shows 0 in its place."""
    idle = ContainerEntry("c1", files={"cpu.weight": "39", "cpu.idle": "1"})
    assert values_to_compare(idle) == {"cpu.idle": "1"}
    busy = ContainerEntry("c1", files={"cpu.weight": "39", "cpu.idle": "0"})
    assert values_to_compare(busy) == busy.files


def test_a_value_in_another_notation_is_held() -> None:
    """The kernel rounds to pages and adds a period."""
    kernel = Kernel(2)
    kernel.files[f"{CONTAINER}/memory.max"] = "8192"
    kernel.files[f"{CONTAINER}/cpu.max"] = "max 100000"
    wanted = {"memory.max": "9000", "cpu.max": "max", "cpu.weight": "59"}
    assert differing(kernel.tree, CONTAINER, wanted) == {"cpu.weight": "100"}
    wanted["memory.max"] = "20000"
    found = differing(kernel.tree, CONTAINER, wanted)
    assert found == {"cpu.weight": "100", "memory.max": "8192"}


def test_a_file_that_is_gone_differs_and_a_cgroup_that_is_gone_does_not() -> None:
    """The container has ended, so nothing can be said about it."""
    kernel = Kernel(2)
    del kernel.files[f"{CONTAINER}/memory.max"]
    assert differing(kernel.tree, CONTAINER, {"memory.max": "4096"}) == {
        "memory.max": ""
    }
    kernel.remove(CONTAINER)
    assert differing(kernel.tree, CONTAINER, {"memory.max": "4096"}) is None


def test_the_inner_cgroup_of_crun_counts() -> None:
    """But not for the weight, by which the scope competes with its siblings."""
    kernel = Kernel(2)
    inner = f"{CONTAINER}/container"
    kernel.add(inner)
    for file, value in FILES.items():
        kernel.files[f"{inner}/{file}"] = value
    assert differing(kernel.tree, CONTAINER, FILES) == {"cpu.weight": "100"}
    kernel.files[f"{inner}/memory.max"] = "max"
    found = differing(kernel.tree, CONTAINER, FILES)
    assert found == {"cpu.weight": "100", "memory.max": "max"}


def test_the_counts_name_the_rules_in_shadow_mode() -> None:
    """They are what a configuration says, also that of `--shadow`."""
    rule = "rules: [{name: a, match: {namespace: x}, shadow: true}, {match: {job: j}}]"
    counts = ShadowCounts()
    config = parse_config(rule, "x")
    counts.configure(config.engine)
    assert (counts.enabled, counts.rules) == (False, ("rules[0] (a)",))
    counts.configure(config.in_shadow().engine)
    assert (counts.enabled, counts.rules) == (True, ("rules[0] (a)", "rules[1]"))
