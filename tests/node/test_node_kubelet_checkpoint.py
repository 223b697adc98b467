"""Looks at kubelet's checkpoint: files that are replaced, wrong, gone or no files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.checkpoints import checkpoint_text, replace
from support.trees import UID

from nriplugin.node.directory_events import DirectoryEvents
from nriplugin.node.kubelet_checkpoint import KubeletCheckpoint

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "allocated_pods_state"


def requesting(memory: str) -> bytes:
    return checkpoint_text({UID: {"app": memory}})


def test_a_replaced_file_is_read_again(path: Path) -> None:
    """And one that is the same as at the last look is not."""
    checkpoint = KubeletCheckpoint(str(path))
    assert not checkpoint.look()
    assert (checkpoint.found, checkpoint.problem) == (False, "")
    replace(path, requesting("64Mi"))
    assert checkpoint.look()
    assert checkpoint.requests == {UID: {"app": 64 * MIB}}
    assert not checkpoint.look()
    assert checkpoint.reads == 1
    replace(path, requesting("96Mi"))  # as many bytes as before
    assert checkpoint.look()
    assert checkpoint.requests == {UID: {"app": 96 * MIB}}
    assert (checkpoint.reads, checkpoint.failures) == (2, 0)


def test_an_equal_file_changes_nothing(path: Path) -> None:
    """kubelet may write the same content again."""
    checkpoint = KubeletCheckpoint(str(path))
    replace(path, requesting("64Mi"))
    assert checkpoint.look()
    replace(path, requesting("64Mi"))
    assert not checkpoint.look()
    assert checkpoint.reads == 2


def test_a_file_that_is_gone_leaves_no_requests(path: Path) -> None:
    """An operator deletes it to begin anew."""
    checkpoint = KubeletCheckpoint(str(path))
    replace(path, requesting("64Mi"))
    checkpoint.look()
    path.unlink()
    assert checkpoint.look()
    assert checkpoint.requests == {}
    assert (checkpoint.found, checkpoint.problem, checkpoint.failures) == (False, "", 0)
    replace(path, requesting("64Mi"))
    assert checkpoint.look()


def test_a_wrong_file_leaves_the_last_requests_and_is_counted_once(path: Path) -> None:
    """Until it is another file."""
    checkpoint = KubeletCheckpoint(str(path))
    replace(path, requesting("64Mi"))
    checkpoint.look()
    replace(path, b'{"data": "half')
    for _ in range(3):
        assert not checkpoint.look()
    assert checkpoint.requests == {UID: {"app": 64 * MIB}}
    assert "expected kubelet's checkpoint" in checkpoint.problem
    assert checkpoint.failures == 1
    replace(path, requesting("1Mi"))
    assert checkpoint.look()
    assert (checkpoint.problem, checkpoint.failures) == ("", 1)


def test_a_file_that_may_not_be_read_is_counted_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads every file, so that open fails is played here."""
    replace(path, requesting("64Mi"))
    checkpoint = KubeletCheckpoint(str(path))

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        for _ in range(3):
            assert not checkpoint.look()
    assert (checkpoint.problem, checkpoint.failures) == ("Permission denied", 1)
    os.chmod(path, 0o640)  # shows in the inode
    assert checkpoint.look()
    assert checkpoint.problem == ""


def test_what_is_no_file_is_not_opened_for_ever(path: Path) -> None:
    """A pipe without a writer would block, and a directory has no text."""
    checkpoint = KubeletCheckpoint(str(path))
    os.mkfifo(path)
    assert not checkpoint.look()
    assert checkpoint.problem == "not a regular file"
    path.unlink()
    path.mkdir()
    assert not checkpoint.look()
    assert checkpoint.problem in ("not a regular file", "Is a directory")


def test_a_file_in_the_place_of_the_directory(path: Path) -> None:
    """It cannot be looked up, which is a failure and not an absent file."""
    path.write_bytes(b"")
    checkpoint = KubeletCheckpoint(f"{path}/allocated_pods_state")
    assert not checkpoint.look()
    assert (checkpoint.problem, checkpoint.failures) == ("Not a directory", 1)


def test_a_rename_ends_the_wait(path: Path) -> None:
    """Also after the directory was created again; `wake` ends it, too."""
    missing = DirectoryEvents(str(path.parent / "missing"))
    assert not missing.watch()
    missing.wake()
    missing.wait(600)
    (path.parent / "missing").mkdir()
    assert missing.watch()
    missing.close()
    events = DirectoryEvents(str(path.parent))
    assert events.watch()
    replace(path, b"")
    events.wait(600)
    events.close()
