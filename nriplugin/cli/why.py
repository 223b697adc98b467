"""`nriplugin why`: why the files of a container hold what they hold."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import add_control_argument, client_of
from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.printing import Page, add_output_argument, print_document
from nriplugin.cli.times import moment
from nriplugin.daemon.plain import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

TITLES = titles("file", "now", "decided", "runtime alone")

# How a handler says that a value needs no guess (engine.decision.EXACT).
_EXACT = "exact"

# Verdicts about a container that nothing holds back.
_NO_TROUBLE = ("none", "idle")

_TONES = {
    "managed": Tone.GOOD,
    "adopted": Tone.GOOD,
    "missed": Tone.WARNING,
    "drifted": Tone.BAD,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Shows for each file of a container what the kernel holds now, what the daemon "
        "decided and why, and what the runtime would have written by itself."
    )
    parser.add_argument(
        "what",
        metavar="NAMESPACE/POD[/CONTAINER]|ID",
        help="the containers of a pod, one of them, those of a PodGroup "
        "(NAMESPACE/PODGROUP), or the beginning of an ID",
    )
    add_output_argument(parser, "how the answer is printed")
    add_control_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Ask and print; return 0, whatever the files hold."""
    request = control.WhyRequest(what=args.what, verdicts=True)
    answer = client_of(args).call("Why", request, control.WhyResponse)
    if args.output != "table":
        print_document("Why", plain(answer), args.output)
    else:
        page = Page()
        for number, one in enumerate(answer.containers):
            if number:
                page.text("")
            draw_container(page, one, time())
        page.show()
    return 0


def draw_container(page: Page, one: control.ContainerWhy, now: float) -> None:
    """Add a container to a page."""
    name = "/".join(part for part in (one.namespace, one.pod, one.container) if part)
    page.text(Toned(name or one.id, Tone.TITLE))
    page.section(indent=2)
    page.table(_header(one, now))
    page.text("")
    if one.files:
        notes = [(), *(_notes(file, now) for file in one.files)]
        page.table([TITLES, *map(_row, one.files)], notes=notes)
    else:
        page.text("nothing was decided for this container")
    _draw_list(page, "Skipped", one.skipped, None)
    _draw_list(page, "At run time", one.at_run_time, None)
    _draw_list(page, "What to do", one.advice, Tone.WARNING)
    page.section()


def _header(one: control.ContainerWhy, now: float) -> list[tuple[str, str]]:
    state = f"{one.state}: {one.reason}" if one.reason else one.state
    rows = [
        ("state", Toned(state, _TONES.get(one.state))),
        ("ID", one.id),
        ("QoS class", one.qos_class or "not known"),
        ("cgroup", one.cgroup or "not known"),
        ("rule", one.rule or "none: the settings of the whole node"),
        ("decided", moment(one.decided_at, now) if one.decided_at else "never"),
        ("kubelet sent", one.numbers or "no numbers"),
        *_verdicts(one),
    ]
    return [(label, text) for label, text in rows]


def _verdicts(one: control.ContainerWhy) -> list[tuple[str, str]]:
    """Return what holds the container back, and what could not be told about that."""
    rows: list[tuple[str, str]] = []
    for found in one.verdicts:
        tone = None if found.verdict in _NO_TROUBLE else Tone.WARNING
        rows.append(("verdict", Toned(f"{found.verdict}: {found.because}", tone)))
    if one.not_told:
        rows.append(("not told", Toned(one.not_told, Tone.FAINT)))
    return rows


def _row(file: control.FileWhy) -> tuple[str, ...]:
    now = Toned(file.now or "?", Tone.BAD if file.verdict else None)
    return (file.file, now, file.decided or "-", file.native or "-")


def _notes(file: control.FileWhy, now: float) -> list[str]:
    """Return who decided and why, and what is wrong."""
    sure = file.confidence in ("", _EXACT)
    source = f"{file.source} ({file.confidence})" if not sure else file.source
    reason = "; ".join(part for part in (file.rule, source) if part)
    notes: list[str] = []
    if file.handler or reason:
        said = ": ".join(part for part in (file.handler, reason) if part)
        notes.append(Toned(said, Tone.FAINT))
    if file.unreadable_because:
        notes.append(Toned(f"cannot be read: {file.unreadable_because}", Tone.WARNING))
    if file.HasField("hold"):
        notes.append(Toned(_hold(file.hold, now), Tone.WARNING))
    if file.verdict:
        notes.append(Toned(file.verdict, Tone.BAD))
    return notes


def _hold(hold: control.PolicyHold, now: float) -> str:
    """Return a sentence about the policy that holds a file."""
    if hold.shown:
        return (
            f"{hold.policy} would hold {hold.wants}, and writes nothing: {hold.reason}"
        )
    times = "once" if hold.changes == 1 else f"{hold.changes} times"
    return (
        f"held by {hold.policy} since {moment(hold.since, now)}, changed {times}: "
        f"{hold.reason}; it goes back to {hold.original}"
    )


def _draw_list(page: Page, title: str, texts: Sequence[str], tone: Tone | None) -> None:
    if texts:
        page.text("")
        page.text(Toned(title, Tone.TITLE))
    for text in texts:
        page.text(Toned(f"- {text}", tone), hanging=2)
