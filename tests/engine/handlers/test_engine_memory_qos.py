"""memory.high, memory.min, memory.low, memory.swap.max, memory.oom.group."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine.cases import (
    APP,
    EVERYTHING_ON,
    FILES,
    GIB,
    MIB,
    NODE,
    POD,
    TYPICAL,
    annotated,
    config,
    refusals,
)
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.convert import UNLIMITED, Resources
from nriplugin.engine.ancestors import Ancestor, effective_bytes, shortfalls
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import Decision, Level, When
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.memory import throttle_at
from nriplugin.engine.model import Container, NodeFacts, Pod
from nriplugin.engine.settings import EngineConfig
from nriplugin.kube.oomscore import oom_score_adj
from nriplugin.kube.qos import QOSClass

ON = MemoryQoSSettings(enabled=True)
GUARANTEED = POD._replace(cgroup_parent="kubepods-pod7b0f.slice")
BEST_EFFORT = POD._replace(cgroup_parent="/kubepods/besteffort/pod7b0f")


def asking(request: int | None, limit: int | None = GIB, **more: Any) -> Container:
    resources = Resources(memory_limit_bytes=limit)
    return Container(
        name="app", resources=resources, memory_request_bytes=request, **more
    )


def decided(
    container: Container,
    pod: Pod = POD,
    facts: NodeFacts = NODE,
    **settings: Any,
) -> Decision:
    return decide(pod, container, facts, config(ON._replace(**settings)))


def left(decision: Decision) -> dict[str, str]:
    return dict(decision.left)


@pytest.mark.parametrize(
    ("request_mib", "limit_mib", "factor", "high"),
    [
        (500, 1024, 0.9, 1_018_793_984),  # the kubelet's own example
        (512, 1024, 0.9, 1_020_051_456),
        (0, 1024, 0.9, 966_365_184),
        (0, 1024, 1, 1 << 30),
        (256, 1024, 0.5, 640 << 20),
    ],
)
def test_memory_high(
    request_mib: int, limit_mib: int, factor: float, high: int
) -> None:
    """request + factor * (limit - request), in whole pages."""
    container = asking(request_mib * MIB, limit_mib * MIB)
    decision = decided(container, factor_ppm=round(factor * 1e6))
    assert decision.files["memory.high"] == str(high)
    assert decision.why("memory.high").confidence == "exact"


@given(
    st.integers(0, 1 << 45),
    st.integers(0, 1 << 45),
    st.integers(1, 100),
    st.sampled_from([4096, 16384, 65536]),
)
def test_the_arithmetic_is_the_kubelets(
    request: int, limit: int, percent: int, page: int
) -> None:
    """Within a page, as the kubelet calculates with doubles."""
    request = min(request, limit)
    sum_bytes = math.floor(request + percent / 100 * (limit - request))
    theirs = math.floor(sum_bytes / page) * page
    ours = throttle_at(request, limit, percent * 10_000, page)
    assert abs(ours - theirs) <= page
    assert ours % page == 0
    assert ours <= limit


@pytest.mark.parametrize(
    ("request_bytes", "limit"),
    [(GIB, GIB), (GIB - 1, GIB), (0, 1000), (GIB, 4096)],
)
def test_no_room_is_no_memory_high(request_bytes: int, limit: int) -> None:
    """Throttling at or below the request would stop what was promised."""
    decision = decided(asking(request_bytes, limit))
    assert "memory.high" not in decision.files
    assert "no room" in left(decision)["memory.high"]


@pytest.mark.parametrize("limit", [None, UNLIMITED])
def test_without_a_limit_allocatable_counts(limit: Any) -> None:
    """As for a BestEffort container."""
    decision = decided(asking(0, limit), BEST_EFFORT)
    assert decision.files["memory.high"] == str(54 * GIB)
    assert "allocatable" in decision.why("memory.high").rule.text


def test_nothing_is_made_up_about_the_node() -> None:
    """Without a limit and without allocatable, there is nothing to throttle at."""
    facts = NODE._replace(memory_allocatable_bytes=None)
    decision = decided(asking(0, None), facts=facts)
    assert "memory.high" not in decision.files
    assert "not known" in left(decision)["memory.high"]


@pytest.mark.parametrize("kernel", [None, (4, 19), (5, 4), (5, 8)])
def test_never_memory_high_on_an_old_kernel(kernel: tuple[int, int] | None) -> None:
    """Below 5.9 a throttled container can hang for ever; not known is not safe."""
    decision = decided(asking(0), facts=NODE._replace(kernel=kernel))
    assert "memory.high" not in decision.files
    assert "5.9" in left(decision)["memory.high"]
    raw = EVERYTHING_ON.replace(MemoryQoSSettings())
    pod = POD._replace(annotations={"memory.high.cgroup2.nri.io": "409600"})
    files = decide(pod, APP, NODE._replace(kernel=kernel), EngineConfig(base=raw)).files
    assert "memory.high" not in files


def test_the_first_kernel_that_is_safe() -> None:
    """memory.high is set from kernel 5.9 on, 5.9 included."""
    facts = NODE._replace(kernel=(5, 9))
    assert "memory.high" in decided(asking(0), facts=facts).files


@pytest.mark.parametrize(
    ("pod", "file"), [(GUARANTEED, "memory.min"), (POD, "memory.low")]
)
def test_protection_goes_by_class(pod: Pod, file: str) -> None:
    """A Guaranteed request is never reclaimed, a Burstable one last."""
    files = decided(asking(512 * MIB), pod).files
    assert files[file] == str(512 * MIB)
    assert len({"memory.min", "memory.low"} & set(files)) == 1


def test_best_effort_has_nothing_to_protect() -> None:
    """A container in a BestEffort pod gets neither memory.min nor memory.low."""
    files = decided(asking(None), BEST_EFFORT).files
    assert not {"memory.min", "memory.low"} & set(files)


def test_best_effort_cannot_ask_for_protection() -> None:
    """Nobody has reserved what an annotation says; it only counts for throttling."""
    annotations = {"memory-request.cgroup2.nri.io": "512Mi"}
    decision = decided(asking(None), BEST_EFFORT._replace(annotations=annotations))
    assert not {"memory.min", "memory.low"} & set(decision.files)
    assert (
        left(decision)["memory.low"] == "memoryQoS: a BestEffort pod is not protected"
    )


def test_protection_can_be_switched_off() -> None:
    """As it is in the kubelet by default."""
    files = decided(asking(MIB), protection=False).files
    assert set(files) == {"memory.high", "memory.max"}


def test_the_factor_can_be_switched_off() -> None:
    """As it is in the kubelet since 1.37."""
    files = decided(asking(MIB), factor_ppm=None).files
    assert set(files) == {"memory.low", "memory.max"}


@pytest.mark.parametrize(
    ("pod", "container", "amount", "confidence", "source"),
    [
        (
            annotated(memory_request="256Mi"),
            asking(MIB, oom_score_adj=900),
            256 * MIB,
            "stated",
            "annotation memory-request.cgroup2.nri.io",
        ),
        (
            POD,
            asking(MIB, oom_score_adj=900),
            MIB,
            "exact",
            "the pod's resources",
        ),
        (
            POD,
            asking(None, 32 * GIB, oom_score_adj=900),
            -(-64 * GIB // 10),
            "estimate",
            "oom_score_adj 900",
        ),
    ],
)
def test_where_the_request_comes_from(
    pod: Pod, container: Container, amount: int, confidence: str, source: str
) -> None:
    """An annotation, else the pod's resources, else an estimate, each named."""
    decision = decided(container, pod)
    assert decision.files["memory.low"] == str(amount)
    why = decision.why("memory.low")
    assert why.confidence == confidence
    assert source in why.source


def test_a_guaranteed_request_is_its_limit() -> None:
    """No estimate is needed."""
    app = asking(None, GIB, oom_score_adj=-997)
    decision = decided(app, GUARANTEED, guaranteed_ppm=1_000_000)
    assert decision.files["memory.min"] == str(GIB)
    assert decision.why("memory.min").confidence == "exact"
    assert "memory.high" not in decision.files


@pytest.mark.parametrize(
    ("request_mib", "limit_mib", "share", "protected"),
    [
        (1024, 1024, 0.9, 1024 * MIB * 9 // 10 // 4096 * 4096),
        (1024, 1024, 0.5, 512 * MIB),
        # At least 4 MiB are left, for whatever else is in the pod.
        (32, 32, 0.9, 28 * MIB),
        (5, 5, 0.9, MIB),
        (4, 4, 0.9, None),
        (1, 1, 0.9, None),
        # The share is the limit's, so less than that is protected as requested.
        (512, 1024, 0.9, 512 * MIB),
        # All of it, if that is wanted.
        (1024, 1024, 1, 1024 * MIB),
        (1, 1, 1, MIB),
        # Without a limit of its own, its pod's may be its request.
        (1024, None, 0.5, 512 * MIB),
    ],
)
def test_room_is_left_below_the_limit_of_a_guaranteed_container(
    request_mib: int, limit_mib: int | None, share: float, protected: int | None
) -> None:
    """Else nothing can be reclaimed in a pod at its limit, and the kernel kills."""
    limit = None if limit_mib is None else limit_mib * MIB
    decision = decided(
        asking(request_mib * MIB, limit),
        GUARANTEED,
        guaranteed_ppm=round(share * 1e6),
        raise_ancestors=True,
    )
    wanted = None if protected is None else str(protected)
    assert decision.files.get("memory.min") == wanted
    assert [write.value for write in decision.writes] == ([wanted] if wanted else [])
    if wanted:
        source = decision.why("memory.min").source
        assert f"share {share:g} from default" in source
    else:
        assert "no room" in left(decision)["memory.min"]


@pytest.mark.parametrize("score", [None, -997, -1000, 0, 2, 1000])
def test_no_estimate_without_a_burstable_score(score: int | None) -> None:
    """Nothing is protected and nothing throttled on a guess."""
    pod = POD._replace(cgroup_parent="", qos_class="Burstable")
    decision = decided(asking(None, oom_score_adj=score), pod)
    assert set(decision.files) == {"memory.max"}


def test_an_estimate_is_never_above_the_limit() -> None:
    """This holds also on a large node, where an estimate is coarse."""
    decision = decided(asking(None, MIB, oom_score_adj=3))
    assert decision.files["memory.low"] == str(MIB)


LARGE = NODE._replace(
    memory_capacity_bytes=256 * GIB, memory_allocatable_bytes=250 * GIB
)


def burstable(request: int, limit: int | None, facts: NodeFacts = LARGE) -> Container:
    """Return a container as NRI shows it: with the score that kubelet gives it."""
    capacity = facts.memory_capacity_bytes
    assert capacity is not None
    score = oom_score_adj(QOSClass.BURSTABLE, request, capacity)
    return asking(None, limit, oom_score_adj=score)


@pytest.mark.parametrize("limit_mib", [64, 300, 4096, 4200, 100_000])
def test_what_may_have_requested_its_limit_is_not_throttled(limit_mib: int) -> None:
    """kubelet does not throttle such a container, and a score does not rule it out."""
    limit = limit_mib * MIB
    decision = decided(burstable(limit, limit), facts=LARGE)
    assert "memory.high" not in decision.files
    assert "may have requested" in left(decision)["memory.high"]


@given(st.integers(0, 64 * GIB), st.integers(1 << 20, 64 * GIB))
def test_an_estimate_never_throttles_below_kubelets_memory_high(
    request: int, limit: int
) -> None:
    """It does not protect more than was requested either."""
    request = min(request, limit)
    decision = decided(burstable(request, limit), facts=LARGE)
    high = decision.files.get("memory.high")
    assert high is None or int(high) >= throttle_at(request, limit, 900_000, 4096)
    assert int(decision.files.get("memory.low", "0")) <= request


def test_what_could_be_a_siblings_score_protects_nothing() -> None:
    """A sidecar has the score of its pod's smallest container, if that is lower."""
    sidecar = burstable(4 * GIB, None)
    decision = decided(sidecar, facts=LARGE)
    assert "memory.low" not in decision.files
    assert "memory-request" in left(decision)["memory.low"]
    level = config(MemoryQoSLevelSettings(enabled=True))
    decision = decide(annotated(qos_level="LC"), sidecar, LARGE, level)
    assert "memory.low" not in decision.files
    # Its own limit is all that it can have requested, and an annotation tells exactly.
    limited = burstable(4 * GIB, 128 * MIB)
    assert decided(limited, facts=LARGE).files["memory.low"] == str(128 * MIB)
    stated = decided(sidecar, annotated(memory_request="64Mi"), LARGE)
    assert stated.files["memory.low"] == str(64 * MIB)


@pytest.mark.parametrize(
    "value",
    ["", "x", "-1", "2Gi", "9" * 200, "1e99", "512Mi\n", "../..", "１Gi", "0x10"],
)
def test_a_hostile_request_is_ignored(value: str) -> None:
    """The refusal is counted, and the next source is used."""
    decision = decided(asking(MIB), annotated(memory_request=value))
    assert decision.files["memory.low"] == str(MIB)
    assert sum(refusals(decision).values()) == 1


@pytest.mark.parametrize("value", ["0", "1.1", "-1", "nan", "inf", "1e-3", "0.0", ""])
def test_a_factor_out_of_range_is_ignored(value: str) -> None:
    """The configured factor stays."""
    decision = decided(asking(0), annotated(memory_throttling_factor=value))
    assert decision.files["memory.high"] == "966365184"
    assert refusals(decision) == {("memoryQoS", "annotation"): 1}


@pytest.mark.parametrize(("value", "high"), [("0.5", 512), ("1", 1024), (".25", 256)])
def test_the_factor_of_an_annotation(value: str, high: int) -> None:
    """It wins over the configured factor."""
    decision = decided(asking(0), annotated(memory_throttling_factor=value))
    assert decision.files["memory.high"] == str(high * MIB)
    assert "annotation memory-throttling-factor" in decision.why("memory.high").source


def test_a_pod_can_opt_out() -> None:
    """An annotation switches the handler off for its pod alone."""
    decision = decided(asking(MIB), annotated(memory_qos="off"), swap="0")
    assert set(decision.files) == {"memory.max"}
    assert "memoryQoS" in left(decision)


def test_a_container_can_opt_out_alone() -> None:
    """A container can also opt in again in a pod that has opted out."""
    both = annotated(memory_qos="off").annotations
    both = {**both, "memory-qos.cgroup2.nri.io/container.app": "on"}
    pod = POD._replace(annotations=both)
    assert "memory.high" in decided(asking(MIB), pod).files
    other = asking(MIB)._replace(name="other")
    assert "memory.high" not in decided(other, pod).files


@pytest.mark.parametrize(
    ("swap", "value"), [("0", "0"), ("max", "max"), ("4096", "4096")]
)
def test_swap_and_oom_group(swap: str, value: str) -> None:
    """As configured, where the node has the files."""
    decision = decided(asking(0), swap=swap, oom_group=False)
    assert decision.files["memory.swap.max"] == value
    assert decision.files["memory.oom.group"] == "0"
    without = NODE._replace(files=FILES - {"memory.swap.max"})
    decision = decided(asking(0), facts=without, swap=swap)
    assert "memory.swap.max" not in decision.files
    assert "no such file" in left(decision)["memory.swap.max"]


def test_the_kubelets_own_values_win() -> None:
    """Its memory QoS competes for our keys, and it always sends swap and oom.group."""
    unified = {
        "memory.high": "4096",
        "memory.low": "8192",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }
    container = asking(MIB)._replace(resources=TYPICAL._replace(unified=unified))
    decision = decided(container, swap="max", oom_group=False)
    assert not set(unified) & set(decision.files)


UNSET = {"memory.high": "max", "memory.low": "0", "memory.min": "0"}


@pytest.mark.parametrize(
    ("pod", "files"),
    [
        (POD, {"memory.low": str(MIB), "memory.high": "966471680"}),
        (GUARANTEED, {"memory.min": str(MIB), "memory.high": "966471680"}),
        (
            annotated(**{"memory.high": str(2 * MIB)}),
            {"memory.low": str(MIB), "memory.high": str(2 * MIB)},
        ),
    ],
)
def test_the_kubelets_defaults_are_nobodys_wish(
    pod: Pod, files: dict[str, str]
) -> None:
    """kubelet sends "not set" where its memory QoS is off: that is not explicit."""
    container = asking(MIB)._replace(resources=TYPICAL._replace(unified=UNSET))
    decision = decide(pod, container, NODE, EngineConfig(base=EVERYTHING_ON))
    for file, value in files.items():
        assert decision.files[file] == value
    off = decide(pod, container, NODE, config())
    assert not set(UNSET) & set(off.files)


def test_the_kubelets_defaults_in_an_update_do_not_undo_ours() -> None:
    """kubelet sends "not set" with every resize, also without a memory limit."""
    given = Resources(unified={"memory.high": "4096", "memory.low": "4096"})
    container = Container(
        name="app",
        resources=given,
        memory_request_bytes=MIB,
        ours=given.unified,
    )
    chosen = config(ON)
    asked = Resources(shares=1024, unified=UNSET)
    files = decide_update(POD, container, asked, NODE, chosen).files
    assert files["memory.low"] == str(MIB)
    assert int(files["memory.high"]) > GIB
    asked = asked._replace(unified={"memory.oom.group": "1"})
    files = decide_update(POD, container, asked, NODE, chosen).files
    assert files == {"cpu.weight": "100"}


def test_ancestors_are_raised_when_asked_for() -> None:
    """They get the sum over their containers before the container has its value."""
    decision = decided(asking(MIB), raise_ancestors=True)
    [write] = decision.writes
    assert (write.file, write.value) == ("memory.low", str(MIB))
    assert (write.level, write.when) == (Level.ANCESTORS, When.BEFORE)
    assert write.part
    assert decided(asking(MIB)).writes == []


def test_ancestors_without_an_executor_are_reported() -> None:
    """The container's own value is sent all the same."""
    facts = NODE._replace(writable=False)
    decision = decided(asking(MIB), facts=facts, raise_ancestors=True)
    assert decision.writes == []
    assert "executor" in left(decision)["memory.low of the ancestors"]
    assert decision.files["memory.low"] == str(MIB)


def test_an_ancestor_with_less_than_its_children() -> None:
    """The children's protection has an effect only in proportion."""
    chain = [
        Ancestor("/kubepods/burstable/pod1", "max", 3 * MIB),
        Ancestor("/kubepods/burstable", str(2 * MIB), 4 * MIB),
        Ancestor("/kubepods", "0", 4 * MIB),
    ]
    assert [(one.path, one.has_bytes) for one in shortfalls(chain)] == [
        ("/kubepods/burstable", 2 * MIB),
        ("/kubepods", 0),
    ]
    assert effective_bytes(MIB, chain) == 0
    assert effective_bytes(MIB, chain[:2]) == MIB // 2
    assert effective_bytes(MIB, chain[:1]) == MIB
