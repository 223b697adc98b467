"""Rules: which settings a container gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine.cases import APP, NODE, POD

from nriplugin.config import parse_config
from nriplugin.engine.decide import decide
from nriplugin.engine.rules import compile_patterns

if TYPE_CHECKING:
    from nriplugin.engine.model import Container, Pod

VOLCANO = POD._replace(
    labels={"app": "train", "volcano.sh/queue-name": "gold"},
    annotations={
        "scheduling.k8s.io/group-name": "train-1234",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "worker",
    },
)


def burst(rules: str, pod: Pod = VOLCANO, container: Container = APP) -> str | None:
    """Return the burst that a rule gives, which names the rule."""
    config = parse_config(f"cpuBurst: {{enabled: true}}\nrules: {rules}", "x").engine
    return decide(pod, container, NODE, config).files.get("cpu.max.burst")


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("{}", True),
        ("{namespace: shop}", True),
        ("{namespace: other}", False),
        ("{namespace: [other, 's*p']}", True),
        ("{namespace: sho}", False),
        ("{namespace: SHOP}", False),
        ("{container: app}", True),
        ("{container: [a, b]}", False),
        ("{qosClass: Burstable}", True),
        ("{qosClass: [Guaranteed, BestEffort]}", False),
        ("{labels: {app: 'tr*'}}", True),
        ("{labels: {app: web}}", False),
        ("{labels: {tier: '*'}}", False),
        ("{annotations: {volcano.sh/job-name: train}}", True),
        ("{annotations: {volcano.sh/job-name: [a, train]}}", True),
        ("{annotations: {x: '*'}}", False),
        ("{podGroup: train-1234}", True),
        ("{podGroup: 'train-*'}", True),
        ("{podGroup: other}", False),
        ("{job: train}", True),
        ("{job: serve}", False),
        ("{queue: gold}", True),
        ("{queue: silver}", False),
        ("{task: worker}", True),
        ("{task: ps}", False),
        ("{namespace: shop, task: worker, queue: gold}", True),
        ("{namespace: shop, task: worker, queue: silver}", False),
        ("{namespace: 'a.c'}", False),  # a dot is a dot
    ],
)
def test_what_a_rule_matches(match: str, matches: bool) -> None:
    """All conditions have to hold, and for each of them one of its names."""
    found = burst(f"[{{match: {match}, cpuBurst: {{percent: 10}}}}]")
    assert (found == "10000") is matches


def test_a_pod_without_a_group_is_in_none() -> None:
    """It does not even match a rule for the group `*`."""
    for key in ("podGroup", "job", "queue", "task"):
        rule = f"[{{match: {{{key}: '*'}}, cpuBurst: {{percent: 10}}}}]"
        assert burst(rule, POD) is None
        assert burst(rule) == "10000"


def test_the_first_match_wins() -> None:
    """Later rules are not tried, and their settings are not mixed in."""
    rules = """
    - match: {container: other}
      cpuBurst: {percent: 10}
    - name: second
      match: {namespace: shop}
      cpuBurst: {percent: 20}
    - match: {container: app}
      cpuBurst: {percent: 30}
    """
    config = parse_config(f"cpuBurst: {{enabled: true}}\nrules: {rules}", "x").engine
    decision = decide(VOLCANO, APP, NODE, config)
    assert decision.files["cpu.max.burst"] == "20000"
    assert decision.settings.rule == "rules[1] (second)"
    assert decision.why("cpu.max.burst").source == "rules[1].cpuBurst.percent"


def test_two_tasks_of_one_group_have_two_policies() -> None:
    """All members of a task on the node get the settings of its rule."""
    rules = """
    - match: {podGroup: train-1234, task: ps}
      cpuBurst: {percent: 10}
    - match: {podGroup: train-1234, task: worker}
      cpuBurst: {percent: 20}
    """
    keys = dict(VOLCANO.annotations)
    found = []
    for uid, task in (("a", "ps"), ("b", "worker"), ("c", "worker"), ("d", "evil")):
        keys["volcano.sh/task-spec"] = task
        pod = VOLCANO._replace(uid=uid, annotations=dict(keys))
        found.append(burst(rules, pod))
    assert found == ["10000", "20000", "20000", None]


def test_a_rule_changes_only_what_it_names() -> None:
    """All other settings are the file's, and after those the defaults."""
    text = """
    memoryQoS: {enabled: true, throttlingFactor: 0.5, protection: false}
    rules:
    - match: {namespace: shop}
      memoryQoS: {protection: true}
    - match: {}
      memoryQoS: {enabled: false}
    """
    config = parse_config(text, "x").engine
    app = APP._replace(memory_request_bytes=1 << 29)
    decision = decide(POD, app, NODE, config)
    assert decision.files["memory.high"] == str(3 << 28)
    assert decision.files["memory.low"] == str(1 << 29)
    assert "factor 0.5 from memoryQoS.throttlingFactor" in (
        decision.why("memory.high").source
    )
    other = decide(POD._replace(namespace="x"), app, NODE, config)
    assert set(other.files) == {"cpu.weight", "cpu.max", "memory.max"}


def test_precedence() -> None:
    """Container annotation, pod annotation, rule, file, default."""
    text = """
    memoryQoS: {enabled: true, throttlingFactor: 0.6}
    rules:
    - match: {namespace: shop}
      memoryQoS: {throttlingFactor: 0.7}
    """
    config = parse_config(text, "x").engine
    default = parse_config("memoryQoS: {enabled: true}", "x").engine
    key = "memory-throttling-factor.cgroup2.nri.io"
    own = f"{key}/container.app"
    app = APP._replace(memory_request_bytes=0)
    elsewhere = POD._replace(namespace="x")
    cases: list[tuple[Pod, Any, float, str]] = [
        (POD._replace(annotations={key: "0.8", own: "0.85"}), config, 0.85, own),
        (POD._replace(annotations={key: "0.8"}), config, 0.8, key),
        (POD, config, 0.7, "rules[0].memoryQoS.throttlingFactor"),
        (elsewhere, config, 0.6, "from memoryQoS.throttlingFactor"),
        (POD, default, 0.9, "from default"),
    ]
    for pod, chosen, factor, source in cases:
        decision = decide(pod, app, NODE, chosen)
        expected = int((1 << 30) * factor) // 4096 * 4096
        assert decision.files["memory.high"] == str(expected)
        assert source in decision.why("memory.high").source


def test_hostile_text_costs_nothing() -> None:
    """Many stars against text made to be slow end; text of no use is not looked at."""
    pattern = compile_patterns(["*a" * 20 + "*b"])
    assert not pattern.fullmatch("a" * 256)  # or, with backtracking, never
    pod = VOLCANO._replace(annotations={"x": "a" * 200_000})
    assert (
        burst("[{match: {annotations: {x: '*'}}, cpuBurst: {percent: 1}}]", pod) is None
    )


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*", "", True),
        ("*", "x\ny", True),
        ("a*c", "abbbc", True),
        ("a*c", "abbbcd", False),
        ("a*b*c", "a1b2b3c", True),
        ("**x**", "x", True),
        ("a.c", "abc", False),
        ("[a]", "a", False),
        ("*-worker-*", "job-worker-0", True),
    ],
)
def test_stars(pattern: str, text: str, matches: bool) -> None:
    """A `*` stands for any characters, and no other character is special."""
    assert (compile_patterns([pattern]).fullmatch(text) is not None) is matches
