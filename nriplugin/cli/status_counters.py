"""The sections of `nriplugin status` that are counts: containers, requests, writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.status_groups import draw_members
from nriplugin.cli.times import lasting, latency, moment, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nriplugin.api import control_pb2 as control
    from nriplugin.cli.printing import Page

# The column in which the texts of all sections begin.
INDENT = 15

# Results of a direct write, in this order; those in the second row are failures.
_HARMLESS = ("written", "skipped", "gone")
_FAILURES = ("unsupported", "refused", "failed")


def draw_containers(page: Page, status: control.StatusResponse, by: str) -> None:
    """Add how many containers there are in each state, and the groups."""
    page.section("Containers", INDENT)
    counts = counts_of(status.containers)
    parts = []
    for number, (state, count) in enumerate(counts, 1):
        comma = "," if number < len(counts) else ""
        parts.append(Toned(f"{count} {state}{comma}", _state_tone(state, count)))
    page.text(*parts)
    if by:
        # States that no container has take no place; names of pods are long.
        states = [state for state, count in counts if count or state == "managed"]
        rows = [titles(by, *states)]
        for group in status.groups:
            numbers = [str(getattr(group.containers, state)) for state in states]
            rows.append((group.name, *numbers))
        page.section()
        page.table(rows, indent=2, numbers=True)
        draw_members(page, status.groups, by)


def _state_tone(state: str, count: int) -> Tone | None:
    if not count:
        return Tone.FAINT
    return Tone.WARNING if state in ("missed", "drifted") else None


def draw_requests(page: Page, status: control.StatusResponse) -> None:
    """Add the requests of the runtime and the time that they took."""
    page.section("Requests", INDENT)
    operations = status.operations
    failed = sum(one.failed for one in operations)
    late = status.late_answers
    page.text(
        f"{sum(one.ok for one in operations) + failed},",
        Toned(f"{failed} failed,", Tone.BAD if failed else None),
        Toned(f"{late} answered late", Tone.BAD if late else None),
    )
    names = ("operation", "ok", "failed", "mean", "p50", "p99")
    rows = [titles(*names)]
    for one in operations:
        times = (one.mean_seconds, one.p50_seconds, one.p99_seconds)
        rows.append((one.name, str(one.ok), str(one.failed), *map(latency, times)))
    _table_of_numbers(page, rows)


def draw_refusals(page: Page, handlers: Iterable[control.HandlerStatus]) -> None:
    """Add which settings were refused, and how often."""
    rows = [
        (f"{handler.name}: {found.reason}", str(found.count))
        for handler in handlers
        for found in handler.refusals
    ]
    page.section("Refusals", INDENT)
    page.text(str(sum(int(count) for _, count in rows)) if rows else "none")
    _table_of_numbers(page, [titles("handler and reason", "count"), *rows])


def draw_writes(page: Page, writes: Sequence[control.WriteCount]) -> None:
    """Add the direct writes by file and result."""
    page.section("Direct writes", INDENT)
    total = sum(one.count for one in writes)
    failed = sum(one.count for one in writes if one.status not in _HARMLESS)
    if total:
        tone = Tone.BAD if failed else None
        page.text(f"{total},", Toned(f"{failed} failed", tone))
    else:
        page.text("none")
    found = {one.status for one in writes}
    known = [one for one in (*_HARMLESS, *_FAILURES) if one in found]
    statuses = [*known, *sorted(found.difference(known))]
    counts = {(one.file, one.status): one.count for one in writes}
    files = sorted({one.file for one in writes})
    rows = [
        (file, *(str(counts.get((file, status), 0)) for status in statuses))
        for file in files
    ]
    _table_of_numbers(page, [titles("file", *statuses), *rows])


def draw_verification(
    page: Page, found: control.VerificationStatus, now: float
) -> None:
    """Add what the comparison of files with decisions has found."""
    page.section("Verification", INDENT)
    if not found.interval_seconds:
        page.text("off")
    else:
        last = f"last {moment(found.last_at, now)}" if found.last_at else "not yet"
        page.text(
            f"every {lasting(found.interval_seconds)}, {last};",
            f"{found.checked} comparisons of a container with its decision",
        )
    columns = [
        {one.file: one.count for one in counts}
        for counts in (found.drift, found.repairs, found.failed_repairs)
    ]
    files = sorted({file for column in columns for file in column})
    rows = [(file, *(str(one.get(file, 0)) for one in columns)) for file in files]
    names = ("file", "drifted", "repaired", "not repaired")
    _table_of_numbers(page, [titles(*names), *rows])


def draw_policies(page: Page, found: control.PoliciesStatus, now: float) -> None:
    """Add what the handlers do that act while containers run."""
    page.section("Policies", INDENT)
    if not found.interval_seconds:
        page.text("off: no handler acts while containers run")
    else:
        last = f"last {moment(found.last_at, now)}" if found.last_at else "not yet"
        page.text(f"every {lasting(found.interval_seconds)}, {last}")
        if found.shown_because:
            page.text(
                Toned("nothing is written:", Tone.WARNING), f"{found.shown_because}"
            )
    outcomes = list(
        dict.fromkeys(
            action.outcome for one in found.policies for action in one.actions
        )
    )
    rows = [titles("policy", "containers", "holding", *outcomes)]
    for one in found.policies:
        counts = {action.outcome: action.count for action in one.actions}
        if one.containers or counts:
            numbers = [one.containers, one.holding]
            numbers += [counts.get(outcome, 0) for outcome in outcomes]
            rows.append((one.name, *map(str, numbers)))
    _table_of_numbers(page, rows)


def draw_shadow(page: Page, shadow: control.ShadowStatus) -> None:
    """Add what enforcing would change."""
    page.section("Shadow", INDENT)
    if not shadow.enabled and not shadow.rules:
        page.text("off: what is decided is sent")
        return
    by = ", ".join(shadow.rules)
    where = "for the whole node" if shadow.enabled else f"by {by}"
    page.text(
        Toned("on", Tone.WARNING),
        f"{where}: nothing is sent; {many(shadow.containers, 'container')} would "
        "get other values",
    )
    rows = [(one.file, str(one.count)) for one in shadow.files]
    _table_of_numbers(page, [titles("file", "containers"), *rows])


def draw_gaps(page: Page, runtime: control.RuntimeStatus) -> None:
    """Add the times without a connection to the runtime."""
    page.section("Gaps", INDENT)
    count = runtime.gap_count
    page.text(f"{many(count, 'time')} without a connection" if count else "none")
    for gap in runtime.gaps:
        missed = f"{many(gap.missed, 'container')} missed"
        page.text(
            f"{stamp(gap.began)} for {lasting(gap.ended - gap.began)},",
            Toned(f"{missed}:", Tone.WARNING if gap.missed else None),
            gap.reason,
        )


def _table_of_numbers(page: Page, rows: list[tuple[str, ...]]) -> None:
    """Add a table, unless it has a title alone."""
    if len(rows) > 1:
        page.table(rows, numbers=True)


def counts_of(counts: control.ContainerCounts) -> list[tuple[str, int]]:
    """Return the states in the order of the message's fields, and their counts."""
    names = [field.name for field in counts.DESCRIPTOR.fields]
    return [(name, getattr(counts, name)) for name in names]


def many(count: int, thing: str) -> str:
    """Return a count of things; the plural ends with s."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
