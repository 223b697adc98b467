from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from support.journals import journalled_tree
from support.trees import POD, QOS

from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.types.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return journalled_tree(tmp_path)


def run(tmp_path: Path, *options: str) -> int:
    root = ["--cgroup-root", str(tmp_path / "cgroup")]
    return main(["restore", "--state-dir", str(tmp_path / "state"), *root, *options])


def test_the_table_says_what_was_done(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that another program changed since is kept, and the table says so."""
    assert run(tmp_path) == 0
    head, qos, pod = capsys.readouterr().out.splitlines()
    assert head.split() == ["PATH", "ORIGINAL", "OURS", "NOW", "ACTION"]
    assert qos.split() == [f"{QOS}/cpu.weight", "100", "200", "200", "restored"]
    assert pod.split(maxsplit=4) == [
        f"{POD}/cpu.weight",
        "100",
        "200",
        "300",
        "left alone: another program has changed it since",
    ]
    assert tree.get(Type.CPU_WEIGHT, QOS) == 100
    assert tree.get(Type.CPU_WEIGHT, POD) == 300


def test_a_dry_run_says_what_would_be_done(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is written, and the journal keeps its rows."""
    for _ in range(2):
        assert run(tmp_path, "--dry-run") == 0
        assert "200  would be restored\n" in capsys.readouterr().out
    assert tree.get(Type.CPU_WEIGHT, QOS) == 200


def test_json_for_programs(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has a list with one object per file, or none."""
    assert run(tmp_path, "--json") == 0
    first, second = json.loads(capsys.readouterr().out)["files"]
    assert first == {
        "path": f"{QOS}/cpu.weight",
        "original": "100",
        "ours": "200",
        "now": "200",
        "action": "restored",
        "reason": "",
    }
    assert second["action"] == "left alone"
    tree.set(Type.CPU_WEIGHT, POD, 200)
    assert run(tmp_path) == 0
    capsys.readouterr()
    assert run(tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == []


def test_what_cannot_be_put_back_is_exit_1(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row says why, and stays in the journal for the next try."""
    file = tmp_path / "cgroup" / QOS.strip("/") / "cpu.weight"
    kept = file.rename(tmp_path / "kept")
    file.mkdir()
    assert run(tmp_path) == 1
    assert f"failed: read {QOS}/cpu.weight" in capsys.readouterr().out
    file.rmdir()
    kept.rename(file)
    assert run(tmp_path) == 0
    assert file.read_text() == "100"


def test_the_state_directory_comes_from_the_environment(
    tree: Tree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NRIPLUGIN_STATE_DIR names the directory, unless --state-dir does."""
    monkeypatch.setenv("NRIPLUGIN_STATE_DIR", str(tmp_path / "state"))
    assert main(["restore", "--cgroup-root", str(tmp_path / "cgroup")]) == 0
    assert tree.get(Type.CPU_WEIGHT, QOS) == 100
    monkeypatch.setenv("NRIPLUGIN_STATE_DIR", str(tmp_path / "nowhere"))
    assert main(["restore"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nriplugin: NRIPLUGIN_STATE_DIR: ")
    assert error.endswith("expected a directory\n")


def test_a_directory_that_is_not_there_is_the_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped --state-dir must not look like a node without changes."""
    assert main(["restore", "--state-dir", str(tmp_path / "typo")]) == 2
    assert capsys.readouterr().err == (
        f"nriplugin: --state-dir: '{tmp_path}/typo', expected a directory\n"
    )


def test_without_a_journal_there_is_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a journal nothing is restored, and none is created."""
    assert main(["restore", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"nothing to restore: {tmp_path} has no journal with entries\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_journal_is_one_line(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file; nothing is written."""
    for name in ("journal.db-wal", "journal.db-shm"):
        (tmp_path / "state" / name).unlink(missing_ok=True)
    (tmp_path / "state" / "journal.db").write_bytes(b"no database at all" * 300)
    assert run(tmp_path) == 1
    assert capsys.readouterr().err == (
        f"nriplugin: journal {tmp_path}/state/journal.db: file is not a database\n"
    )
    assert tree.get(Type.CPU_WEIGHT, QOS) == 200


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run a function as the user `nobody`, if the test runs as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("closed", ["directory", "database", "lock"])
@pytest.mark.parametrize("named", ["--state-dir", "NRIPLUGIN_STATE_DIR"])
def test_a_journal_that_may_not_be_read_is_the_users_mistake(
    closed: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A journal without access must not look like a node without changes."""
    # Not in tmp_path: above that, there may be directories of the user's alone.
    with TemporaryDirectory() as name:
        state, options = Path(name), []
        state.chmod(0o755)
        for file in ("journal.db", "journal.lock"):
            (state / file).touch()
            (state / file).chmod(0o666)
        files = {"database": "journal.db", "lock": "journal.lock", "directory": ""}
        (state / files[closed]).chmod(0)
        if named == "--state-dir":
            options = ["--state-dir", name]
        else:
            monkeypatch.setenv(named, name)
        with without_privileges():
            code = main(["restore", *options])
        state.chmod(0o700)
    assert code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"nriplugin: {named}: {name!r}, expected a directory whose journal you may "
        "read and write: it belongs to root, or to the user who ran the plugin\n"
    )
