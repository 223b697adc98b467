"""Which tests share a process, and in which order they are handed out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nodes.catalog import NODES

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def rules(request: pytest.FixtureRequest) -> ModuleType:
    """tests/conftest.py, as pytest loaded it."""
    path = str(request.config.rootpath / "tests/conftest.py")
    plugin: Any = request.config.pluginmanager.get_plugin(path)
    assert plugin is not None
    return plugin  # type: ignore[no-any-return]  # pytest does not know its type


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/e2e/test_e2e_odd.py::test_a[containerd-1.6-least]", "containerd-1.6"),
        ("tests/e2e/test_e2e_hook.py::test_a[runc-crio]", "crio"),
        ("tests/e2e/test_e2e_v1.py::test_b[v1]", "v1"),
        ("tests/e2e/test_e2e_a.py::test_a[kubernetes-crio]", "kubernetes-crio"),
        ("tests/e2e/test_e2e_a.py::test_a[kubernetes-cpu up]", "kubernetes"),
        (
            "tests/e2e/test_e2e_a.py::test_a[crun-kubernetes-systemd]",
            "kubernetes-systemd",
        ),
        ("tests/wire/test_wire_mux.py::test_c[v1]", "tests/wire/test_wire_mux.py"),
        ("tests/test_sockets.py::test_d", "tests/test_sockets.py"),
    ],
)
def test_a_test_shares_a_process_with_its_node_or_its_file(
    rules: ModuleType, test: str, scope: str
) -> None:
    """So a node is booted once, and the fixtures of a file are made once."""
    assert rules.scope_of(test) == scope


QUEUE = {"small.py": 2, "large.py": 90, **dict.fromkeys(reversed(NODES), 50)}


def test_nodes_come_first_then_large_files(rules: ModuleType) -> None:
    """The longest node must not be the one that begins last."""
    queue = sorted(QUEUE, key=lambda scope: rules.place_of(scope, QUEUE[scope], NODES))
    assert queue == [*rules.BY_LENGTH, "large.py", "small.py"]


def test_files_come_before_nodes_that_are_being_built(rules: ModuleType) -> None:
    """No process waits for a node while it could run other tests."""
    built = {"v1", "crio"}
    queue = sorted(QUEUE, key=lambda scope: rules.place_of(scope, QUEUE[scope], built))
    first = [node for node in rules.BY_LENGTH if node in built]
    last = [node for node in rules.BY_LENGTH if node not in built]
    assert queue == [*first, "large.py", "small.py", *last]


def test_what_is_built_is_read_whenever_work_is_handed_out(
    rules: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hack/test names a file in which `hack/node build` appends names."""
    monkeypatch.delenv("NRIPLUGIN_NODES_BUILT", raising=False)
    assert set(rules.built_nodes()) == set(NODES)
    file = tmp_path / "built"
    file.write_text("")
    monkeypatch.setenv("NRIPLUGIN_NODES_BUILT", str(file))
    assert [*rules.built_nodes()] == []
    file.write_text("crio\nv1\n")
    assert [*rules.built_nodes()] == ["crio", "v1"]


def test_every_node_has_its_place(rules: ModuleType) -> None:
    """A node that is not in the list would begin last."""
    assert sorted(rules.BY_LENGTH) == sorted(NODES)


def test_every_node_is_used() -> None:
    """No node is built and booted for nothing."""
    tests = Path(__file__).parent.parent / "e2e"
    text = "".join(file.read_text() for file in tests.rglob("test_*.py"))
    assert {name for name in NODES if re.search(f'"{name}"', text)} == set(NODES)


def test_files_that_come_first_are_there(rules: ModuleType) -> None:
    """A file that has another name now would come later without a word."""
    tests = Path(__file__).parent.parent / "e2e"
    assert [name for name in rules.EARLY if not (tests / name).is_file()] == []
