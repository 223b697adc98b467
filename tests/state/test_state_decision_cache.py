"""Cached decisions are the same as decisions without a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import APP, FILES, GIB, OURS, container_at, creation, pod_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import FACTS, configure, plugin_on
from engine.cases import NODE
from engine.strategies import chosen, nodes
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import make_v2

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.config import parse_config
from nriplugin.convert import Curve
from nriplugin.doors.nri.messages import read_container, read_pod
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.engine.handlers.cpu_burst import VOLCANO_SWITCH, VOLCANO_TIME
from nriplugin.engine.qos_level import VOLCANO_KEY
from nriplugin.engine.rules import Match, RuleMatch, compile_patterns
from nriplugin.engine.settings import EngineConfig
from nriplugin.errors import NRIPluginError
from nriplugin.kube.podgroup import GROUP_KEYS, JOB_KEYS, QUEUE_KEYS, TASK_KEYS
from nriplugin.state import decision_cache, lifecycle
from nriplugin.state.creation_decision import decide_creation
from nriplugin.state.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, Pod
    from nriplugin.state.decision_cache import CachedDecision

BURST = "cpuBurst: {enabled: true, percent: 50}"

A, B = compile_patterns(["a"]), compile_patterns(["b*"])
MEMBERSHIP = [*GROUP_KEYS, *JOB_KEYS, *QUEUE_KEYS, *TASK_KEYS]

# Few values each, so that requests often differ in one thing only.
names = st.sampled_from(["a", "b", "bc", ""])
# Each list has one value that no rule looks at.
label_maps = st.dictionaries(st.sampled_from(["team", "color", *MEMBERSHIP]), names)
# Annotations of nriplugin's, for another container, hostile ones, and look-alikes.
OWN_KEYS = [
    *(f"{key}{OURS}" for key in ("cpu-burst", "qos-level", "pids.max", "cpu.idle")),
    *(f"{key}{OURS}/container.a" for key in ("memory-request", "cpu-burst", "x")),
    *(f"cpu-burst{OURS}{end}" for end in ("/container.b", "/a", ".example.com/c")),
    *(f"{key}{OURS}" for key in ("", "é", "a\nb", "x" * 300, OURS)),
]
OWN_VALUES = [
    *("20%", "off", "BE", "4096", "max", "1", "256Mi", ""),
    *("300%", "x" * 257, "é", "a\nERROR", "\x1b[31m", "\0"),
]
own_values = st.sampled_from(OWN_VALUES) | st.text(max_size=5)
own_maps = st.dictionaries(
    st.sampled_from(OWN_KEYS) | st.integers(0, 99).map(lambda n: f"n{n}{OURS}"),
    own_values,
    max_size=8,
) | st.integers(60, 70).map(lambda n: {f"{i}.x{OURS}": "1" for i in range(n)})
# Annotations of others: they make the map larger, and so change its order.
foreign_maps = st.integers(0, 40).map(lambda n: {f"other/{i}": "x" for i in range(n)})
annotation_maps = st.one_of(
    st.dictionaries(st.sampled_from(["owner", "color", *MEMBERSHIP]), names),
    st.dictionaries(
        st.sampled_from(
            [
                VOLCANO_SWITCH,
                VOLCANO_TIME,
                VOLCANO_KEY,
                f"cpu-burst{OURS}",
                f"qos-level{OURS}/container.a",
                f"pids.max{OURS}",
            ]
        ),
        st.sampled_from(["true", "false", "20000", "BE", "LC", "30%", "max", "?"]),
        max_size=4,
    ),
    own_maps,
)
parents = st.sampled_from(
    [
        "",
        "/kubepods/podu1",
        "/kubepods/burstable/podu1",
        "/kubepods/besteffort/podu2",
        "kubepods-podu1.slice",
        "kubepods-burstable-podu1.slice",
        "kubepods-besteffort-podu2.slice",
        "/elsewhere",
    ]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "namespace": names,
    "name": names,
    "labels": label_maps,
    "annotations": annotation_maps,
    "parent": parents,
    "uid": st.sampled_from(["u1", "u2", "u3"]),
    "handler": st.sampled_from(["", "runc", "crun", "kata"]),
    "oom_score": st.sampled_from([None, -997, 0, 3, 500, 998, 999, 1000]),
    "shares": st.sampled_from([0, 2, 512, 1024]),
    "quota_us": st.sampled_from([-1, 0, 5, 20_000, 100_000]),
    "period_us": st.sampled_from([0, 50_000, 100_000]),
    "limit_bytes": st.sampled_from([-5, -1, 0, 1 << 20, GIB]),
    "unified": st.dictionaries(
        st.sampled_from(["cpu.weight", "cpu.max", "memory.high", "memory.max"]),
        st.sampled_from(["max", "100", "5000 100000"]),
        max_size=2,
    ),
}
Fields = dict[str, Any]


@st.composite
def requests(draw: st.DrawFn) -> list[Fields]:
    """Return any container, and others that differ from it in one thing each."""
    first = {field: draw(values) for field, values in FIELDS.items()}
    return [first, *({**first, one: draw(FIELDS[one])} for one in FIELDS)]


patterns = st.sampled_from([A, B])
# Rules with one condition each, or hardly any rule would ever match.
matches = st.one_of(
    st.builds(Match, namespace=patterns),
    st.builds(Match, labels=st.fixed_dictionaries({"team": patterns})),
    st.builds(Match, annotations=st.fixed_dictionaries({"owner": patterns})),
    st.builds(Match, qos_class=st.just(compile_patterns(["Burst*"]))),
    st.builds(Match, container=patterns),
    st.builds(Match, pod_group=patterns),
    st.builds(Match, job=patterns),
    st.builds(Match, queue=patterns),
    st.builds(Match, task=patterns),
)
rules = st.lists(st.builds(RuleMatch, matches, chosen), max_size=3)
plans = st.builds(
    Plan,
    config=st.builds(
        EngineConfig,
        curve=st.sampled_from([None, None, Curve.KEP]),
        base=chosen,
        rules=rules.map(tuple),
    ),
    # Mostly a node on which every handler has something to do.
    facts=st.just(NODE) | st.just(NODE) | nodes,
    curves=st.dictionaries(st.sampled_from(["u1", "u2"]), st.sampled_from(Curve)),
)


class Noted:
    """Keeps the refusals and warnings that are noted."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def note(self, who: str, decision: Decision) -> None:
        self.entries.append((who, decision.refused, decision.warnings))


class Asked(NodePlugin):
    """A plugin that keeps the refusals and warnings it notes."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plugin_on().lifecycle)
        self.lifecycle.plans.now = plan
        self.noted = Noted()
        self.lifecycle.log = self.noted  # type: ignore[assignment] # all that is called


def read(request: view.CreateContainerRequest, plan: Plan) -> tuple[Pod, Container]:
    """Return a request's pod and container as the door reads them."""
    pod = read_pod(view.PodSandbox.FromString(request.pod), plan.curves)
    return pod, read_container(request.container)


def message_of(fields: Mapping[str, Any]) -> view.CreateContainerRequest:
    pod = pod_at(
        fields["parent"],
        fields["annotations"],
        namespace=fields["namespace"],
        labels=fields["labels"],
        uid=fields["uid"],
        runtime_handler=fields["handler"],
    )
    app = container_at(
        unified=fields["unified"],
        oom_score=fields["oom_score"],
        shares=fields["shares"],
        quota_us=fields["quota_us"],
        limit_bytes=fields["limit_bytes"],
    )
    app.name = fields["name"]
    app.linux.resources.cpu.period.value = fields["period_us"]
    return creation(pod, app)


def outcome(plugin: Asked, request: view.CreateContainerRequest) -> Any:
    """Return every effect of a request."""
    plugin.noted.entries.clear()
    answer: bytes | str | None
    try:
        response = plugin.create_container(request)
    except NRIPluginError as exc:
        answer = str(exc)
    else:
        answer = response and response.SerializeToString(deterministic=True)
    entry = plugin.lifecycle.inventory.drop(request.container.id)
    plugin.lifecycle.inventory.drop_pod(request.container.pod_sandbox_id)
    # The time of a decision is no part of it.
    entry = entry and entry._replace(decided_at=0.0)
    return answer, entry, list(plugin.noted.entries)


@settings(deadline=None, max_examples=150)
@given(plan=plans, sequence=requests())
def test_a_cached_decision_is_the_one_that_would_be_made(
    plan: Plan, sequence: list[Fields]
) -> None:
    """Answer, writes, refusals and the entry are the same with and without it."""
    remembers = Asked(plan)
    for fields in [*sequence, sequence[0]]:
        request = message_of(fields)
        fresh = Asked(Plan(config=plan.config, facts=plan.facts, curves=plan.curves))
        assert outcome(remembers, request) == outcome(fresh, request)


PLAIN: Fields = {
    "namespace": "a",
    "name": "a",
    "labels": {},
    "annotations": {},
    "parent": "/kubepods/burstable/podu1",
    "uid": "u3",
    "handler": "runc",
    "oom_score": 998,
    "shares": 512,
    "quota_us": 100_000,
    "period_us": 100_000,
    "limit_bytes": GIB,
    "unified": {},
}
MEMORY = "memoryQoS: {enabled: true}"


@settings(deadline=None, max_examples=150)
@given(plans, own_maps, st.lists(foreign_maps, min_size=2), st.data())
def test_requests_with_the_same_key_get_the_same_decision(
    plan: Plan, own: dict[str, str], others: list[dict[str, str]], data: st.DataObject
) -> None:
    """For all annotations of nriplugin's, in any order."""
    decisions: dict[Any, Any] = {}
    changed = data.draw(st.sets(st.sampled_from([*own, "x"])))
    for ours in (own, {**own, **dict.fromkeys(changed, data.draw(own_values))}):
        keys = set()
        for other in others:
            order = data.draw(st.permutations([*ours.items(), *other.items()]))
            request = message_of({**PLAIN, "annotations": dict(order)})
            pod, container = read(request, plan)
            decision = decide_creation(plan, pod, container).decision
            key = plan.cache.key_of(pod, container)
            decided = {
                name: getattr(decision, name)
                for name in ("files", "writes", "left", "refused", "warnings")
            }
            assert decisions.setdefault(key, decided) == decided
            keys.add(key)
        assert len(keys) == 1
        length = sum(len(name) + len(text) for name, text in ours.items())
        if length < decision_cache.MAX_KEY_CHARACTERS // 2:
            assert None not in keys


def rule(match: str) -> str:
    return f"rules: [{{match: {{{match}}}, {BURST}}}]"


# A configuration, and one input that changes the key under it.
TELLING: dict[str, tuple[str, Fields]] = {
    "shares": (BURST, {"shares": 1024}),
    "quota": (BURST, {"quota_us": 20_000}),
    "period": (BURST, {"period_us": 50_000}),
    "limit": (BURST, {"limit_bytes": 1 << 20}),
    "unified": (BURST, {"unified": {"cpu.weight": "7"}}),
    "namespace": (rule("namespace: b"), {"namespace": "b"}),
    "container": (rule("container: b"), {"name": "b"}),
    "label": (rule("labels: {team: b}"), {"labels": {"team": "b"}}),
    "annotation": (rule("annotations: {owner: b}"), {"annotations": {"owner": "b"}}),
    "class": (rule("qosClass: Guaranteed"), {"parent": "/kubepods/podu1"}),
    "class by slice": (
        rule("qosClass: Guaranteed"),
        {"parent": "kubepods-podu1.slice"},
    ),
    "OOM score": (MEMORY, {"oom_score": 990}),
    "no OOM score": (MEMORY, {"oom_score": None}),
    "runtime": ("cpuQoS: {enabled: true, level: BE}", {"handler": "other"}),
    "curve": (BURST, {"uid": "u1"}),
    "ours": ("cpuBurst: {enabled: true}", {"annotations": {f"cpu-burst{OURS}": "9%"}}),
    **{
        f"{kind} by {where} {key}": (rule(f"{kind}: b"), {where: {key: "b"}})
        for kind, keys in (
            ("podGroup", GROUP_KEYS),
            ("job", JOB_KEYS),
            ("queue", QUEUE_KEYS),
            ("task", TASK_KEYS),
        )
        for key in keys
        for where in ("labels", "annotations")
    },
    "Volcano's switch": (BURST, {"annotations": {VOLCANO_SWITCH: "false"}}),
    "Volcano's level": (
        "cpuQoS: {enabled: true}",
        {"annotations": {VOLCANO_KEY: "BE"}},
    ),
}


def plan_of(config: str) -> Plan:
    """Return a plan for a node whose own runtime is not known to be runc."""
    engine = parse_config(config, "test").engine
    facts = NODE._replace(oci_runtime=None)
    return Plan(config=engine, facts=facts, curves={"u1": Curve.KEP})


def assert_told_apart(config: str, one: Fields, other: Fields) -> None:
    remembers = Asked(plan_of(config))
    outcomes = [outcome(remembers, message_of(fields)) for fields in (one, other)]
    assert outcomes[0] != outcomes[1]
    assert outcomes[1] == outcome(Asked(plan_of(config)), message_of(other))


@pytest.mark.parametrize("what", TELLING)
def test_each_input_of_a_decision_changes_the_key(what: str) -> None:
    """One input at a time, under a configuration that depends on it."""
    config, changed = TELLING[what]
    assert_told_apart(config, PLAIN, {**PLAIN, **changed})


def test_the_time_of_volcanos_burst_changes_the_key() -> None:
    """It does so only beside the switch."""
    switched: Fields = {**PLAIN, "annotations": {VOLCANO_SWITCH: "true"}}
    timed = {VOLCANO_SWITCH: "true", VOLCANO_TIME: "30000"}
    assert_told_apart(BURST, switched, {**PLAIN, "annotations": timed})


def test_the_value_of_an_explicit_file_changes_the_key() -> None:
    """A burst depends on the explicit quota."""
    one, other = ({"cpu.max": f"{quota} 100000"} for quota in (5000, 80_000))
    assert_told_apart(BURST, {**PLAIN, "unified": one}, {**PLAIN, "unified": other})


def asked_often(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of every container that is decided about."""
    decided: list[str] = []

    def counted(
        plan: Plan, pod: Pod, container: Container, render: Any
    ) -> CachedDecision:
        decided.append(container.name)
        return decide_creation(plan, pod, container, render)

    monkeypatch.setattr(lifecycle, "decide_creation", counted)
    return decided


def test_an_equal_container_is_not_decided_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ID, and a label that no setting reads, are not part of the key."""
    plugin = plugin_on(FACTS)
    configure(plugin, BURST)
    decided = asked_often(monkeypatch)
    first = plugin.create_container(creation(pod_at(), container_at(number=1)))
    pod = pod_at(labels={"pod-template-hash": "x"}, id="p2", name="web-2", uid="other")
    second = plugin.create_container(creation(pod, container_at("/x/y", 2)))
    assert decided == ["app"]
    assert files_of(second) == files_of(first)
    assert files_of(first)["cpu.max.burst"] == "50000"


def test_a_pod_with_annotations_is_decided_about_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its replicas have the same annotations; another value needs a decision."""
    plugin = plugin_on(FACTS)
    configure(plugin, BURST)
    decided = asked_often(monkeypatch)
    for burst, expected in (("20%", "20000"), ("20%", "20000"), ("30%", "30000")):
        pod = pod_at(annotations={f"cpu-burst{OURS}": burst, "seen": str(decided)})
        answer = plugin.create_container(creation(pod, container_at()))
        assert files_of(answer)["cpu.max.burst"] == expected
    assert len(decided) == 2


def test_the_cache_is_limited_in_number_and_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For any number of different pods, and for long annotations."""
    monkeypatch.setattr(decision_cache, "MAX_DECISIONS", 3)
    plugin = plugin_on(FACTS)
    configure(plugin, BURST)
    decided = asked_often(monkeypatch)
    for shares in range(2, 12):
        plugin.create_container(creation(pod_at(), container_at(shares=shares)))
        assert len(plugin.plan.cache) <= 3
    assert len(decided) == 10
    plugin.create_container(creation(pod_at(), container_at(shares=11)))
    assert len(decided) == 10  # the last one is still there
    long = pod_at(
        annotations={VOLCANO_KEY: "x" * (decision_cache.MAX_KEY_CHARACTERS + 1)}
    )
    for _ in range(2):
        plugin.create_container(creation(long, container_at(shares=11)))
    assert len(decided) == 12


def test_decisions_about_long_values_are_not_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the pod is not part of the key."""
    plugin = plugin_on(FACTS)
    configure(plugin, "")
    decided = asked_often(monkeypatch)
    for length, expected in ((10, 1), (decision_cache.MAX_KEY_CHARACTERS, 3)):
        unified = {"io.max": "8:0 rbps=max " + " " * length}
        for _ in range(2):
            request = creation(pod_at(), container_at(unified=unified))
            plugin.create_container(request)
        assert len(plugin.plan.cache) == 1
        assert len(decided) == expected


def test_a_new_configuration_empties_the_cache() -> None:
    """Neither an old burst nor the lack of one outlives a reload."""
    plugin = plugin_on(FACTS)
    request = creation(pod_at(), container_at())
    for config, burst in (
        (BURST, "50000"),
        ("cpuBurst: {enabled: true, percent: 20}", "20000"),
        ("", None),
        (BURST, "50000"),
    ):
        configure(plugin, config)
        for _ in range(2):
            answer = plugin.create_container(request)
            assert files_of(answer).get("cpu.max.burst") == burst


def test_new_facts_empty_the_cache(tmp_path: Path) -> None:
    """Such as another runtime's name, or a curve that was recognised."""
    plugin = plugin_on(FACTS, make_v2(tmp_path))
    request = creation(pod_at(), container_at())
    before = plugin.plan.cache
    assert files_of(plugin.create_container(request)) == FILES
    plugin.configure(nri.ConfigureRequest(runtime_name="containerd"))
    assert plugin.plan.cache is not before
    (tmp_path / container_at().linux.cgroups_path[1:] / "cpu.weight").write_text("20\n")
    app = container_at(**APP)
    plugin.synchronize([], [creation(pod_at(), app).container])
    assert files_of(plugin.create_container(request))["cpu.weight"] == "20"
