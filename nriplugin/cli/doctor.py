"""`nriplugin doctor`: what is right and what is wrong on this node, and what to do.

The exit code is 1 if a finding stops nriplugin. Nothing is changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR
from nriplugin.cli.control_client import ENV_CONTROL, control_path
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import Page, add_output_argument, print_document
from nriplugin.daemon.control_service import DEFAULT_CONTROL
from nriplugin.daemon.doctor.examine import examine
from nriplugin.daemon.doctor.finding import FindingLevel
from nriplugin.daemon.doctor.host import ExaminedHost, HostOptions
from nriplugin.node.state_directory import configured_state_directory
from nriplugin.nri.launch import DEFAULT_SOCKET

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from nriplugin.daemon.doctor.finding import CheckFinding

OFF = "off"

TONES = {
    FindingLevel.OK: Tone.GOOD,
    FindingLevel.NOTE: None,
    FindingLevel.WARNING: Tone.WARNING,
    FindingLevel.PROBLEM: Tone.BAD,
}
# The longest level, and two spaces.
_INDENT = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_output_argument(parser, "a page for people, or a list of findings")
    parser.add_argument(
        "--nri-socket",
        metavar="PATH",
        default=DEFAULT_SOCKET,
        help=f"the runtime's NRI socket (default: {DEFAULT_SOCKET})",
    )
    parser.add_argument(
        "--control",
        metavar="ADDRESS|off",
        help="socket of a running daemon "
        f"(default: ${ENV_CONTROL}, or {DEFAULT_CONTROL})",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file to check (default: that of a running daemon)",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help=f"the state directory (default: ${ENV_STATE_DIR}, or {STATE_DIR})",
    )
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Look, print, and return 1 if a finding stops nriplugin."""
    off = (args.control or os.environ.get(ENV_CONTROL)) == OFF
    control = None if off else control_path(args.control)
    options = HostOptions(
        nri_socket=args.nri_socket,
        control=control,
        state_directory=configured_state_directory(args.state_dir),
        config=args.config,
    )
    # A failed call becomes a finding; gRPC would print lines of its own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    found = examine(ExaminedHost(node_of(args), options))
    findings = [finding for _, of_family in found for finding in of_family]
    if args.output != "table":
        listed = [finding.as_dict() for finding in findings]
        print_document("Diagnosis", {"findings": listed}, args.output)
    else:
        _show(found)
    return int(any(one.level is FindingLevel.PROBLEM for one in findings))


def _show(found: Sequence[tuple[str, list[CheckFinding]]]) -> None:
    page = Page()
    for title, findings in found:
        if not findings:
            continue
        page.text(Toned(title, Tone.TITLE))
        for finding in findings:
            level = f"{finding.level:{_INDENT - 1}}"
            page.text(
                Toned(level, TONES[finding.level], whole=True),
                Toned(f"{finding.check}:", Tone.FAINT),
                finding.text,
                hanging=_INDENT,
            )
            if finding.advice:
                page.text("->", finding.advice, indent=_INDENT, hanging=3)
        page.text("")
    page.text(_summary(one for _, of_family in found for one in of_family))
    page.show()


def _summary(findings: Iterable[CheckFinding]) -> str:
    levels = [finding.level for finding in findings]
    problems = levels.count(FindingLevel.PROBLEM)
    warnings = levels.count(FindingLevel.WARNING)
    if not problems and not warnings:
        return Toned("Nothing is in nriplugin's way.", Tone.GOOD)
    words = [
        f"{number} {name}{'s'[: number != 1]}"
        for number, name in ((problems, "problem"), (warnings, "warning"))
        if number
    ]
    tone = Tone.BAD if problems else Tone.WARNING
    return Toned(f"{' and '.join(words)}.", tone)
