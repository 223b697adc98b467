"""The same container through every door, and as without an engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from engine.cases import EVERYTHING_ON, GIB, NODE, POD
from hypothesis import given, settings
from hypothesis import strategies as st

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import Resources, convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.convert.readers import core_from_nri, from_cri, from_nri, from_oci
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.model import CORE_FILES, Container, Pod
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision

ANNOTATIONS = {
    "volcano.sh/qos-level": "BE",
    "cpu-burst.cgroup2.nri.io/container.app": "20%",
    "memory.high.cgroup2.nri.io": "4096",
    "kubernetes.io/config.source": "api",
}


def decided(resources: Resources, pod: Pod) -> Decision:
    container = Container(name="app", resources=resources, oom_score_adj=900)
    return decide(pod, container, NODE, EngineConfig(base=EVERYTHING_ON))


def test_every_door_gives_the_same_decision() -> None:
    """Messages with their protobuf maps give the same decision as plain values."""
    message = nri.LinuxResources(unified={"pids.max": "7"})
    message.cpu.shares.value = 512
    message.cpu.quota.value = 50_000
    message.cpu.period.value = 100_000
    message.memory.limit.value = GIB
    sandbox = nri.PodSandbox(annotations=ANNOTATIONS, labels={"a": "b"})
    of_nri = POD._replace(annotations=sandbox.annotations, labels=sandbox.labels)
    of_cri = SimpleNamespace(
        cpu_shares=512,
        cpu_quota=50_000,
        cpu_period=100_000,
        cpuset_cpus="",
        cpuset_mems="",
        memory_limit_in_bytes=GIB,
        memory_swap_limit_in_bytes=0,
        hugepage_limits=(),
        unified={"pids.max": "7"},
    )
    of_oci = {
        "cpu": {"shares": 512, "quota": 50_000, "period": 100_000},
        "memory": {"limit": GIB},
        "unified": {"pids.max": "7"},
    }
    plain = POD._replace(annotations=ANNOTATIONS)
    decisions = [
        decided(core_from_nri(message), of_nri),
        decided(from_nri(message), of_nri),
        decided(from_cri(of_cri), plain),
        decided(from_oci(of_oci), plain),
    ]
    first = decisions[0]
    assert first.files["cpu.max.burst"] == "10000"
    assert first.files["cpu.idle"] == "1"
    for other in decisions[1:]:
        for name in ("files", "writes", "left", "refused", "cleared"):
            assert getattr(other, name) == getattr(first, name)
    # Asking a protobuf map for a key with [] would have added it.
    assert dict(sandbox.annotations) == ANNOTATIONS


given_resources = st.builds(
    Resources,
    shares=st.none() | st.integers(0, 300_000),
    quota_us=st.none() | st.integers(1000, 10_000_000),
    period_us=st.none() | st.integers(1000, 1_000_000),
    memory_limit_bytes=st.none() | st.integers(0, 1 << 50),
    unified=st.just({}) | st.just({"cpu.weight": "5", "memory.high": "max"}),
)


@settings(max_examples=100, deadline=None)
@given(given_resources)
def test_without_a_configuration_it_is_the_conversion(resources: Resources) -> None:
    """The core files are the converted ones, less explicit ones, at any time."""
    expected = {
        file: value
        for file, value, rule in convert(resources).derived
        if file in CORE_FILES and rule is not EXPLICIT_RULE
    }
    app = Container(resources=resources)
    assert decide(POD, app, NODE, DEFAULT_CONFIG).files == expected
    if resources.quota_us is None:
        expected.pop("cpu.max", None)
    updated = decide_update(POD, Container(), resources, NODE, DEFAULT_CONFIG)
    assert updated.files == expected
