"""Any pod and any container, on any node, with any configuration, for hypothesis."""

from __future__ import annotations

from engine.cases import NODE, SUFFIX
from hypothesis import strategies as st

from nriplugin.convert import UNLIMITED, Curve, Resources
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings, Equivalent
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.resources import ResourcesSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.model import Container, NodeFacts, Pod
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.rules import Match, RuleMatch, compile_patterns
from nriplugin.engine.settings import EngineConfig, Settings

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
    allocated_request_bytes=st.none() | st.integers(0, 1 << 50),
    ours=st.none() | st.dictionaries(files, texts),
)
LEVEL_FILES = {"cpu.qos_level", "memory.qos_level"}
page_sizes = st.sampled_from([4096, 16_384, 65_536])
nodes = st.builds(
    NodeFacts,
    cgroup_version=st.sampled_from([2, 2, 2, 1]),
    page_bytes=page_sizes,
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
    runtime_version=st.sampled_from(["1.7.24", "v2.1.0", "1.35.2", "1.36.0", ""]),
    writable=switches,
)
levels = st.none() | st.sampled_from(QoSLevel)
mostly = st.sampled_from([True, True, False])
never = st.just(False)
chosen = st.builds(
    Settings,
    st.builds(ResourcesSettings, enabled=mostly, fail=never),
    st.builds(
        MemoryQoSSettings,
        enabled=mostly,
        fail=never,
        factor_ppm=st.none() | st.integers(1, 1_000_000),
        protection=switches,
        guaranteed_ppm=st.integers(1, 1_000_000),
        raise_ancestors=switches,
        swap=st.sampled_from([None, "0", "max"]),
        oom_group=st.none() | switches,
    ),
    st.builds(
        CPUBurstSettings,
        enabled=mostly,
        fail=never,
        percent=st.none() | st.integers(1, 100),
    ),
    st.builds(
        CPUQoSSettings,
        enabled=mostly,
        fail=never,
        level=levels,
        equivalent=st.sampled_from(Equivalent),
    ),
    st.builds(
        MemoryQoSLevelSettings,
        enabled=mostly,
        fail=never,
        level=levels,
        equivalent=switches,
    ),
    st.builds(
        UnifiedAnnotationsSettings,
        enabled=mostly,
        fail=never,
        allowed=st.just(ALLOWABLE) | st.frozensets(files),
    ),
)
rules = st.builds(
    RuleMatch,
    st.builds(
        Match,
        namespace=st.none()
        | st.sampled_from([compile_patterns(["*"]), compile_patterns([""])]),
        qos_class=st.none() | st.just(compile_patterns(["Burst*", "?"])),
    ),
    chosen,
)
configs = st.builds(
    EngineConfig,
    curve=st.none() | st.sampled_from(Curve),
    base=chosen,
    rules=st.just(()) | st.tuples(rules),
)

# Numbers of memory that are like each other, so that they meet in every order.
sizes = st.sampled_from([4096, *(n << 26 for n in (1, 2, 3, 4, 16, 64))])
size_texts = sizes.map(str) | st.sampled_from(["0", "max", "64M", "1G", "256Mi"])
memory_files = st.sampled_from(
    ["memory.high", "memory.low", "memory.max", "memory.min"]
)
memory_unified = st.dictionaries(memory_files, size_texts, max_size=2)
memory_resources = st.builds(
    Resources,
    memory_limit_bytes=st.none() | st.just(UNLIMITED) | sizes,
    unified=memory_unified,
)
memory_pods = st.builds(
    Pod,
    annotations=st.dictionaries(
        st.one_of(
            memory_files,
            st.sampled_from(["memory-request", "memory-qos", "qos-level"]),
        ).map(lambda key: key + SUFFIX),
        size_texts | st.sampled_from(["BE", "LC", "off"]),
        max_size=3,
    ),
    qos_class=st.sampled_from([None, "Guaranteed", "Burstable", "BestEffort"]),
)
memory_containers = st.builds(
    Container,
    name=st.just("app"),
    resources=memory_resources,
    oom_score_adj=st.none() | st.integers(900, 1000),
    memory_request_bytes=st.none() | st.just(0) | sizes,
    allocated_request_bytes=st.none() | st.just(0) | sizes,
)
memory_nodes = st.builds(
    NodeFacts,
    cgroup_version=st.just(2),
    page_bytes=page_sizes,
    files=st.just(NODE.files),
    kernel=st.sampled_from([(5, 4), (6, 1)]),
    memory_capacity_bytes=sizes.map(lambda size: size * 16),
    memory_allocatable_bytes=sizes.map(lambda size: size * 16),
    runtime=st.sampled_from(["containerd", "cri-o"]),
    runtime_version=st.sampled_from(["1.35.2", "1.36.0"]),
    writable=switches,
)
memory_configs = st.builds(
    EngineConfig,
    base=st.builds(
        Settings,
        st.builds(ResourcesSettings, enabled=mostly, fail=never),
        st.builds(
            MemoryQoSSettings,
            enabled=mostly,
            fail=never,
            factor_ppm=st.none() | st.integers(1, 1_000_000),
            protection=mostly,
            guaranteed_ppm=st.sampled_from([1, 900_000, 1_000_000]),
            raise_ancestors=switches,
        ),
        st.builds(
            MemoryQoSLevelSettings,
            enabled=mostly,
            fail=never,
            level=levels,
        ),
        st.builds(
            UnifiedAnnotationsSettings,
            enabled=mostly,
            fail=never,
            allowed=st.just(ALLOWABLE),
        ),
    ),
)
