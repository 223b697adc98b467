"""`nriplugin demo`: the plugin on the embedded runtime, step by step as a table.

demo_scenario.py plays the pods; this module prints what the runtime sent and what the
plugin answered.
"""

from __future__ import annotations

import dataclasses
from itertools import zip_longest
from typing import TYPE_CHECKING

from nriplugin.cli.demo_scenario import play
from nriplugin.cli.printing import print_json, print_line, print_table

if TYPE_CHECKING:
    import argparse

    from nriplugin.cli.demo_scenario import Step

TITLES = ("EVENT", "WHO", "CAME IN (v1)", "WENT OUT (v2)", "BECAUSE")
# Each step is printed as it happens, so the widths are fixed beforehand.
WIDTHS = (15, 30, 33, 24)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per step"
    )


def main(args: argparse.Namespace) -> int:
    """Play the scenario and print every step as it happens."""
    if not args.json:
        print_line(
            "Kubernetes still sends cgroup v1 numbers; the plugin answers with the"
        )
        print_line("cgroup v2 files that the runtime then writes.")
        print_line()
        print_table([TITLES], widths=WIDTHS, flush=True)
    for step in play():
        if args.json:
            print_json(dataclasses.asdict(step), flush=True)
        else:
            print_table(_rows(step), widths=WIDTHS, flush=True)
    return 0


def _rows(step: Step) -> list[tuple[str, ...]]:
    """Return the lines of a step; the event and its subject stand on the first."""
    came_in = [f"{name} {value}" for name, value in step.came_in.items()]
    went_out = [
        (f"{file} = {value}", step.rules.get(file, ""))
        for file, value in sorted(step.went_out.items())
    ]
    rows = [
        ("", "", left or "", *(right or ("", "")))
        for left, right in zip_longest(came_in or [""], went_out)
    ]
    rows[0] = (step.event, step.subject, *rows[0][2:])
    return rows
