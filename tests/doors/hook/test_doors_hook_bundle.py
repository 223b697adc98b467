from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from doors.hook.bundles import feeding
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.doors.hook.bundle import (
    MAX_STATE_BYTES,
    ContainerState,
    HookError,
    read_spec,
    read_state,
)

if TYPE_CHECKING:
    from pathlib import Path

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def read(content: bytes) -> ContainerState:
    with feeding(content) as fd:
        return read_state(fd)


def test_a_state_is_read() -> None:
    """ID, bundle and process ID are read; other fields are ignored."""
    state = {"ociVersion": "1.2.1", "id": "a", "pid": 7, "bundle": "/b", "new": [1]}
    assert read(json.dumps(state).encode()) == ContainerState("a", "/b", 7)


@pytest.mark.parametrize("pid", [None, 0, -1, True, "7", 1.5])
def test_no_process_is_none(pid: object) -> None:
    """A value that cannot be a process ID counts as none."""
    state = {"id": "a", "bundle": "/b", "pid": pid}
    assert read(json.dumps(state).encode()).pid is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "state: not JSON"),
        (b"\xff", "state: not JSON"),
        (b"[]", "state: expected a JSON object"),
        (b"[" * 100_000, "state: nested too deeply"),
        (b'{"bundle": "/b"}', "state: id: None, expected a name"),
        (b'{"id": "a", "bundle": "b"}', "state: bundle: 'b', expected an absolute"),
        (b'{"id": "a", "bundle": "/\\u0000"}', "state: bundle: "),
        (b" " * (MAX_STATE_BYTES + 1), "more than 4194304 bytes"),
    ],
)
def test_a_state_that_is_none_is_refused(content: bytes, says: str) -> None:
    """The error names the field, the value and what was expected."""
    with pytest.raises(HookError) as caught:
        read(content)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_closed_descriptor_is_refused() -> None:
    """A closed standard input is a HookError, not a crash."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    os.close(read_end)
    with pytest.raises(HookError, match="state: Bad file descriptor"):
        read_state(read_end)


@given(ANY_JSON)
def test_any_json_is_read_or_refused(document: object) -> None:
    """Any JSON is read or refused with HookError; nothing else is raised."""
    with suppress(HookError):
        read(json.dumps(document).encode())


def test_a_bundle_without_a_configuration_is_refused(tmp_path: Path) -> None:
    """The error names the missing file."""
    with pytest.raises(HookError, match=r"config\.json'?: No such file"):
        read_spec(str(tmp_path))


def test_a_configuration_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading stops at the size limit."""
    monkeypatch.setattr("nriplugin.doors.hook.bundle.MAX_SPEC_BYTES", 100)
    (tmp_path / "config.json").write_text('{"annotations": {}}' + " " * 200_000)
    with pytest.raises(HookError, match="more than 100 bytes"):
        read_spec(str(tmp_path))
