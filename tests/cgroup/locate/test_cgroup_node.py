"""Whether a node's cgroups can be written at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.trees import CGROUPS, make

from nriplugin.cgroup.locate.detect import DetectedNode, detect_node

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.files import Files


def closed(files: Files) -> None:
    files.close()  # type: ignore[attr-defined] # LocalFiles, here


def node_at(tmp_path: Path, version: int, cgroups: tuple[str, ...]) -> DetectedNode:
    closed(make(version, tmp_path / "cgroup", cgroups).files)
    environ = {"CGROUP_DRIVER": "cgroupfs"}
    return detect_node(environ, str(tmp_path), str(tmp_path / "cgroup"))


@pytest.mark.parametrize(
    ("version", "cgroups", "asked"),
    [
        (2, CGROUPS, "cgroup/kubepods"),
        (2, (), "cgroup"),
        (1, CGROUPS, "cgroup/cpu/kubepods"),
        (1, (), "cgroup/cpu"),
    ],
)
@pytest.mark.parametrize("answer", [True, False])
def test_the_deepest_directory_that_is_there_is_asked(
    version: int,
    cgroups: tuple[str, ...],
    asked: str,
    answer: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On v1 a hierarchy is asked, because the directory of the mounts is read-only."""
    node = node_at(tmp_path, version, cgroups)
    assert node.version.number == version
    calls: list[tuple[str, int]] = []

    def access(path: str, mode: int) -> bool:
        calls.append((path, mode))
        return answer

    monkeypatch.setattr(os, "access", access)
    assert node.writable() is answer
    assert calls == [(str(tmp_path / asked), os.W_OK)]


def test_a_tree_that_is_gone_cannot_be_written(tmp_path: Path) -> None:
    """A missing tree is not writable, and raises nothing."""
    node = node_at(tmp_path, 2, ())
    (tmp_path / "cgroup").rename(tmp_path / "elsewhere")
    assert not node.writable()


def test_a_directory_of_our_own_can_be_written(tmp_path: Path) -> None:
    """A directory that this process may write to is writable."""
    assert node_at(tmp_path, 2, CGROUPS).writable()
