"""Whatever comes in, what goes out is valid, or refused and counted."""

from __future__ import annotations

from typing import Any

from engine.cases import NODE
from hypothesis import given, settings
from hypothesis import strategies as st

from nriplugin.convert import UNLIMITED, Curve, Resources
from nriplugin.convert.kernel import check, quota_in
from nriplugin.engine.deciding import decide
from nriplugin.engine.decision import Decision, Reason
from nriplugin.engine.model import CORE_FILES, Container, NodeFacts, Pod, Use
from nriplugin.engine.rawfiles import ALLOWABLE
from nriplugin.engine.settings import (
    DEFAULT_CONFIG,
    Config,
    CPUBurstSettings,
    CPUQoSSettings,
    Equivalent,
    MemoryQoSLevelSettings,
    MemoryQoSSettings,
    QoSLevel,
    ResourcesSettings,
    Settings,
    UnifiedAnnotationsSettings,
)
from nriplugin.engine.updating import decide_update

SUFFIX = ".cgroup2.nri.io"
KEYS = [
    "cpu-burst",
    "qos-level",
    "memory-qos",
    "memory-request",
    "memory-throttling-factor",
    *sorted(ALLOWABLE),
]
VALUES = [
    "on",
    "off",
    "BE",
    "LC",
    "50%",
    "4096",
    "max",
    "0.5",
    "1",
    "1 2",
    "1Gi",
    "true",
]
NAMES = ["app", "other", "", "x" * 300, "é", "a/b", "../.."]

texts = st.sampled_from(VALUES) | st.text(max_size=300)
numbers = st.one_of(
    st.none(),
    st.integers(-5, 1 << 65),
    st.sampled_from([0, 1, 2, 999, 1000, 100_000, 1024, 1 << 30, (1 << 44) - 1]),
)
amounts = numbers | st.just(UNLIMITED)
switches = st.booleans()


files = st.sampled_from(sorted(ALLOWABLE))
keys = st.one_of(
    st.sampled_from([key + SUFFIX for key in KEYS]),
    st.sampled_from([f"{key}{SUFFIX}/container.app" for key in KEYS]),
    st.sampled_from(
        [
            "volcano.sh/qos-level",
            "volcano.sh/enable-quota-burst",
            "volcano.sh/quota-burst-time",
            "scheduling.k8s.io/group-name",
        ]
    ),
    st.text(max_size=20).map(lambda key: key + SUFFIX),
)
resources = st.builds(
    Resources,
    shares=numbers,
    quota_us=amounts,
    period_us=numbers,
    memory_limit_bytes=amounts,
    memory_swap_bytes=amounts,
    unified=st.just({})
    | st.dictionaries(files | st.text(max_size=10), texts, max_size=3),
)
pods = st.builds(
    Pod,
    uid=st.text(max_size=10),
    namespace=st.text(max_size=10),
    annotations=st.dictionaries(keys, texts, max_size=6),
    qos_class=st.sampled_from([None, "Guaranteed", "Burstable", "BestEffort", "?"]),
    cgroup_parent=st.text(max_size=20)
    | st.sampled_from(["/kubepods/pod1", "kubepods-burstable-pod1.slice", "x/y"]),
    curve=st.none() | st.sampled_from(Curve),
)
containers = st.builds(
    Container,
    name=st.sampled_from(NAMES),
    resources=resources,
    oom_score_adj=st.none() | st.integers(-2000, 2000),
    memory_request_bytes=st.none() | st.integers(0, 1 << 50),
    ours=st.none() | st.sets(files),
)
LEVEL_FILES = {"cpu.qos_level", "memory.qos_level"}
nodes = st.builds(
    NodeFacts,
    files=st.one_of(
        st.just(NODE.files | ALLOWABLE),
        st.just(NODE.files | ALLOWABLE | LEVEL_FILES),
        st.frozensets(files),
    ),
    kernel=st.sampled_from([None, (5, 4), (6, 1)]),
    driver=st.sampled_from([None, "cgroupfs", "systemd"]),
    oci_runtime=st.sampled_from([None, "runc", "crun"]),
    memory_capacity_bytes=st.none() | st.integers(1, 1 << 45),
    memory_allocatable_bytes=st.none() | st.integers(0, 1 << 45),
    runtime=st.sampled_from(["containerd", "cri-o"]),
    writable=switches,
)
levels = st.none() | st.sampled_from(QoSLevel)
mostly = st.sampled_from([True, True, False])
never = st.just(False)
configs = st.builds(
    Config,
    curve=st.none() | st.sampled_from(Curve),
    base=st.builds(
        Settings,
        resources=st.builds(ResourcesSettings, enabled=mostly, fail=never),
        memory_qos=st.builds(
            MemoryQoSSettings,
            enabled=mostly,
            fail=never,
            factor_ppm=st.none() | st.integers(1, 1_000_000),
            protection=switches,
            raise_ancestors=switches,
            swap=st.sampled_from([None, "0", "max"]),
            oom_group=st.none() | switches,
        ),
        cpu_burst=st.builds(
            CPUBurstSettings,
            enabled=mostly,
            fail=never,
            percent=st.none() | st.integers(1, 100),
        ),
        cpu_qos=st.builds(
            CPUQoSSettings,
            enabled=mostly,
            fail=never,
            level=levels,
            equivalent=st.sampled_from(Equivalent),
        ),
        memory_qos_level=st.builds(
            MemoryQoSLevelSettings,
            enabled=mostly,
            fail=never,
            level=levels,
            equivalent=switches,
        ),
        unified_annotations=st.builds(
            UnifiedAnnotationsSettings,
            enabled=mostly,
            fail=never,
            allowed=st.just(ALLOWABLE) | st.frozensets(files),
        ),
    ),
)


def assert_sound(
    decision: Decision, explicit: Any, given_quota: object, facts: NodeFacts
) -> None:
    files = decision.files
    assert set(files) <= facts.files
    assert not set(files) & set(explicit)
    for file, value in files.items():
        check(file, value)
        assert value.strip() == value
        assert value.isascii()
        assert value.isprintable()
        assert value
        why = decision.why(file)
        assert why.handler
        assert why.rule.text
    for write in decision.writes:
        check(write.file, write.value)
        assert facts.writable
    if files.get("cpu.idle") == "1":
        assert "cpu.weight" not in files
        assert "cpu.weight" not in explicit
    if facts.kernel is None or facts.kernel < (5, 9):
        assert files.get("memory.high", "max") == "max"
    if "cpu.max.burst" in files:
        quotas = [given_quota, quota_in(files.get("cpu.max", ""))]
        for quota in quotas:
            assert not isinstance(quota, int) or int(files["cpu.max.burst"]) <= quota
    for refusal in decision.refused:
        assert refusal.reason is not Reason.ERROR, refusal.text
        assert len(refusal.text) < 1000
    assert sum(decision.refusals().values()) == len(decision.refused)


def explicit_of(container: Container) -> set[str]:
    return set(container.resources.unified) - set(container.ours or ())


@settings(max_examples=150, deadline=None)
@given(pods, containers, nodes, configs)
def test_whatever_is_created(
    pod: Pod, container: Container, facts: NodeFacts, config: Config
) -> None:
    """Every file passes its validator, or there is a counted refusal."""
    decision = decide(pod, container, facts, config)
    quota = container.resources.quota_us
    assert_sound(decision, explicit_of(container), quota, facts)


@settings(max_examples=150, deadline=None)
@given(pods, containers, resources, nodes, configs, st.integers(0, 1 << 40))
def test_whatever_is_updated(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: Config,
    used: int,
) -> None:
    """The same holds for updates."""
    decision = decide_update(pod, container, asked, facts, config, Use(used))
    quota = asked.quota_us
    if quota is None:
        quota = container.resources.quota_us
    assert_sound(decision, asked.unified, quota, facts)


@settings(max_examples=50, deadline=None)
@given(pods, containers, nodes, configs)
def test_the_same_inputs_give_the_same_decision(
    pod: Pod, container: Container, facts: NodeFacts, config: Config
) -> None:
    """Nothing is remembered from one container to the next."""
    first = decide(pod, container, facts, config)
    decide(pod, container, NODE, DEFAULT_CONFIG)
    second = decide(pod, container, facts, config)
    for name in ("files", "writes", "left", "refused", "cleared", "warnings"):
        assert getattr(first, name) == getattr(second, name)


@settings(max_examples=50, deadline=None)
@given(pods, containers, nodes)
def test_without_a_configuration_only_the_core_leaves(
    pod: Pod, container: Container, facts: NodeFacts
) -> None:
    """Whatever the pod's annotations say."""
    decision = decide(pod, container, facts, DEFAULT_CONFIG)
    assert set(decision.files) <= CORE_FILES
    assert decision.writes == []
    assert decision.cleared == ()
