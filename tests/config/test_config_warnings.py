"""Warnings about a valid configuration."""

from __future__ import annotations

import pytest

from nriplugin.config import parse_config
from nriplugin.config.warnings import warnings_about

BURST = "cpuBurst: {enabled: true}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (f"rules: [{{match: {{}}, {BURST}}}]", []),
        # The order of rules.
        (
            f"rules: [{{match: {{}}, {BURST}}}, {{match: {{job: a}}}}]",
            ["rules[1].match: never applies: rules[0] comes first, matches every"],
        ),
        (
            f"rules: [{{match: {{namespace: '*'}}, {BURST}}}, "
            "{match: {container: a}, cpuQoS: {enabled: true}}]",
            ["rules[1].match: never applies: rules[0] comes first, matches every"],
        ),
        (
            f"rules: [{{match: {{namespace: a}}, {BURST}}}, "
            "{match: {namespace: a, labels: {b: c}}, cpuQoS: {enabled: true}}]",
            ["rules[1].match: never applies: rules[0] comes first, matches all that"],
        ),
        (
            "rules: [{match: {labels: {a: '*'}}}, "
            f"{{match: {{namespace: b}}, {BURST}}}]",
            [],  # the first keeps its containers from the second
        ),
        (
            f"rules: [{{match: {{namespace: a}}, {BURST}}}, {{match: {{job: b}}}}]",
            ["rules[1]: has no effect"],
        ),
        # Handlers that are off.
        ("cpuBurst: {percent: 5}", ["cpuBurst: has no effect: cpuBurst.enabled"]),
        ("cpuBurst: {percent: 5, enabled: false}", []),
        (f"cpuBurst: {{percent: 5}}\nrules: [{{match: {{job: a}}, {BURST}}}]", []),
        (
            "rules: [{match: {job: a}, cpuBurst: {percent: 5}}]",
            ["rules[0].cpuBurst: has no effect: cpuBurst.enabled is not true"],
        ),
        ("resources: {enabled: false}", ["resources.enabled: off, as all handlers"]),
        # Single settings.
        ("memoryQoS: {enabled: true}", ["memoryQoS.enabled: protection has no eff"]),
        ("memoryQoS: {enabled: true, raiseAncestors: true}", []),
        ("memoryQoS: {enabled: true, protection: false}", []),
        (
            "memoryQoS: {enabled: true, protection: false, raiseAncestors: true}",
            ["memoryQoS.raiseAncestors: has no effect"],
        ),
        (
            "rules: [{match: {job: a}, memoryQoS: {enabled: true, protection: true}}]",
            ["rules[0].memoryQoS.protection: protection has no effect"],
        ),
        (
            "unifiedAnnotations: {enabled: true}",
            ["unifiedAnnotations.enabled: empty, so that no annotation"],
        ),
        (
            "shadow: true\nresources: {failurePolicy: fail}",
            ["resources.failurePolicy: fail has no effect in shadow mode"],
        ),
        (
            "verify: {enabled: false}\nrepair: {enabled: true}",
            ["verify.enabled: false has no effect"],
        ),
    ],
)
def test_what_has_no_effect_is_told(text: str, expected: list[str]) -> None:
    """Each once, with its place; what has an effect is not mentioned."""
    found = [str(one) for one in warnings_about(parse_config(text, "x"))]
    assert len(found) == len(expected), found
    for one, beginning in zip(found, expected, strict=True):
        assert one.startswith(beginning)
