"""Reading YAML: a key that occurs twice is an error."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from nriplugin import documents, plain_documents
from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader in C, and the one for where that is missing."""
    for module in (documents, plain_documents):
        monkeypatch.setattr(module, "LOADER", getattr(yaml, request.param))


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
    with pytest.raises(
        ConfigError, match=r"^file\.yaml: line 1, column 3: not YAML: .*unhashable"
    ):
        load_documents("? [1]\n: 2\n? [1]\n: 3", "file.yaml")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_instead_of_ending_the_process(opening: str) -> None:
    code = (
        "import sys\n"
        "from nriplugin.documents import load_documents\n"
        "from nriplugin.errors import ConfigError\n"
        "try: load_documents(sys.argv[1] * 30000, 'text')\n"
        "except ConfigError as exc: print(exc)\n"
    )
    command = [sys.executable, "-c", code, opening]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = "text: line 1: too much, expected at most 100 nested levels\n"
    assert done.stdout == expected


def test_a_hundred_levels_are_read() -> None:
    assert load_documents("[" * 100 + "]" * 100, "text")


@pytest.mark.parametrize("merge", [False, True])
def test_aliases_for_very_many_values_are_refused(merge: bool) -> None:
    # Without a limit on aliases this takes all memory only with much more of them.
    text = "a: &a0 {x: 1, y: 2}\n"
    for number in range(1, 7):
        aliases = ", ".join([f"*a{number - 1}"] * 9)
        value = f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]"
        text += f"b{number}: &a{number} {value}\n"
    with pytest.raises(ConfigError, match="expected at most 100000 values by aliases"):
        load_documents(text, "text")


def test_ordinary_aliases_are_followed() -> None:
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: &c [*c, *a]\n"
    (document,) = load_documents(text, "text")
    assert document["b"] == {"x": 1, "y": 2}
    assert document["c"][1] == {"x": 1}
