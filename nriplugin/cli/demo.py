"""`nriplugin demo`: the plugin on the embedded runtime, as a table."""

from __future__ import annotations

import dataclasses
from itertools import zip_longest
from typing import TYPE_CHECKING

from nriplugin.cli.demo_scenario import play
from nriplugin.cli.printing import print_json, print_line

if TYPE_CHECKING:
    import argparse

    from nriplugin.cli.demo_scenario import Step

WIDTHS = (17, 32, 35, 26)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per step"
    )


def main(args: argparse.Namespace) -> int:
    """Play, and print every step as it happens."""
    if not args.json:
        print_line(
            "Kubernetes still sends cgroup v1 numbers; the plugin answers with the"
        )
        print_line("cgroup v2 files that the runtime then writes.")
        print_line()
        out = "WENT OUT (v2)".ljust(WIDTHS[3]) + "BECAUSE"
        _print_row("EVENT", "WHO", "CAME IN (v1)", out)
    for step in play():
        if args.json:
            print_json(dataclasses.asdict(step), flush=True)
        else:
            _print_step(step)
    return 0


def _print_step(step: Step) -> None:
    came_in = [f"{name} {value}" for name, value in step.came_in.items()]
    went_out = [
        f"{file} = {value}".ljust(WIDTHS[3]) + step.rules.get(file, "")
        for file, value in sorted(step.went_out.items())
    ]
    first = True
    for left, right in zip_longest(came_in or [""], went_out, fillvalue=""):
        _print_row(
            step.event if first else "", step.subject if first else "", left, right
        )
        first = False


def _print_row(*cells: str) -> None:
    *padded, last = cells
    line = "".join(
        cell.ljust(width) for cell, width in zip(padded, WIDTHS, strict=False)
    )
    print_line((line + last).rstrip(), flush=True)
