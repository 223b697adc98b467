"""The fast way from YAML to values, compared with the usual one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nriplugin import documents
from nriplugin import plain_documents as plain_documents_module
from nriplugin.documents import load_documents, load_documents_and_lines
from nriplugin.errors import ConfigError
from nriplugin.plain_documents import MAX_DEPTH, plain_documents

TOP = Path(__file__).parent.parent
FILES = [
    *(TOP / "deploy").glob("**/*.yaml"),
    *(TOP / "examples").glob("**/*.yaml"),
    *(TOP / "tests/data").glob("**/*.yaml"),
]


def usual(text: str | bytes) -> list[Any]:
    """Return what the usual way reads."""
    return [document for document, _ in load_documents_and_lines(text, "test")]


def test_files_are_read_alike() -> None:
    """The manifests and configurations of this repository, of which most are plain."""
    fast = 0
    for file in FILES:
        text = file.read_bytes()
        try:
            expected = repr(usual(text))
        except ConfigError:  # a template of the Helm chart
            assert plain_documents(text) is None, file
            continue
        found = plain_documents(text)
        fast += found is not None
        assert found is None or repr(found) == expected, file
    assert fast > len(FILES) / 4


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader in C, and the one for where that is missing."""
    for module in (documents, plain_documents_module):
        monkeypatch.setattr(module, "LOADER", getattr(yaml, request.param))


PLAIN = [
    "",
    "---\n",
    "---\n---\na: 1\n...\n",
    "a: [1, 0777, 0x1f, 0b11, 1_000, 12:30:45, 1e3, 1.5e+3, .5, .inf, -.INF]",
    "[yes, No, on, OFF, true, False, ~, null, '', NULL, y]",
    "[2026-11-01, 2026-11-01T10:00:00Z, 2026-11-01 10:00:00.5 -7]",
    "{'1': a, 7: b, \"true\": c, ~: d, 2.5: e, yes: f}",
    "a: |\n  one\n  two\nb: >-\n  one\n  two\nc: one\n  two\nd: 'it''s'\n",
    "'<<': 1\n\"=\": 2\n",
    "- - - {a: [{}, [], {b: }]}\n- c\n",
    "# nothing\n",
    "%YAML 1.1\n---\na: b\n",
    "\ufeffa: b\n",
    'a: "\\u00e9\\n"\nb: é\n',
    "[" * MAX_DEPTH + "]" * MAX_DEPTH,
]


@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize("text", PLAIN)
def test_plain_texts_are_read_fast(text: str) -> None:
    """Each scalar has the value and the type that it has the usual way."""
    found = plain_documents(text)
    assert found is not None
    assert repr(found) == repr(usual(text))
    assert plain_documents(text.encode()) == found


RARE = [
    "a: &x 1\n",
    "a: &x {b: 1}\nc: *x\n",
    "a: !!str 1\n",
    "a: ! 1\n",
    "a: !!set {b}\n",
    "a: {<<: {b: 1}}\n",
    "a: 1\na: 2\n",
    "1: a\n0x1: b\n",
    "? [a]\n: b\n",
    "? {a: b}\n: c\n",
    "=: 1\n",
    "a: 2026-13-01\n",
    "{{{\n",
    "a: b: c\n",
    "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
]


@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize("text", RARE)
def test_anything_else_is_left_to_the_usual_way(text: str) -> None:
    """The result, or the mistake that is named, is then that of the usual way."""
    assert plain_documents(text) is None
    try:
        expected = repr(usual(text))
    except ConfigError as exc:
        expected = str(exc)
    try:
        found = repr(load_documents(text, "test"))
    except ConfigError as exc:
        found = str(exc)
    assert found == expected


def test_bytes_that_are_no_text() -> None:
    """They are a mistake the usual way."""
    assert plain_documents(b"a: \xff\n") is None


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["1", "yes", "~", "<<", "=", "1:30", "2026-11-01", "- a", "a: b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.text(max_size=8), below, max_size=4)
    ),
    max_leaves=20,
)


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


@given(VALUES, st.sampled_from([True, False, None]), st.sampled_from([None, '"', "'"]))
def test_any_value_is_read_alike(value: object, flow: bool | None, style: str) -> None:
    """However PyYAML writes it, which for some texts is with a tag."""
    text = yaml.dump(
        value,
        Dumper=_WithoutAliases,
        default_flow_style=flow,
        default_style=style,
        allow_unicode=True,
        sort_keys=False,
    )
    try:
        expected = repr(usual(text))
    except ConfigError:
        expected = None
    found = plain_documents(text)
    if found is None:
        assert expected is None or "!!" in text
    else:
        assert repr(found) == expected
