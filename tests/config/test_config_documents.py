"""Reading YAML: a key that occurs twice is an error."""

from __future__ import annotations

import pytest
import yaml

from nriplugin import documents
from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader in C, and the one for where that is missing."""
    monkeypatch.setattr(documents, "_LOADER", getattr(yaml, request.param))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("curve: kep\ncurve: auto\n", "line 2: duplicate key 'curve', expected only"),
        (
            "a: {b: 1, 'b': 2}",
            "line 1: duplicate key 'b', expected only that in line 1",
        ),
        ("x:\n- c: {}\n- a: 1\n  b: 2\n  a: 3", "line 5: duplicate key 'a', expected"),
        ("a: 1\n---\nb: 1\nb: 2", "line 4: duplicate key 'b', expected only that in"),
        ("&k a: 1\n*k : 2", "duplicate key 'a', expected"),
        ("1: a\n1: b", "line 2: duplicate key '1', expected"),
        ("{<<: {a: 1}, <<: {b: 1}}", "duplicate key '<<', expected"),
        (f"{'a' * 999}: 1\n{'a' * 999}: 2", "line 2: duplicate key 'aaa"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, message: str) -> None:
    """At every depth and in every document, with the key and its lines."""
    with pytest.raises(ConfigError) as caught:
        load_documents(text, "file.yaml")
    assert str(caught.value).startswith("file.yaml: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("---\n---\na: 1", [None, {"a": 1}]),
        ("a: {x: 1}\nb: {x: 1}", [{"a": {"x": 1}, "b": {"x": 1}}]),
        ("- a: 1\n- a: 2", [[{"a": 1}, {"a": 2}]]),
        ("1: a\n'1': b", [{1: "a", "1": "b"}]),
        (
            "a: &x {p: 1, q: 2}\nb: &y {<<: *x, p: 3}\nc: {<<: *y, q: 4}\nd: *y",
            [
                {
                    "a": {"p": 1, "q": 2},
                    "b": {"p": 3, "q": 2},
                    "c": {"p": 3, "q": 4},
                    "d": {"p": 3, "q": 2},
                }
            ],
        ),
    ],
)
def test_the_same_key_elsewhere_is_fine(text: str, expected: list[object]) -> None:
    """Merges may override keys; other mappings and documents may have the same keys."""
    assert load_documents(text, "file.yaml") == expected


def test_what_contains_itself_is_looked_at_once() -> None:
    """An alias may lead back to its own mapping, and the search still ends."""
    [document] = load_documents("a: &a [*a]", "file.yaml")
    assert document["a"][0] is document["a"]


def test_what_has_no_meaning_as_a_key_is_no_yaml() -> None:
    """A list cannot be a key, whether it occurs once or twice."""
    with pytest.raises(ConfigError, match=r"^file\.yaml: not YAML: .*unhashable"):
        load_documents("? [1]\n: 2\n? [1]\n: 3", "file.yaml")
