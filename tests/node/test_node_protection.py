"""Direct writes: protection with less effect than its value, and lowering it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from node.writing import LOW, PAGE, kernel_with, part
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.decision import Level, When
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.outcomes import ProtectionWarnings
from nriplugin.node.protection import without_effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cgroup.kernels import Kernel

KUBEPODS = "/kubepods"
SIDECAR = f"{POD}/{'a' * 64}"
ALL = (KUBEPODS, QOS, POD, CONTAINER, SIDECAR)


def low(**pages: int | str) -> dict[str, str]:
    """Return memory.low of some cgroups, by name, in pages."""
    names = {"kubepods": KUBEPODS, "qos": QOS, "pod": POD, "sidecar": SIDECAR}
    return {
        f"{names[name]}/{LOW}": n if isinstance(n, str) else str(n * PAGE)
        for name, n in pages.items()
    }


NO, PART = "has no effect", "has only part of its effect"


@pytest.mark.parametrize(
    ("held", "effect", "level", "lacking"),
    [
        # No cgroup above has any protection: the topmost is named.
        ({}, NO, "kubepods", f"{KUBEPODS} has {LOW}=0, expected {4 * PAGE}"),
        ({"kubepods": 4}, NO, "qos", f"{QOS} has {LOW}=0, expected {4 * PAGE}"),
        (
            {"kubepods": 4, "qos": 4},
            NO,
            "pod",
            f"{POD} has {LOW}=0, expected {4 * PAGE}",
        ),
        ({"kubepods": 4, "qos": 4, "pod": 4}, "", "", ""),
        ({"kubepods": "max", "qos": "max", "pod": "max"}, "", "", ""),
        (
            {"kubepods": "max", "qos": "max", "pod": 1},
            PART,
            "pod",
            f"{POD} has {LOW}={PAGE}, expected {4 * PAGE}",
        ),
        # Siblings share the protection of their parent.
        (
            {"kubepods": 9, "qos": 9, "pod": 4, "sidecar": 4},
            PART,
            "pod",
            f"{POD} has {LOW}={4 * PAGE}, expected {8 * PAGE}",
        ),
    ],
)
@pytest.mark.parametrize("raised", [True, False])
def test_protection_without_effect_is_put_into_words(
    held: dict[str, int | str], effect: str, level: str, lacking: str, raised: bool
) -> None:
    """The text has the cgroup, the value that it needs, and the setting."""
    kernel = kernel_with(*ALL, files=low(**held).items())
    wanted = {LOW: str(4 * PAGE)}
    found = without_effect(kernel.tree, POD, None, wanted, raised=raised)
    if not effect:
        assert found == []
        return
    advice = "set memoryQoS.raiseAncestors: true"
    if raised:
        advice = "although memoryQoS.raiseAncestors is true"
    (gap,) = found
    assert (gap.file, gap.level) == (LOW, level)
    assert gap.text == f"{LOW} of containers {effect}: {lacking}; {advice}"


def test_each_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A reason is a file and the level of the cgroup that lacks protection."""
    warnings = ProtectionWarnings()
    other = f"{QOS}/podother"
    kernel = kernel_with(*ALL, other)

    def logged(pod: str, file: str = LOW) -> list[str]:
        caplog.clear()
        files = {file: str(4 * PAGE)}
        gaps = without_effect(kernel.tree, pod, None, files, raised=False)
        warnings.log(gaps)
        return [record.getMessage() for record in caplog.records]

    (line,) = logged(POD)
    assert line.startswith(f"{LOW} of containers has no effect: {KUBEPODS} has")
    assert logged(POD) == logged(other) == []
    kernel.files.update(low(kubepods="max", qos="max"))
    (line,) = logged(POD)
    assert f": {POD} has {LOW}=0" in line
    assert logged(other) == []
    (line,) = logged(POD, "memory.min")
    assert line.startswith("memory.min of containers has no effect: ")


@pytest.mark.parametrize("files", [{}, {LOW: "0"}, {LOW: "max"}, {"memory.high": "1"}])
def test_what_protects_nothing_needs_nothing(files: dict[str, str]) -> None:
    """A protection of 0 has no gap."""
    tree = kernel_with(*ALL).tree
    assert without_effect(tree, POD, None, files, raised=False) == []


@pytest.fixture
def kernel() -> Kernel:
    return kernel_with(*ALL, files=low(kubepods=2).items())


@pytest.fixture
def writer(kernel: Kernel, tmp_path: Path) -> Iterator[DirectWriter]:
    """A DirectWriter that has raised cgroups above containers of 4 and 3 pages."""
    with Journal(str(tmp_path)) as journal:
        tree = kernel.tree
        writer = DirectWriter(tree, Executor(tree, journal=journal, refresh_s=0))
        for container, pages in ((CONTAINER, 4), (SIDECAR, 3)):
            wanted = part(LOW, pages * PAGE, Level.ANCESTORS)
            writer.carry_out([wanted], When.BEFORE, POD, container)
            kernel.files[f"{container}/{LOW}"] = str(pages * PAGE)
        assert held_by(kernel) == [7, 7, 7]
        kernel.writes.clear()
        yield writer


def held_by(kernel: Kernel) -> list[int]:
    """Return the protection of the cgroups above, in pages, from the top."""
    return [int(kernel.files[f"{one}/{LOW}"]) // PAGE for one in (KUBEPODS, QOS, POD)]


def test_raised_sums_are_lowered_from_the_bottom(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """As far as other containers allow, and in the end to the original value."""
    kernel.remove(CONTAINER)
    writer.lower(POD)
    assert held_by(kernel) == [3, 3, 3]
    assert [path.rpartition("/")[0] for path, _ in kernel.writes] == [
        POD,
        QOS,
        KUBEPODS,
    ]
    kernel.remove(SIDECAR)
    writer.lower(POD)
    assert held_by(kernel) == [2, 0, 0]


def test_a_sum_that_another_program_changed_is_not_lowered(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """kubelet may set these files, too."""
    kernel.files[f"{QOS}/{LOW}"] = str(50 * PAGE)
    kernel.remove(CONTAINER)
    writer.lower(POD)
    assert held_by(kernel) == [7, 50, 3]


def test_without_a_journal_nothing_is_lowered(kernel: Kernel) -> None:
    """The original values are not known."""
    kernel.files.update(low(kubepods=9, qos=9, pod=9))
    tree = kernel.tree
    assert DirectWriter(tree, Executor(tree, refresh_s=0)).lower(POD) == []
    assert held_by(kernel) == [9, 9, 9]


@pytest.mark.parametrize("cgroup", ["/", KUBEPODS, QOS, CONTAINER, "/system.slice"])
def test_only_from_a_pod_upwards(
    writer: DirectWriter, kernel: Kernel, cgroup: str
) -> None:
    """For any other cgroup nothing is written."""
    kernel.remove(CONTAINER)
    assert writer.lower(cgroup) == []


def test_rows_of_cgroups_that_are_gone_are_swept(
    writer: DirectWriter, kernel: Kernel
) -> None:
    """The journal would keep them until the next boot."""
    for one in (CONTAINER, SIDECAR, POD):
        kernel.remove(one)
    writer.sweep()
    executor = writer._executor
    assert executor.original(f"{POD}/{LOW}", str(7 * PAGE)) is None
    assert executor.original(f"{QOS}/{LOW}", str(7 * PAGE)) == "0"
