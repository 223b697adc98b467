"""All mistakes of a configuration at once, with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nriplugin.config import parse_config
from nriplugin.config.mistakes import MAX_MISTAKES, all_mistakes
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = """\
curve: linear
memoryQos: {enabled: true}
memoryQoS:
  enabeld: true
  throttlingFactor: 7
percent: 3
cpuQoS: {level: be}
cpuQoS: {level: LS}
unifiedAnnotations: {allowed: [cgroup.kill, pids.max, memory.hig]}
rules:
- match: {namespaces: a, labels: {app.kubernetes.io/name: 1, x: a, y: [], z: [1]}}
  cpuBurst: {percent: 1, microseconds: 5}
- name: b
- 7
- match: {qosClass: [burstable], labels: {1: a}}
  shadow: 3
"""


def lines_of(text: str) -> Sequence[str]:
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "x")
    return raised.value.lines


def test_every_mistake_has_its_line_and_place() -> None:
    """In the order of the file; what is wrong hides nothing after it."""
    assert [line.split(": ")[1:3] for line in lines_of(FILE)] == [
        ["line 1", "curve"],
        ["line 2", "memoryQos"],
        ["line 4", "memoryQoS.enabeld"],
        ["line 5", "memoryQoS.throttlingFactor"],
        ["line 6", "percent"],
        ["line 8", "duplicate key 'cpuQoS', expected only that in line 7"],
        ["line 9", "unifiedAnnotations.allowed[0]"],
        ["line 9", "unifiedAnnotations.allowed[2]"],
        ["line 11", "rules[0].match.labels.app.kubernetes.io/name"],
        ["line 11", "rules[0].match.labels.y"],
        ["line 11", "rules[0].match.labels.z[0]"],
        ["line 11", "rules[0].match.namespaces"],
        ["line 12", "rules[0].cpuBurst"],
        ["line 13", "rules[1].match"],
        ["line 14", "rules[2]"],
        ["line 15", "rules[3].match.labels"],
        ["line 15", "rules[3].match.qosClass[0]"],
        ["line 16", "rules[3].shadow"],
    ]


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("memoryQos", "memoryQoS"),
        ("memoryQoS.enabeld", "enabled"),
        ("unifiedAnnotations.allowed[2]", "memory.high"),
        ("rules[0].match.namespaces", "namespace"),
        ("rules[3].match.qosClass[0]", "Burstable"),
    ],
)
def test_a_misspelt_word_is_recognised(place: str, advice: str) -> None:
    """The nearest of the words that are accepted there, also in another case."""
    [line] = [line for line in lines_of(FILE) if f": {place}: " in line]
    assert line.endswith(f"; did you mean {advice!r}?")


def test_a_key_at_the_wrong_place_is_recognised() -> None:
    """`raiseAncestors` is a key of memoryQoS; `enabled` is one of all."""
    [line] = lines_of("raiseAncestors: true")
    assert line.endswith("; did you mean memoryQoS.raiseAncestors?")
    [line] = lines_of("enabled: true")
    assert "did you mean" not in line


def test_the_text_of_the_error_is_one_line() -> None:
    """A log gets the first mistake and the number of the others."""
    with pytest.raises(ConfigError) as raised:
        parse_config("a: 1\nb: 2\nc: 3", "x")
    assert str(raised.value).startswith("x: line 1: a: unknown key")
    assert str(raised.value).endswith(" (and 2 more mistakes)")
    assert len(raised.value.lines) == 3


@pytest.mark.parametrize("text", ["- 1", "7", "text", "[[]]", "false", "{1: 2}"])
def test_what_is_no_mapping_is_one_mistake(text: str) -> None:
    """There is nothing to go on with."""
    [line] = lines_of(text)
    assert line.startswith("x: line 1: ")
    assert "expected a" in line


def test_the_number_of_mistakes_is_bounded() -> None:
    """A file of another kind does not take forever."""
    assert len(lines_of("\n".join(f"k{n}: 1" for n in range(500)))) == MAX_MISTAKES


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    items: list[Item]
    size: int


def test_what_cannot_be_taken_out_ends_the_search() -> None:
    """An item that lacks a text is told once, and so is what was found before."""
    document = {"items": [{"name": "a"}, {}, 7], "size": "big"}
    left, mistakes = all_mistakes(document, Listed)
    assert left is None
    assert ("items[1].name", "missing, expected a text") in mistakes
    assert len(mistakes) == len(set(mistakes))
    assert document == {"items": [{"name": "a"}, {}, 7], "size": "big"}


KEYS = (
    st.sampled_from(
        [
            "rules",
            "match",
            "labels",
            "namespace",
            "memoryQoS",
            "enabled",
            "swap",
            "x",
            1,
        ]
    )
    | st.dates()
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
DOCUMENTS = st.recursive(
    SCALARS | st.dates(),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4)
    ),
    max_leaves=20,
)


@given(DOCUMENTS)
@settings(deadline=None, max_examples=300)
def test_no_document_is_too_odd(document: object) -> None:
    """Whatever YAML can hold is accepted, or refused with the line of each mistake."""
    try:
        parse_config(yaml.safe_dump(document), "x")
    except ConfigError as exc:
        assert all(line.startswith("x: ") for line in exc.lines)  # noqa: PT017


@pytest.mark.parametrize(
    "text",
    ["a: &a [*a]", "rules: &a [*a]", "memoryQoS: &a {swap: *a}", "2020-01-01: 1"],
)
def test_an_endless_alias_is_a_mistake(text: str) -> None:
    """And so is a key that is no text."""
    assert lines_of(text)
