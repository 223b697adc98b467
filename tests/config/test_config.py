"""The configuration file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from nriplugin.config import Config, parse_config, read_config
from nriplugin.config.file import file_type
from nriplugin.convert import Curve
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings, Equivalent
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.resources import ResourcesSettings, Send
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.settings import DEFAULT_CONFIG, Settings
from nriplugin.errors import ConfigError
from nriplugin.nri import FailurePolicy

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n", "---\n"])
def test_an_empty_file_is_all_defaults(text: str) -> None:
    """Only the conversion is on, and nothing fails."""
    config = parse_config(text, "x")
    assert config == Config()
    assert config.engine == DEFAULT_CONFIG
    assert config.engine.base.active == ("resources",)
    assert config.engine.base.failing == frozenset()
    assert not config.adopt.enabled
    assert not config.repair.enabled


def test_every_key() -> None:
    """Every key of the file sets the field that it stands for."""
    config = parse_config(
        """
        curve: kep
        failurePolicy: ignore
        resources: {enabled: false, failurePolicy: fail, send: different}
        memoryQoS:
          enabled: true
          throttlingFactor: 0.8
          protection: false
          guaranteedProtection: 0.95
          raiseAncestors: true
          swap: 0
          oomGroup: true
        cpuBurst: {enabled: true, percent: 20}
        cpuQoS: {enabled: true, level: BE, equivalent: weight, preemptable: LS}
        memoryQoSLevel:
          {enabled: true, level: LC, equivalent: false, throttlingFactor: 0.5}
        unifiedAnnotations: {enabled: true, allowed: [pids.max]}
        adopt: {enabled: true, atOnce: 5, perSecond: 1}
        repair: {enabled: true, everySeconds: 5}
        """,
        "x",
    )
    base = config.engine.base
    assert config.engine.curve is Curve.KEP
    assert base.resources == ResourcesSettings(
        enabled=False, fail=True, fail_lost_update=True, send=Send.DIFFERENT
    )
    assert base.of(MemoryQoSSettings) == MemoryQoSSettings(
        enabled=True,
        factor_ppm=800_000,
        protection=False,
        guaranteed_ppm=950_000,
        raise_ancestors=True,
        swap="0",
        oom_group=True,
    )
    assert base.of(CPUBurstSettings) == CPUBurstSettings(enabled=True, percent=20)
    assert base.of(CPUQoSSettings) == CPUQoSSettings(
        enabled=True,
        level=QoSLevel.BE,
        equivalent=Equivalent.WEIGHT,
        preemptable=QoSLevel.LS,
    )
    assert base.of(MemoryQoSLevelSettings) == MemoryQoSLevelSettings(
        enabled=True, level=QoSLevel.LC, equivalent=False, factor_ppm=500_000
    )
    assert base.of(UnifiedAnnotationsSettings).allowed == {"pids.max"}
    assert base.failing == {"resources"}
    assert (config.adopt.at_once, config.adopt.per_second) == (5, 1)
    assert config.repair.every_seconds == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("curvy: kep", r"line 1: curvy: unknown key, .*; did you mean 'curve'\?$"),
        ("curve: kep\ncurve: auto", r"^x.yaml: line 2: duplicate key 'curve'"),
        (
            "memoryQoS: {enabeld: true}",
            r"memoryQoS.enabeld: unknown key, .*'enabled'\?$",
        ),
        ("memoryQos: {}", r"memoryQos: unknown key, .*did you mean 'memoryQoS'\?$"),
        (
            "rules: [{match: {namespaces: a}}]",
            r"rules\[0\].match.namespaces: unknown key, .*'namespace'\?$",
        ),
        (
            "rules: [{match: {}}, {match: {}, cpuBurst: {percent: 200}}]",
            r"rules\[1\].cpuBurst.percent: 200, expected a whole number from 1 to 100",
        ),
        ("rules: [{match: {}, curve: kep}]", r"rules\[0\].curve: unknown key"),
        (
            "rules: [{name: x}]",
            r"rules\[0\].match: missing, expected a mapping with namespace",
        ),
        ("rules: {}", r"rules: {}, expected a list"),
        ("curve: linear", r"curve: \"linear\", expected auto or kep or prop"),
        ("cpuQoS: {level: XX}", r"cpuQoS.level: \"XX\", expected LC or HLS"),
        (
            "cpuQoS: {equivalent: x}",
            r"equivalent: \"x\", expected idle or weight or none",
        ),
        (
            "memoryQoS: {failurePolicy: x}",
            r"failurePolicy: \"x\", expected ignore or fail",
        ),
        (
            "memoryQoS: {swap: none}",
            r"swap: \"none\", expected a whole number not below 0, max or null",
        ),
        (
            "memoryQoS: {swap: -1}",
            r"memoryQoS.swap: -1, expected a whole number not below 0",
        ),
        (
            "memoryQoS: {throttlingFactor: 0}",
            r"memoryQoS.throttlingFactor: 0, expected a number greater than 0",
        ),
        (
            "memoryQoS: {guaranteedProtection: 0}",
            r"memoryQoS.guaranteedProtection: 0, expected a number",
        ),
        (
            "memoryQoS: {guaranteedProtection: null}",
            r"memoryQoS.guaranteedProtection: null, expected a number",
        ),
        (
            "memoryQoS: {throttlingFactor: 1.1}",
            r"throttlingFactor: 1.1, expected .* and not above 1",
        ),
        (
            "memoryQoS: {throttlingFactor: .nan}",
            r"memoryQoS.throttlingFactor: NaN, expected",
        ),
        (
            "memoryQoS: {throttlingFactor: .inf}",
            r"memoryQoS.throttlingFactor: Infinity, exp",
        ),
        ("memoryQoS: true", r"memoryQoS: true, expected a mapping with enabled"),
        ("memoryQoS: {enabled: 1}", r"memoryQoS.enabled: 1, expected true or false"),
        (
            "cpuBurst: {percent: 0}",
            r"cpuBurst.percent: 0, expected a whole number from 1",
        ),
        (
            "podGroups: {file: /a, inCluster: true}",
            r"podGroups: file and inCluster, expected only one of them",
        ),
        ("podGroups: {kubeconfig: a}", r"podGroups.kubeconfig: \"a\", expected"),
        (
            "cpuBurst: {percent: 1, microseconds: 1}",
            r"cpuBurst: percent and microseconds, expected only one",
        ),
        (
            "rules: [{match: {}, "
            "unifiedAnnotations: {allowed: [pids.max, cgroup.kill]}}]",
            r"rules\[0\].unifiedAnnotations.allowed\[1\]: 'cgroup.kill', expected one",
        ),
        ("rules: [{match: {namespace: []}}]", r"rules\[0\].match.namespace: \[\], exp"),
        (
            "rules: [{match: {namespace: ''}}]",
            r"match.namespace: \"\", expected a text that is not",
        ),
        (
            "rules: [{match: {qosClass: best}}]",
            r"qosClass: \"best\", expected BestEffort or Burstable or Guaranteed",
        ),
        (
            "rules: [{match: {labels: {a: 1}}}]",
            r"rules\[0\].match.labels.a: 1, expected",
        ),
        (
            "adopt: {atOnce: -1}",
            r"adopt.atOnce: -1, expected a whole number from 0 to 1000",
        ),
        (
            "repair: {everySeconds: 0}",
            r"repair.everySeconds: 0, expected a whole number",
        ),
    ],
)
def test_a_mistake_is_told_with_its_path(text: str, message: str) -> None:
    """The message is one line that begins with the file's name."""
    with pytest.raises(ConfigError, match=message) as raised:
        parse_config(text, "x.yaml")
    assert str(raised.value).startswith("x.yaml: ")
    assert "\n" not in str(raised.value)


def test_the_failure_policy_is_that_of_handlers_without_one() -> None:
    """A handler's own policy wins, in the file and in a rule."""
    config = parse_config(
        """
        failurePolicy: fail
        memoryQoS: {failurePolicy: ignore}
        rules:
        - match: {}
          cpuBurst: {failurePolicy: ignore}
        """,
        "x",
    )
    assert config.failure_policy is FailurePolicy.FAIL
    every = {"resources", "cpuBurst", "cpuQoS", "memoryQoSLevel", "unifiedAnnotations"}
    every |= {"quotaBurst", "startupBoost", "memoryGuard", "proactiveReclaim"}
    assert config.engine.base.failing == every
    [rule] = config.engine.rules
    assert rule.settings.failing == every - {"cpuBurst"}


def test_a_rules_burst_takes_the_place_of_the_files() -> None:
    """Percent replaces microseconds, and the other way round."""
    config = parse_config(
        "cpuBurst: {microseconds: 5}\nrules: [{match: {}, cpuBurst: {percent: 7}}]", "x"
    )
    assert config.engine.base.of(CPUBurstSettings).microseconds == 5
    [rule] = config.engine.rules
    assert rule.settings.of(CPUBurstSettings) == CPUBurstSettings(percent=7)


def test_null_switches_off_what_the_file_switched_on() -> None:
    """A rule can remove a factor that the file sets."""
    config = parse_config(
        "memoryQoS: {swap: max}\n"
        "rules: [{match: {}, memoryQoS: {throttlingFactor: null, swap: null}}]",
        "x",
    )
    assert config.engine.base.of(MemoryQoSSettings).swap == "max"
    [rule] = config.engine.rules
    assert rule.settings.of(MemoryQoSSettings).factor_ppm is None
    assert rule.settings.of(MemoryQoSSettings).swap is None


def test_origins_name_the_place() -> None:
    """A decision can say which place in the file set a value."""
    config = parse_config(
        "cpuBurst: {percent: 5}\nrules: [{match: {}, memoryQoS: {swap: 0}}]", "x"
    )
    [rule] = config.engine.rules
    assert config.engine.base.origin("cpuBurst.percent") == "cpuBurst.percent"
    assert rule.settings.origin("cpuBurst.percent") == "cpuBurst.percent"
    assert rule.settings.origin("memoryQoS.swap") == "rules[0].memoryQoS.swap"
    assert Settings().origin("memoryQoS.swap") == "default"


def test_the_example_is_valid() -> None:
    """And shows every top-level key; one that changes something by being there is a
    comment.
    """
    example = DEPLOY / "config.example.yaml"
    config = read_config(str(example))
    assert len(config.engine.rules) >= 2
    text = example.read_text(encoding="utf-8")
    for field in msgspec.structs.fields(file_type()):
        assert re.search(rf"^(# )?{field.encode_name}:", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("", True),
        ("failurePolicy: fail", True),
        ("failurePolicy: ignore", False),
        ("resources: {failurePolicy: ignore}", False),
        ("failurePolicy: ignore\nresources: {failurePolicy: fail}", True),
    ],
)
def test_an_update_that_would_be_lost_fails_unless_the_file_says_otherwise(
    text: str, fails: bool
) -> None:
    """Without a policy in the file, kubelet has to learn that a resize failed."""
    config = parse_config(text, "x")
    assert config.engine.base.resources.fail_lost_update is fails
    assert config.engine.without_handlers().base.resources.fail_lost_update is fails


def test_the_schema_is_that_of_the_code() -> None:
    """After a change of the types, the schema has to be made again."""
    schema = json.loads((DEPLOY / "config.schema.json").read_text(encoding="utf-8"))
    made = msgspec.json.schema(file_type())
    assert {key: schema[key] for key in made} == json.loads(json.dumps(made))
