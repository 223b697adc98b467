"""How benches print their figures: as tables for people, or as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    Tables = Mapping[str, Mapping[str, Mapping[str, float]]]


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Declare `-o` and `--json`."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--json", dest="output", action="store_const", const="json")


def print_result(
    result: Tables, titles: Mapping[str, str], output: str, widths: tuple[int, int]
) -> None:
    """Print figures by table, row and column, as the option says.

    `widths` are those of the first column and of the others.
    """
    if output == "json":
        print(json.dumps(result))
        return
    first, width = widths
    print(f"{sys.executable}: Python {sys.version}")
    for part, rows in result.items():
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        print(f"\n{titles[part]}")
        print(f"{'':{first}}" + "".join(f"{column:>{width}}" for column in columns))
        for row, figures in rows.items():
            cells = (
                f"{figures[name]:.2f}" if name in figures else "" for name in columns
            )
            print(f"{row:{first}}" + "".join(f"{cell:>{width}}" for cell in cells))
