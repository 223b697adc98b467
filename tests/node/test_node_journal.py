"""Direct writes: systemd and the journal come before the file."""

from __future__ import annotations

import sqlite3
from errno import EROFS
from typing import TYPE_CHECKING

import pytest
from node.writing import kernel_with, part, write
from support.trees import CONTAINER, POD, make_v2

from nriplugin.cgroup.journal.journal import DATABASE, ENV_STATE_DIR, Journal
from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status
from nriplugin.engine.decision import Level, When
from nriplugin.errors import CgroupError, JournalError
from nriplugin.node.direct_writes import DirectWriter

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.types.registry import Resource


class Systemd:
    """A writer that takes every write, as systemd does for its units."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def write(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> bool | str:
        self.asked.append((resource.file, cgroup, content))
        tree.files.write(resource.path(cgroup), content)
        return True

    def settled(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> tuple[str, str]:
        return content, ""


def test_systemd_is_asked_first() -> None:
    """A write past systemd is lost with the next daemon-reload."""
    kernel, systemd = kernel_with(), Systemd()
    writer = DirectWriter(kernel.tree, Executor(kernel.tree, writer=systemd))
    writes = [
        part("memory.low", 8192, Level.ANCESTORS),
        write("cpu.weight", "59"),
    ]
    outcomes = writer.carry_out(writes, When.BEFORE, POD, CONTAINER)
    assert all(outcome.by_writer for outcome in outcomes)
    assert ("memory.low", POD, "8192") in systemd.asked
    assert ("cpu.weight", CONTAINER, "59") in systemd.asked
    assert len(systemd.asked) == len(kernel.writes)


def test_the_journal_knows_before_the_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for pods and cgroups above; `restore` puts back the journal's values."""
    kernel = kernel_with()
    known: list[bool] = []
    taken = kernel.write

    def looking(path: str, value: str) -> None:
        with sqlite3.connect(tmp_path / DATABASE) as other:
            found = other.execute("SELECT original FROM journal WHERE path = ?", [path])
            known.append(found.fetchone() == (kernel.files[path],))
        other.close()
        taken(path, value)

    monkeypatch.setattr(kernel, "write", looking)
    journal = Journal(str(tmp_path))
    writer = DirectWriter(kernel.tree, Executor(kernel.tree, journal=journal), journal)
    writer.carry_out(
        [part("memory.low", 8192, Level.ANCESTORS), write("cpu.weight", "59")],
        When.BEFORE,
        POD,
        CONTAINER,
    )
    writer.close()
    assert known == [True] * 4


def test_without_a_journal_to_write_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that could not be undone is refused."""
    kernel = kernel_with()
    journal = Journal(str(tmp_path))
    writer = DirectWriter(kernel.tree, Executor(kernel.tree, journal=journal), journal)

    def full(_: object) -> None:
        raise JournalError("journal: disk full")

    monkeypatch.setattr(journal, "record", full)
    [outcome] = writer.put({"cpu.weight": "59"}, CONTAINER)
    assert (outcome.status, outcome.reason) == (Status.REFUSED, "journal: disk full")
    assert kernel.writes == []
    writer.close()


def originals(directory: Path) -> list[str] | None:
    """Return the values that a journal would put back; None without a journal."""
    if not directory.exists():
        return None
    with Journal(str(directory)) as journal:
        return [row.original for row in journal.rows()]


@pytest.mark.parametrize("where", ["argument", "environment", "neither"])
def test_the_direct_writer_of_a_node(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes to a copy in a plain directory are not in the node's own journal."""
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    monkeypatch.setenv(ENV_STATE_DIR, str(elsewhere))
    root = tmp_path / "cgroup"
    make_v2(root).files.close()  # type: ignore[attr-defined] # LocalFiles, here
    node = detect_node({}, str(tmp_path), str(root))
    with node.open_files() as files:
        tree = Tree(files, 2)
        if where == "environment":
            node = node._replace(plain=False)
        writer = DirectWriter.of(
            node, tree, str(state) if where == "argument" else None
        )
        [outcome] = writer.put({"cpu.weight": "59"}, CONTAINER)
        writer.close()
    assert outcome.status is Status.WRITTEN
    assert (root / CONTAINER[1:] / "cpu.weight").read_text() == "59"
    assert originals(state) == (["100"] if where == "argument" else None)
    assert originals(elsewhere) == (["100"] if where == "environment" else None)


def test_a_tree_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write fails with the kernel's error, and no file changes."""
    kernel = kernel_with()

    def read_only(path: str, value: str) -> None:
        raise CgroupError("write", path, value, EROFS)

    monkeypatch.setattr(kernel, "write", read_only)
    with Journal(str(tmp_path)) as journal:
        writer = DirectWriter(kernel.tree, Executor(kernel.tree, journal=journal))
        outcomes = writer.put({"cpu.weight": "59", "pids.max": "7"}, CONTAINER)
    assert [(o.status, o.errno) for o in outcomes] == [(Status.FAILED, EROFS)] * 2


@pytest.mark.parametrize("damage", ["all of it", "a page"])
def test_a_damaged_journal_is_set_aside(tmp_path: Path, damage: str) -> None:
    """A daemon that starts begins a new journal, and keeps the damaged one."""
    state = tmp_path / "state"
    with Journal(str(state)) as journal:
        journal.record([])
    database = state / DATABASE
    content = bytearray(database.read_bytes())
    content[0 if damage == "all of it" else 4096 :] = b"x" * (len(content) - 4096)
    database.write_bytes(content)
    make_v2(tmp_path / "cgroup").files.close()  # type: ignore[attr-defined]
    node = detect_node({}, str(tmp_path), str(tmp_path / "cgroup"))
    with node.open_files() as files:
        DirectWriter.of(node, Tree(files, 2), str(state)).close()
    assert originals(state) == []
    assert (state / f"{DATABASE}.damaged").read_bytes() == content
