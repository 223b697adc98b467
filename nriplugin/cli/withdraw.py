"""`nriplugin withdraw`: ends all decisions of the running daemon, before its removal.

The daemon puts back its direct writes and names the containers that keep values in
their specification (daemon/withdrawal.py). Without a daemon the direct writes are put
back here, as `nriplugin restore` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR
from nriplugin.cgroup.journal.restore import Action
from nriplugin.cli.control_client import add_control_argument, client_of
from nriplugin.cli.detect import add_node_arguments
from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import (
    Page,
    add_output_argument,
    print_document,
    print_error,
)
from nriplugin.cli.restore import find
from nriplugin.daemon.instance_lock import holders
from nriplugin.daemon.plain import plain
from nriplugin.daemon.restoring import WOULD, restored_file
from nriplugin.errors import ControlError, NoDaemon
from nriplugin.node.state_directory import configured_state_directory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

# Putting back may take many writes, some of them through systemd.
PATIENCE_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Has the running daemon put back every value that it wrote to cgroups itself "
        "and decide nothing any more, until it is started again. Shows which "
        "containers keep values of nriplugin in their specification, and what a resize "
        "does to them when nriplugin is gone. Without a daemon the values are put "
        "back by this command."
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, change nothing"
    )
    add_output_argument(parser, "how the result is printed")
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="directory of the journal, for use without a daemon "
        f"(default: ${ENV_STATE_DIR}, or {STATE_DIR})",
    )
    add_control_argument(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Withdraw and print the result; return 1 if a file could not be written back."""
    request = control.WithdrawRequest(dry_run=args.dry_run)
    answered = True
    try:
        result = client_of(args).call(
            "Withdraw", request, control.WithdrawResponse, PATIENCE_S
        )
    except NoDaemon as exc:
        result, answered = _without_daemon(args, exc), False
    if args.output != "table":
        print_document("Withdrawal", plain(result), args.output)
    else:
        _print_page(result, dry_run=args.dry_run, answered=answered)
    return int(any(one.status == Action.FAILED for one in result.files))


def _without_daemon(
    args: argparse.Namespace, problem: NoDaemon
) -> control.WithdrawResponse:
    """Put back the values of the journal.

    Raises:
        ControlError: a daemon is running all the same; it would go on deciding.
    """
    running = holders(configured_state_directory(args.state_dir))
    if running:
        raise ControlError(
            f"{problem}; {running[0]} is running: name its socket with --control, or "
            "end it first; nothing was changed"
        )
    print_error(str(problem))
    findings = find(args)
    return control.WithdrawResponse(
        files=[restored_file(found, dry_run=args.dry_run) for found in findings]
    )


def _print_page(
    result: control.WithdrawResponse, *, dry_run: bool, answered: bool
) -> None:
    page = Page()
    if answered:
        would = "would decide" if dry_run else "decides"
        page.text(f"The daemon {would} nothing any more, until it is started again.")
    if result.files:
        page.text(Toned("Direct writes:", Tone.TITLE))
        for one in result.files:
            path = f"{one.cgroup}/{one.file}:"
            page.text(path, *_result(one), indent=2, hanging=2)
    else:
        page.text("There are no direct writes to put back.")
    _add_carrying(page, result, answered=answered)
    page.show()


def _add_carrying(
    page: Page, result: control.WithdrawResponse, *, answered: bool
) -> None:
    if not answered:
        page.text(
            "Without a daemon it is not known which containers keep values of "
            "nriplugin in their specification. The runtime writes such values again at "
            "every resize; a container that is created anew has none."
        )
        return
    if not result.carrying:
        page.text("No container keeps values of nriplugin in its specification.")
        return
    page.text(
        Toned("Containers with values in their specification:", Tone.TITLE),
        "a resize is followed as long as the daemon runs. When it is gone, and until "
        "the container is created anew:",
    )
    for one in result.carrying:
        name = f"{one.namespace}/{one.pod}/{one.container or one.id[:13]}"
        page.text(f"{name}: {one.at_resize}.", indent=2, hanging=2)


def _result(one: control.RestoredFile) -> Iterator[str]:
    """Return the words about one file."""
    tone = Tone.BAD if one.status == Action.FAILED else Tone.GOOD
    if one.status in (Action.LEFT, Action.GONE):
        tone = Tone.WARNING
    yield Toned(one.status, tone)
    if one.status in (Action.RESTORED, WOULD):
        yield f"to {one.value.replace(chr(10), '; ') or 'nothing'}"
    if one.detail:
        yield f"({one.detail})"
