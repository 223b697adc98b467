"""The conversion alone, which is what a node without a configuration gets."""

from __future__ import annotations

from typing import Any

import pytest
from engine.cases import APP, FILES, NODE, POD, TYPICAL, annotated, config, refusals
from support.handlers import registered_handler

from nriplugin.convert import UNLIMITED, Curve, Resources
from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed, Reason
from nriplugin.engine.handlers.cpu_burst import CPU_BURST, CPUBurstSettings
from nriplugin.engine.handlers.resources import ResourcesSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.model import CORE_FILES, NodeFacts
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig


def files_of(given: Resources, **options: Any) -> dict[str, str]:
    container = APP._replace(resources=given)
    facts = options.pop("facts", NodeFacts())
    return decide(POD, container, facts, DEFAULT_CONFIG).files


@pytest.mark.parametrize("facts", [NodeFacts(), NODE])
def test_without_a_configuration_three_files_leave(facts: NodeFacts) -> None:
    """This holds for every node and for everything else that a container has."""
    given = TYPICAL._replace(pids_limit=100, memory_reservation_bytes=1 << 20)
    decision = decide(POD, APP._replace(resources=given), facts, DEFAULT_CONFIG)
    assert decision.files == {
        "cpu.weight": "59",
        "cpu.max": "100000 100000",
        "memory.max": str(1 << 30),
    }
    assert (decision.writes, decision.left, decision.refused) == ([], [], [])


@pytest.mark.parametrize(
    ("given", "files"),
    [
        (Resources(), {}),
        (Resources(shares=2), {"cpu.weight": "1"}),
        (Resources(period_us=100_000), {"cpu.max": "max 100000"}),
        (Resources(quota_us=UNLIMITED), {"cpu.max": "max 100000"}),
        (Resources(memory_limit_bytes=UNLIMITED), {"memory.max": "max"}),
        (Resources(memory_limit_bytes=4096), {"memory.max": "4096"}),
    ],
)
def test_only_what_was_given_is_sent(given: Resources, files: dict[str, str]) -> None:
    """A number that is not given makes no file."""
    assert files_of(given) == files


@pytest.mark.parametrize(
    ("quota", "period", "by_systemd"),
    [
        # What runc 1.5 with systemd makes of the same numbers.
        (12_345, 100_000, "13000 100000"),
        (112_345, None, "113000 100000"),
        (33_333, 50_000, "33500 50000"),
        (3_300, 100_000, "4000 100000"),  # 33m
        (1_001, 1001, "1001 1001"),
        (50_000, 1_000_000, "50000 1000000"),
        (150_000, 100_000, "150000 100000"),
        (UNLIMITED, 100_000, "max 100000"),
        (MAX_QUOTA_US, 100_000, f"{MAX_QUOTA_US} 100000"),  # more is too much
    ],
)
def test_a_quota_that_survives_a_reload_of_systemd(
    quota: Any, period: int | None, by_systemd: str
) -> None:
    """systemd keeps whole percents of a CPU and would replace any other quota."""
    given = Resources(quota_us=quota, period_us=period)
    app = APP._replace(resources=given)
    exact = decide(POD, app, NODE, DEFAULT_CONFIG)
    assert exact.files["cpu.max"].split()[0] in (str(quota), "max")
    facts = NODE._replace(driver="systemd")
    for decision in (
        decide(POD, app, facts, DEFAULT_CONFIG),
        decide_update(POD, app, given, facts, DEFAULT_CONFIG),
    ):
        assert decision.files["cpu.max"] == by_systemd
        rounded = by_systemd != exact.files["cpu.max"]
        assert ("1 % of a CPU" in decision.why("cpu.max").rule.text) is rounded


def test_a_quota_that_somebody_sets_is_not_rounded() -> None:
    """A cpu.max from an annotation is sent as it is given."""
    pod = annotated(**{"cpu.max": "12345 100000"})
    allowed = UnifiedAnnotationsSettings(enabled=True, allowed=frozenset({"cpu.max"}))
    facts = NODE._replace(driver="systemd")
    decision = decide(pod, APP, facts, config(allowed))
    assert decision.files["cpu.max"] == "12345 100000"


@pytest.mark.parametrize("missing", sorted(CORE_FILES))
def test_a_file_that_the_node_lacks_is_never_sent(missing: str) -> None:
    """The runtime would fail the container; a note names the file."""
    facts = NODE._replace(files=FILES - {missing})
    decision = decide(POD, APP, facts, DEFAULT_CONFIG)
    assert set(decision.files) == CORE_FILES - {missing}
    assert [left.what for left in decision.left] == [missing]


def test_explicit_values_win() -> None:
    """A key in the container's `unified` is not overwritten; a note names it."""
    given = TYPICAL._replace(unified={"cpu.weight": "7", "memory.high": "4096"})
    decision = decide(POD, APP._replace(resources=given), NODE, DEFAULT_CONFIG)
    assert set(decision.files) == {"cpu.max", "memory.max"}
    assert {left.what for left in decision.left} == {"cpu.weight", "memory.high"}


def test_what_we_set_ourselves_is_nobodys_wish() -> None:
    """An old value of nriplugin does not count as explicit."""
    given = TYPICAL._replace(unified={"cpu.weight": "7", "cpu.max": "5000 100000"})
    container = APP._replace(resources=given, ours={"cpu.weight": "7"})
    files = decide(POD, container, NODE, DEFAULT_CONFIG).files
    assert files == {"cpu.weight": "59", "memory.max": str(1 << 30)}


def test_cgroup_v1_gets_nothing() -> None:
    """A v2 value fails every container there."""
    facts = NODE._replace(cgroup_version=1, cgroup_evidence="tmpfs")
    for decision in (
        decide(POD, APP, facts, DEFAULT_CONFIG),
        decide_update(POD, APP, TYPICAL, facts, DEFAULT_CONFIG),
    ):
        assert decision.files == {}
        text = "direct writes only: cgroup v1 (tmpfs)"
        assert decision.left == [("cgroup v2 files", text)]


@pytest.mark.parametrize(
    ("configured", "of_pod", "of_node", "weight"),
    [
        (Curve.KEP, Curve.PROPORTIONAL, Curve.QUADRATIC, "20"),
        (None, Curve.PROPORTIONAL, Curve.KEP, "50"),
        (None, None, Curve.KEP, "20"),
        (None, None, Curve.QUADRATIC, "59"),
    ],
)
def test_the_curve(
    configured: Curve | None, of_pod: Curve | None, of_node: Curve, weight: str
) -> None:
    """The configured one, else the pod's own, else the node's."""
    decision = decide(
        POD._replace(curve=of_pod),
        APP,
        NODE._replace(curve=of_node),
        EngineConfig(curve=configured),
    )
    assert decision.files["cpu.weight"] == weight


@pytest.mark.parametrize(
    ("configured", "of_pod", "of_node", "written"),
    [
        (Curve.KEP, None, Curve.QUADRATIC, ["20"]),
        (Curve.KEP, None, Curve.KEP, []),
        (Curve.KEP, Curve.KEP, Curve.QUADRATIC, []),
        (None, None, Curve.QUADRATIC, []),
        (None, Curve.KEP, Curve.QUADRATIC, []),
    ],
)
def test_a_curve_that_is_not_cruns_counts_among_siblings(
    configured: Curve | None, of_pod: Curve | None, of_node: Curve, written: list[str]
) -> None:
    """With systemd, crun makes the scope's weight of shares, and has its own curve."""
    facts = NODE._replace(driver="systemd", oci_runtime="crun", curve=of_node)
    pod, chosen = POD._replace(curve=of_pod), EngineConfig(curve=configured)
    for decision in (
        decide(pod, APP, facts, chosen),
        decide_update(pod, APP, TYPICAL, facts, chosen),
    ):
        assert [w.value for w in decision.writes] == written
        assert {w.file for w in decision.writes} <= {"cpu.weight"}


def test_a_runtime_that_drops_unified_has_the_scope_weighed_once() -> None:
    """The write that replaces the answer serves the scope as well."""
    facts = NODE._replace(driver="systemd", oci_runtime="crun", runtime="cri-o")
    decision = decide_update(POD, APP, TYPICAL, facts, EngineConfig(curve=Curve.KEP))
    assert [w.file for w in decision.writes].count("cpu.weight") == 1


BAD = APP._replace(resources=Resources(shares=1024, quota_us=5))


def test_numbers_that_cannot_be_converted_change_nothing() -> None:
    """All or nothing; the refusal is counted with its reason."""
    decision = decide(POD, BAD, NODE, DEFAULT_CONFIG)
    assert decision.files == {}
    [refusal] = decision.refused
    assert refusal.text.startswith("cpu.quota: 5, expected 1000")
    assert refusals(decision) == {("resources", Reason.CONVERSION.value): 1}


def test_a_handler_may_be_told_to_fail() -> None:
    """With the policy `fail`, the request fails."""
    failing = config(ResourcesSettings(fail=True))
    with pytest.raises(HandlerFailed, match=r"^resources: cpu\.quota: 5, expected"):
        decide(POD, BAD, NODE, failing)


def test_it_can_be_switched_off() -> None:
    """Without any handler nothing is sent."""
    off = config(ResourcesSettings(enabled=False))
    assert decide(POD, APP, NODE, off).files == {}


def test_every_file_has_its_rule_and_source() -> None:
    """The code that decides records both."""
    decision = decide(POD, APP, NODE, DEFAULT_CONFIG)
    assert {file: decision.why(file).rule.fields for file in decision.files} == {
        "cpu.weight": ("cpu.shares",),
        "cpu.max": ("cpu.quota", "cpu.period"),
        "memory.max": ("memory.limit",),
    }
    assert {decision.why(file).handler for file in decision.files} == {"resources"}


def test_a_defect_of_ours_takes_no_other_handler_along() -> None:
    """The other handlers go on, and the defect is counted as an error."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    with registered_handler(CPU_BURST._replace(decide=broken)):
        chosen = config(CPUBurstSettings(enabled=True))
        failing = config(CPUBurstSettings(enabled=True, fail=True))
    decision = decide(POD, APP, NODE, chosen)
    assert set(decision.files) == CORE_FILES
    assert refusals(decision) == {("cpuBurst", "error"): 1}
    with pytest.raises(HandlerFailed, match=r"cpuBurst: .*oops"):
        decide(POD, APP, NODE, failing)
