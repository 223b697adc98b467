from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.trees import make_v2

from nriplugin.doors.hook.host import find_host
from nriplugin.node.state_directory import configured_state_directory, state_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("option", "variable", "directory"),
    [
        (None, None, "/var/lib/nriplugin"),
        (None, "/by/variable", "/by/variable"),
        ("/by/option", "/by/variable", "/by/option"),
        ("/by/option", None, "/by/option"),
        ("", "", "/var/lib/nriplugin"),
    ],
)
def test_the_option_wins_over_the_variable(
    option: str | None, variable: str | None, directory: str
) -> None:
    """The order is option, variable, default; an empty text counts as not given."""
    environ = {} if variable is None else {"NRIPLUGIN_STATE_DIR": variable}
    assert configured_state_directory(option, environ) == directory


def test_a_copy_of_a_tree_has_none_unless_the_option_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of a copy must not get into the journal of the real node."""
    monkeypatch.setenv("NRIPLUGIN_STATE_DIR", "/by/variable")
    make_v2(tmp_path)
    node = find_host({}, None, str(tmp_path)).node_of(None)
    assert state_directory(node) is None
    assert state_directory(node, "/by/option") == "/by/option"
