"""`nriplugin events`: streams the decisions and other events of the running daemon.

In a pipe each event is one line, which is written at once. On a terminal a long event
is wrapped.
"""

from __future__ import annotations

from itertools import islice
from time import sleep
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import add_control_argument, client_of
from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.parser import whole_number
from nriplugin.cli.printing import (
    Page,
    on_terminal,
    print_document,
    print_error,
    print_line,
)
from nriplugin.cli.times import stamp
from nriplugin.daemon.plain import plain
from nriplugin.errors import NoDaemon
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from nriplugin.cli.control_client import ControlClient

# How often `--follow` looks for the next daemon.
RETRY_S = 1.0

_KIND_WIDTH = max(map(len, EventKind))

_TONES = {
    EventKind.STALE: Tone.WARNING,
    EventKind.MISSED: Tone.WARNING,
    EventKind.DRIFTED: Tone.WARNING,
    EventKind.WITHDRAWN: Tone.WARNING,
    EventKind.STOPPING: Tone.WARNING,
    EventKind.REJECTED: Tone.BAD,
    EventKind.DISCONNECTED: Tone.BAD,
    EventKind.ADOPTED: Tone.GOOD,
    EventKind.REPAIRED: Tone.GOOD,
    EventKind.HELD: Tone.WARNING,
    EventKind.RELEASED: Tone.GOOD,
    EventKind.RELOADED: Tone.GOOD,
    EventKind.CONNECTED: Tone.GOOD,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Prints the events of the running daemon as they happen, until Ctrl-C or the "
        "end of the daemon."
    )
    parser.add_argument(
        "--all", action="store_true", help="begin with the events that are still kept"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "yaml"),
        default="text",
        help="how an event is printed; json is one line each (default: text)",
    )
    parser.add_argument(
        "--kind",
        nargs="+",
        choices=[kind.value for kind in EventKind],
        metavar="KIND",
        help=f"only events of these kinds: {', '.join(EventKind)}",
    )
    parser.add_argument(
        "--count", metavar="N", type=whole_number(1), help="end after so many events"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="when the daemon ends, wait for the next one and go on",
    )
    add_control_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Print events; return 0 after `--count` of them, and 1 if the daemon ends first.

    Ctrl-C ends it with 130, as every command.
    """
    client = client_of(args)
    events = _following(client, args.all) if args.follow else _watch(client, args.all)
    wanted = (event for event in events if not args.kind or event.kind in args.kind)
    for event in islice(wanted, args.count):
        _print(event, output=args.output)
    return 0


def _watch(
    client: ControlClient, everything: bool, after: int = 0
) -> Iterator[control.Event]:
    """Return events until the daemon ends.

    Raises:
        NoDaemon: it has, or was never there.
        ControlError: it refuses.
    """
    request = control.WatchRequest(all=everything, after=after)
    try:
        for event in client.stream("Watch", request, control.Event):
            if event.lost:
                print_error(f"{event.lost} events were not seen: they came too quickly")
            yield event
    except NoDaemon as exc:
        raise NoDaemon(f"{exc}; --follow would wait for the next one") from None


def _following(client: ControlClient, everything: bool) -> Iterator[control.Event]:
    """Return events of one daemon after the other; no event of a later one is lost."""
    started_at, last = _started_at(client), 0
    while True:
        try:
            for event in _watch(client, everything, last):
                last = event.number
                yield event
        except NoDaemon:
            print_error("the daemon has ended; waiting for the next one")
        before, started_at = started_at, _wait(client)
        if started_at != before:  # a new process counts its events from 1 again
            everything, last = True, 0
        else:
            everything = False


def _wait(client: ControlClient) -> float:
    while True:
        sleep(RETRY_S)
        try:
            return _started_at(client)
        except NoDaemon:
            continue


def _started_at(client: ControlClient) -> float:
    status = client.call("Status", control.StatusRequest(), control.StatusResponse)
    return status.started_at


def _print(event: control.Event, *, output: str) -> None:
    if output != "text":
        print_document("Event", plain(event), output, stream=True)
        return
    at = stamp(event.at)
    names = (event.namespace, event.pod, event.container)
    who = "/".join(name for name in names if name) or event.container_id
    files = _listed(event.files)
    shadow = _listed(event.shadow)
    if shadow:
        # Values that are in force, if there are any, come first.
        files = [*_before_more(files), "shadow mode, not set:", *shadow]
    if event.text:
        files = _before_more(files)
    rest: list[str] = [text for text in (who, *files, event.text) if text]
    kind = f"{event.kind:{_KIND_WIDTH}}"
    if not on_terminal():
        print_line(" ".join((at, kind, *rest)).rstrip(), flush=True)
        return
    page = Page()
    tone = _TONES.get(EventKind(event.kind)) if event.kind in set(EventKind) else None
    # A file and its value stay on one line.
    rest = [Toned(text, None, whole=text in files) for text in rest]
    page.text(Toned(at, Tone.FAINT), Toned(kind, tone), *rest, hanging=4)
    page.show(flush=True)


def _listed(files: Mapping[str, str]) -> list[str]:
    """Return each file with its value, and a comma between them."""
    values = [f"{name}={files[name]}" for name in sorted(files)]
    return [*(f"{value}," for value in values[:-1]), *values[-1:]]


def _before_more(texts: list[str]) -> list[str]:
    """Return texts that something follows."""
    return [*texts[:-1], *(f"{text};" for text in texts[-1:])]
