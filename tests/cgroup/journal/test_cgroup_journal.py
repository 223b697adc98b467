from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import POD, QOS

from nriplugin.cgroup.journal.journal import Journal, boot_id
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.journal_entries import Entry
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = f"{POD}/cpu.weight"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(str(tmp_path / "state")) as opened:
        yield opened


def weight(value: int, cgroup: str = POD) -> Update:
    return Update(Type.CPU_WEIGHT, cgroup, value)


def test_the_original_is_committed_before_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file is written, another process can already read its row."""
    kernel = Kernel()
    seen: list[list[tuple[str, ...]]] = []
    write = kernel.write

    def looking(path: str, value: str) -> None:
        with sqlite3.connect(tmp_path / "journal.db") as other:
            columns = "SELECT path, original, ours FROM journal"
            seen.append(other.execute(columns).fetchall())
        other.close()
        write(path, value)

    monkeypatch.setattr(kernel, "write", looking)
    with Journal(str(tmp_path)) as journal:
        Executor(kernel.tree, journal=journal).update(weight(200))
    assert seen == [[(FILE, "100", "200")]]


def test_the_original_stays_that_of_the_first_write(journal: Journal) -> None:
    """After many writes the row still has what the file held before the first."""
    executor = Executor(Kernel().tree, journal=journal)
    for value in (200, 300, 100, 400):
        executor.update(weight(value))
    (row,) = journal.rows()
    assert (row.original, row.ours, row.before) == ("100", "400", "100")
    assert (row.path, row.cgroup, row.type) == (FILE, POD, "cpu.weight")
    assert row.boot == boot_id() != ""
    assert row.identity is not None


def test_a_value_that_somebody_else_set_is_the_one_to_go_back_to(
    journal: Journal,
) -> None:
    """If the kubelet changes a value that nriplugin wrote, that is the new original."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal, refresh_s=0)
    executor.update(weight(200))
    kernel.files[FILE] = "500"
    executor.update(weight(200))
    (row,) = journal.rows()
    assert (row.original, row.ours) == ("500", "200")


def test_what_the_kernel_made_of_our_value_is_ours(journal: Journal) -> None:
    """A value that the kernel rounded still counts as written by nriplugin."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(weight(200))
    kernel.files[FILE] = "201"  # such as a kernel that rounds by a rule unknown to us
    journal.settle(FILE, "200", "201")
    executor.update(weight(300))
    (row,) = journal.rows()
    assert row.original == "100"


def test_a_file_that_is_not_changed_is_not_recorded(journal: Journal) -> None:
    """An update that writes nothing leaves no row."""
    Executor(Kernel().tree, journal=journal).update(weight(100))
    assert journal.rows() == []


def test_a_batch_is_one_transaction(journal: Journal) -> None:
    """A batch of many cgroups commits once; a leveled one once for each pass."""
    pods = [f"{QOS}/pod{number}" for number in range(100)]
    kernel = Kernel(2, ["/kubepods", QOS, *pods])
    executor = Executor(kernel.tree, journal=journal)
    statements: list[str] = []
    journal._database.set_trace_callback(statements.append)
    executor.update_batch([weight(7, pod) for pod in pods])
    assert statements.count("COMMIT") == 1
    assert len(journal.rows()) == 100
    statements.clear()
    executor.leveled_update_batch(
        [
            [Update(Type.CPUSET_CPUS, QOS, "0-1")],
            [Update(Type.CPUSET_CPUS, pod, "0-1") for pod in pods],
        ]
    )
    assert statements.count("COMMIT") == 2


def test_a_new_cgroup_of_the_same_path_is_another(journal: Journal) -> None:
    """The row of a removed cgroup does not count for a new one of the same path."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(weight(200))
    kernel.remove(POD)
    kernel.add(POD)
    kernel.files[FILE] = "200"  # even if it was made with the value that we wrote
    executor.update(weight(300))
    (row,) = journal.rows()
    assert (row.original, row.ours) == ("200", "300")


def test_rows_of_an_earlier_boot_go_with_the_first_write(tmp_path: Path) -> None:
    """The cgroups of an earlier boot are gone, so their rows are removed."""
    kernel = Kernel()
    with Journal(str(tmp_path), boot="yesterday") as journal:
        executor = Executor(kernel.tree, journal=journal)
        executor.update_batch([weight(200), weight(200, QOS)])
    with Journal(str(tmp_path), boot="today") as journal:
        assert len(journal.rows()) == 2
        Executor(kernel.tree, journal=journal).update(weight(300))
        (row,) = journal.rows()
        assert (row.original, row.boot) == ("200", "today")


def test_what_cannot_be_confirmed_is_left_as_it_is(tmp_path: Path) -> None:
    """Closing a journal that cannot be written raises nothing; its rows stay valid."""
    journal = Journal(str(tmp_path))
    Executor(Kernel().tree, journal=journal).update(weight(200))
    journal._database.execute("PRAGMA query_only = ON")
    journal.close()
    with Journal(str(tmp_path)) as journal:
        (row,) = journal.rows()
        assert (row.original, row.ours, row.before) == ("100", "200", "100")


class Guest:
    """Files behind a transport that has nothing to tell one file from a later one."""

    def __init__(self, kernel: Kernel) -> None:
        self.read, self.write = kernel.read, kernel.write
        self.exists, self.children = kernel.exists, kernel.children


def test_files_without_identity_are_told_apart_by_their_paths(journal: Journal) -> None:
    """The journal works with a VM's guest, whose files have no inode numbers."""
    kernel = Kernel()
    executor = Executor(Tree(Guest(kernel), 2), journal=journal)
    executor.update(weight(200))
    executor.update(weight(300))
    (row,) = journal.rows()
    assert (row.original, row.ours, row.identity) == ("100", "300", None)


def test_idle_records_the_weight_that_it_changes(journal: Journal) -> None:
    """Setting cpu.idle changes the weight, so the original weight is recorded, too."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    kernel.files[FILE] = "250"
    executor.update(Update(Type.CPU_IDLE, POD, 1))
    idle, weight_row = journal.rows()
    assert (idle.original, idle.ours) == ("0", "1")
    assert (weight_row.path, weight_row.original, weight_row.ours) == (
        FILE,
        "250",
        None,
    )
    executor.update_batch([Update(Type.CPU_IDLE, POD, 0), weight(400)])
    _, weight_row = journal.rows()
    assert (weight_row.original, weight_row.ours) == ("250", "400")


def test_one_process_at_a_time_from_the_record_to_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second executor waits, so that every file holds what the journal records."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as one, Journal(str(tmp_path)) as two:
        first = Executor(kernel.tree, journal=one)
        second = Executor(kernel.tree, journal=two)
        other = threading.Thread(target=second.update, args=(weight(300),))
        write = kernel.write

        def interrupted(path: str, value: str) -> None:
            if other.ident is None:
                other.start()
                other.join(0.2)  # it must not get there, however long it has
            write(path, value)

        monkeypatch.setattr(kernel, "write", interrupted)
        first.update(weight(200))
        other.join()
        (row,) = two.rows()
        assert [value for _, value in kernel.writes] == ["200", "300"]
        assert (row.original, row.ours, row.before) == ("100", "300", "200")


def test_what_cannot_be_recorded_is_not_written(tmp_path: Path) -> None:
    """If the journal fails, the update is refused and the file is not written."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as journal:
        executor = Executor(kernel.tree, journal=journal)
        journal._database.execute("PRAGMA query_only = ON")
        for outcome in [
            executor.update(weight(200)),
            *executor.leveled_update_batch([[weight(200, QOS)], [weight(200)]]),
        ]:
            assert outcome.status is Status.REFUSED
            assert outcome.reason == (
                f"journal {tmp_path}/journal.db: attempt to write a readonly database"
            )
        assert kernel.writes == []
        journal._database.execute("PRAGMA query_only = OFF")
        assert executor.update(weight(200)).status is Status.WRITTEN


def full(journal: Journal) -> None:
    """Have a journal fail as on a disk that is full: it can be read, and not stored."""
    journal._database.execute("PRAGMA query_only = ON")


def test_an_original_goes_back_also_if_nothing_can_be_stored(journal: Journal) -> None:
    """The row has both values; a value of another program still needs a row."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(weight(200))
    full(journal)
    assert executor.update(weight(300)).status is Status.REFUSED
    assert executor.update(weight(100), cacheable=False).status is Status.WRITTEN
    assert kernel.files[FILE] == "100"
    kernel.files[FILE] = "200"
    both = [weight(100), weight(300, QOS)]
    outcomes = executor.update_batch(both, fresh=True)
    assert {one.status for one in outcomes} == {Status.REFUSED}
    kernel.files[FILE] = "55"
    assert executor.update(weight(100), cacheable=False).status is Status.REFUSED
    kernel.remove(POD)
    kernel.add(POD)
    kernel.files[FILE] = "200"  # another cgroup of the same path
    assert executor.update(weight(100), cacheable=False).status is Status.REFUSED


def test_a_rounded_value_is_known_before_it_is_stored(journal: Journal) -> None:
    """What the kernel made of a value is nriplugin's, and its original goes back."""
    kernel = Kernel()
    kernel.files[f"{POD}/memory.high"] = "max"
    executor = Executor(kernel.tree, journal=journal)
    executor.update(Update(Type.MEMORY_HIGH, POD, 40961))
    assert kernel.files[f"{POD}/memory.high"] == "40960"
    full(journal)
    assert executor.update(Update(Type.MEMORY_HIGH, POD, "max")).ok
    assert kernel.files[f"{POD}/memory.high"] == "max"


def test_a_batch_that_is_refused_still_says_what_is_gone(tmp_path: Path) -> None:
    """Outcomes that were known before the journal failed are kept."""
    with Journal(str(tmp_path)) as journal:
        executor = Executor(Kernel().tree, journal=journal)
        journal._database.execute("PRAGMA query_only = ON")
        outcomes = executor.update_batch([weight(5, f"{QOS}/x"), weight(5)])
    assert [outcome.status for outcome in outcomes] == [Status.GONE, Status.REFUSED]


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"\0" * 4096])
def test_a_corrupt_database_is_one_line(tmp_path: Path, content: bytes) -> None:
    """The error names the file and what is wrong with it."""
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalError, match=r"^journal .*journal\.db: .*database.*$"):
        Journal(str(tmp_path)).record([])


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """If a file is in the place of the directory, the error is one line, too."""
    (tmp_path / "state").write_text("")
    with pytest.raises(
        JournalError, match=r"^journal .*state/journal\.db: File exists$"
    ):
        Journal(str(tmp_path / "state"))


def test_the_database_survives_its_process(journal: Journal) -> None:
    """The database is in WAL mode without fsync per commit, as journal.py assumes."""
    (mode,) = journal._database.execute("PRAGMA journal_mode").fetchone()
    (sync,) = journal._database.execute("PRAGMA synchronous").fetchone()
    assert (mode, sync) == ("wal", 1)


def test_a_write_that_was_seen_leaves_only_our_value(tmp_path: Path) -> None:
    """After closing, the row of a write that succeeded has no `before` any more."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as journal:
        executor = Executor(kernel.tree, journal=journal)
        executor.update(weight(200))
        (row,) = journal.rows()
        assert row.before == "100"
    with Journal(str(tmp_path)) as journal:
        (row,) = journal.rows()
        assert (row.ours, row.before) == ("200", None)


def test_a_late_confirmation_does_not_hide_a_newer_write(tmp_path: Path) -> None:
    """A confirmation does not change a row that another process recorded since."""
    entry = Entry(FILE, POD, "cpu.weight", "100", "200", None)
    with Journal(str(tmp_path)) as first, Journal(str(tmp_path)) as second:
        first.record([entry])
        first.settle(FILE, "200", "200")
        second.record([entry._replace(held="200", content="300")])
        first.drop([])
        (row,) = second.rows()
        assert json.loads(json.dumps(row))[3:6] == ["100", "300", "200"]
