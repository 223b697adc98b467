"""A capacity report for people: tables, and bars on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.amount_texts import amount_text, short_amount
from nriplugin.cli.layout import Note, Tone, Toned, titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.cli.printing import Page
    from nriplugin.kube.level_tree import CapacityReport, CgroupLevel
    from nriplugin.node.capacity_check import LevelDifference

DRAWN = ("cpu", "memory")
BAR_WIDTH = 50
# A request, what is left for pods, and what is reserved.
_REQUESTED, _FREE, _RESERVED = "█", "░", "▒"


def draw_report(page: Page, report: CapacityReport, *, bars: bool) -> None:
    """Add the whole report to a page."""
    _draw_sources(page, report)
    _draw_amounts(page, report)
    page.text("")
    _draw_allocated(page, report, bars=bars)
    page.text("")
    _draw_tree(page, report)


def draw_differences(
    page: Page, report: CapacityReport, differences: Sequence[LevelDifference]
) -> None:
    """Add what was found by the comparison with the live tree."""
    if not differences:
        levels = sum(1 for _, level in report.tree.walk() if level.cgroup)
        levels += len(report.reserved)
        text = f"All {levels} cgroups hold the values that kubelet means them to hold."
        page.text(Toned(text, Tone.GOOD))
        return
    _draw_sources(page, report)
    for one in differences:
        page.text(Toned(one.cgroup, Tone.TITLE), indent=0)
        what = f"{one.file}: " if one.file else ""
        page.text(f"{what}{one.problem}", indent=2, hanging=2)
        page.text(Toned(one.likely, Tone.FAINT), indent=2, hanging=2)


def _draw_sources(page: Page, report: CapacityReport) -> None:
    page.text(Toned(report.node, Tone.TITLE))
    page.section(indent=2)
    for source in report.sources:
        page.text(Toned(source, Tone.FAINT), hanging=2)
    page.section()
    page.text("")


def _draw_amounts(page: Page, report: CapacityReport) -> None:
    found = report.capacity
    head = titles(
        "resource", "capacity", "system", "kube", "eviction", "allocatable", "kubepods"
    )
    rows = [head]
    parts = (
        found.capacity,
        found.system_reserved,
        found.kube_reserved,
        found.eviction,
        found.allocatable,
        found.available_to_pods,
    )
    for name in found.capacity:
        cells = [amount_text(name, one[name]) if name in one else "-" for one in parts]
        rows.append((name, *cells))
    page.table(rows, numbers=True)


def _draw_allocated(page: Page, report: CapacityReport, *, bars: bool) -> None:
    rows = [titles("allocated", "requests", "of allocatable", "limits", "%", "note")]
    names = [
        name
        for name in report.capacity.allocatable
        if name in DRAWN or name in report.requests
    ]
    rows += [_allocated_row(report, name) for name in names]
    page.table(rows)
    pods = f"{report.pods} pod{'s'[: report.pods != 1]}"
    page.text(f"{pods}; limits may be over 100 percent (overcommit).")
    if bars:
        page.text("")
        for name in DRAWN:
            if report.capacity.capacity.get(name):
                page.text(Toned(_bar(report, name), None, whole=True))
        legend = (
            f"{_REQUESTED} requested  {_FREE} allocatable, not requested  "
            f"{_RESERVED} reserved"
        )
        page.text(Toned(legend, Tone.FAINT, whole=True))


def _allocated_row(report: CapacityReport, name: str) -> tuple[str, ...]:
    requests, limits = report.requests.get(name, 0), report.limits.get(name, 0)
    shares = [report.percent(name, one) for one in (requests, limits)]
    notes = []
    if shares[0] is not None and shares[0] > 100:
        notes.append("more is requested than there is")
    if shares[1] is not None and shares[1] > 100:
        over = limits - report.capacity.allocatable[name]
        notes.append(f"overcommitted by {short_amount(name, over)}")
    unlimited = report.unlimited.get(name, 0)
    if unlimited:
        notes.append(f"{unlimited} pod{'s'[: unlimited != 1]} without a limit")
    tone = Tone.WARNING if notes else None
    percent = ["-" if share is None else f"{share} %" for share in shares]
    return (
        name,
        amount_text(name, requests),
        percent[0],
        amount_text(name, limits),
        percent[1],
        Toned(", ".join(notes), tone),
    )


def _bar(report: CapacityReport, name: str) -> str:
    """Return one line whose width is the node's capacity."""
    capacity = report.capacity.capacity[name]
    allocatable = report.capacity.allocatable.get(name, 0)
    requested = min(report.requests.get(name, 0), capacity)
    ends = [
        round(BAR_WIDTH * amount / capacity)
        for amount in (requested, max(allocatable, requested), capacity)
    ]
    bar = (
        _REQUESTED * ends[0]
        + _FREE * (ends[1] - ends[0])
        + _RESERVED * (ends[2] - ends[1])
    )
    share = report.percent(name, report.limits.get(name, 0))
    limits = "" if share is None else f"  limits {share} %"
    return f"{name:8}{bar}{limits}"


def _draw_tree(page: Page, report: CapacityReport) -> None:
    head = titles("level", "cpu request", "limit", "memory request", "limit")
    rows = [head]
    notes: list[list[Note]] = [[]]
    reserved = [(0, level) for level in report.reserved]
    for depth, level in (*reserved, *report.tree.walk()):
        rows.append(_level_row(depth, level))
        notes.append(_level_notes(depth, level))
    page.table(rows, notes=notes, numbers=True)


def _level_row(depth: int, level: CgroupLevel) -> tuple[str, ...]:
    cells = [
        short_amount(name, amounts[name]) if name in amounts else "-"
        for name in DRAWN
        for amounts in (level.requests, level.limits)
    ]
    name = f"{level.name} (init)" if level.is_init else level.name
    return ("  " * depth + name, *cells)


def _level_notes(depth: int, level: CgroupLevel) -> list[Note]:
    """Return the path and the values of both versions, below the row of the level.

    A value is never apart from its file, and there are two spaces between them.
    """
    lines = [[level.cgroup]] if level.cgroup else []
    for version, files in (("v1", level.v1), ("v2", level.v2)):
        if files:
            texts = [version, *(f"{file}={value}" for file, value in files.items())]
            lines.append([*(f"{text} " for text in texts[:-1]), texts[-1]])
    return [
        Note(
            [Toned(text, Tone.FAINT, whole=True) for text in line],
            indent=2 * depth,
            hanging=4,
        )
        for line in lines
    ]
