"""`nriplugin status`: the state of the running daemon.

The exit code is 0 if the daemon is healthy and ready, and 1 if it is not or does not
answer, so the command serves as a probe; `--brief` prints a single line then.
"""

from __future__ import annotations

from time import monotonic, sleep, time
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import PATIENCE_S, add_control_argument, client_of
from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import (
    Page,
    add_output_argument,
    on_terminal,
    print_document,
    print_error,
    print_line,
)
from nriplugin.cli.status_page import brief_line, draw_status, verdict
from nriplugin.cli.times import lasting, parse_duration
from nriplugin.daemon.plain import plain
from nriplugin.errors import ConfigError, ControlError

if TYPE_CHECKING:
    import argparse

    from nriplugin.cli.control_client import ControlClient

GROUPINGS = ("namespace", "pod", "qos", "group", "job", "queue", "handler")
WAIT_DURATION = "5m"

# How often `--watch` draws and `--wait` asks, and when `--wait` says what it waits for.
WATCH_S = 2.0
ASK_S = 0.5
SILENT_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Shows the state of the running daemon. The exit code is 0 if the daemon is "
        "healthy and ready, and 1 if it is not or does not answer."
    )
    add_output_argument(parser, "how the state is printed")
    parser.add_argument(
        "--brief", action="store_true", help="print one line, for probes"
    )
    parser.add_argument(
        "--by",
        choices=GROUPINGS,
        default="",
        help="also count the containers by one of these",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help=f"print again every {WATCH_S:.0f} s until Ctrl-C",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait until the daemon is healthy and ready",
    )
    parser.add_argument(
        "--wait-duration",
        metavar="DURATION",
        default=WAIT_DURATION,
        help=f"how long --wait waits, such as 30s or 1h (default: {WAIT_DURATION})",
    )
    add_control_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Print the state once, or again and again."""
    if args.brief and (args.output != "table" or args.by):
        raise ConfigError("--brief: expected neither --output nor --by beside it")
    client = client_of(args)
    wait_s = parse_duration("--wait-duration", args.wait_duration)
    if args.wait:
        _wait(client, wait_s)
    if args.watch:
        _watch(client, args)
    try:
        status = _ask(client, args.by)
    except ControlError as exc:
        if args.brief:
            _print_problem(str(exc), args.output)
            return 1
        raise
    _print(status, args)
    return int(not _is_good(status))


def _ask(
    client: ControlClient, by: str, patience_s: float = PATIENCE_S
) -> control.StatusResponse:
    request = control.StatusRequest(by=by)
    return client.call("Status", request, control.StatusResponse, patience_s)


def _is_good(status: control.StatusResponse) -> bool:
    return status.healthy and status.ready


def _print(status: control.StatusResponse, args: argparse.Namespace) -> None:
    if args.output != "table":
        # One line for each answer of --watch, so that a program can tell them apart.
        print_document("Status", plain(status), args.output, stream=args.watch)
    elif args.brief:
        print_line(brief_line(status), flush=True)
    else:
        page = Page()
        draw_status(page, status, time(), args.by)
        page.show()


def _wait(client: ControlClient, wait_s: float) -> None:
    """Return when the daemon is healthy and ready, or when the time is over."""
    began = monotonic()
    told = ""
    while True:
        left_s = max(began + wait_s - monotonic(), ASK_S)
        try:
            status = _ask(client, "", min(PATIENCE_S, left_s))
            if _is_good(status):
                return
            state = f"{verdict(status)}: {'; '.join(status.problems)}"
        except ControlError as exc:
            state = str(exc)
        passed = monotonic() - began
        if passed >= wait_s:
            print_error(f"waited {lasting(passed)} in vain")
            return
        if passed >= SILENT_S and state != told:
            print_error(f"waiting up to {lasting(wait_s)}; {state}")
            told = state
        sleep(min(ASK_S, wait_s - passed))


def _watch(client: ControlClient, args: argparse.Namespace) -> None:
    """Print the state until Ctrl-C, also while no daemon answers."""
    pages = args.output == "table" and not args.brief
    while True:
        page = Page()
        try:
            status = _ask(client, args.by)
        except ControlError as exc:
            if pages:
                page.text(Toned(str(exc), Tone.BAD))
            else:
                _print_problem(str(exc), args.output)
        else:
            if pages:
                draw_status(page, status, time(), args.by)
            else:
                _print(status, args)
        if pages and on_terminal():
            page.redraw()
        elif pages:
            page.text("")
            page.show(flush=True)
        sleep(WATCH_S)


def _print_problem(text: str, output: str) -> None:
    """Print why there is no state, in the form that the reader expects."""
    if output != "table":
        print_document("Status", {"error": text}, output, stream=True)
    else:
        print_line(f"nriplugin: {text}", flush=True)
