"""`nriplugin restore`: writes back the values from before nriplugin changed them.

The journal in the state directory knows the original value of every file that nriplugin
wrote itself. Values that a runtime wrote because nriplugin answered so are not in it:
the runtime owns those.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR, Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.cgroup.journal.storage import has_journal
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.printing import (
    add_output_argument,
    print_document,
    print_line,
    table_page,
)
from nriplugin.errors import ConfigError
from nriplugin.node.state_directory import configured_state_directory

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.journal.restore import Finding


_TONES = {Action.RESTORED: Tone.GOOD, Action.FAILED: Tone.BAD}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show the changes, make none"
    )
    add_output_argument(parser, "how the files are printed", alias=True)
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help=f"directory of the journal (default: ${ENV_STATE_DIR}, or {STATE_DIR})",
    )
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Restore and print a table; return 1 if a file could not be written back."""
    findings = find(args)
    if args.output != "table":
        files = [finding.as_dict() for finding in findings]
        print_document("Restore", {"files": files}, args.output)
    elif findings:
        _print_table(findings, args.dry_run)
    else:
        directory = configured_state_directory(args.state_dir)
        print_line(f"nothing to restore: {directory} has no journal with entries")
    return int(any(finding.action is Action.FAILED for finding in findings))


def find(args: argparse.Namespace) -> list[Finding]:
    """Restore, unless it is a dry run; return what was found about each file.

    Raises:
        ConfigError: the state directory is none, or may not be used.
        JournalError: the journal cannot be read or written.
    """
    directory = configured_state_directory(args.state_dir)
    named_by = "--state-dir"
    if not args.state_dir and os.environ.get(ENV_STATE_DIR):
        named_by = ENV_STATE_DIR
    if not _has_journal(directory, named_by):
        return []
    node = node_of(args)
    with node.open_files() as files, Journal(directory) as journal:
        tree = Tree(files, node.version.number)
        return restore(tree, journal, node.writer(), dry_run=args.dry_run)


def _has_journal(directory: str, named_by: str) -> bool:
    if directory != STATE_DIR and not os.path.isdir(directory):
        raise ConfigError(f"{named_by}: {directory!r}, expected a directory")
    try:
        return has_journal(directory)
    except PermissionError as exc:
        raise ConfigError(
            f"{named_by}: {directory!r}, expected a directory whose journal you may "
            "read and write: it belongs to root, or to the user who ran the plugin"
        ) from exc


def _print_table(findings: list[Finding], dry_run: bool) -> None:
    rows = [titles("path", "original", "ours", "now", "action")]
    for found in findings:
        action = str(found.action)
        if dry_run and found.action is Action.RESTORED:
            action = "would be restored"
        action += f": {found.reason}" if found.reason else ""
        ours = "(side effect)" if found.ours is None else _shown(found.ours)
        now = "" if found.now is None else _shown(found.now)
        tone = _TONES.get(found.action)
        told = Toned(action, tone)
        rows.append((found.path, _shown(found.original), ours, now, told))
    page = table_page()
    page.table(rows)
    page.show()


def _shown(content: str) -> str:
    return content.replace("\n", "; ") or '""'
