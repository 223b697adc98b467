"""Draws the three curves from cpu shares to cpu.weight: docs/curves.svg.

Plain text and nothing random, so that the same code makes the same file. Colours
follow the reader's light or dark setting; dashes tell the curves apart without them.
"""

from __future__ import annotations

import argparse
from math import log2, log10
from pathlib import Path

from nriplugin.convert.curves import (
    DEFAULT_SHARES,
    DEFAULT_WEIGHT,
    MAX_SHARES,
    MAX_WEIGHT,
    MIN_SHARES,
    Curve,
    weight_of,
)

FILE = Path(__file__).parents[2] / "docs" / "curves.svg"

WIDTH, HEIGHT = 780, 490
LEFT, RIGHT, TOP, BOTTOM = 76, 736, 28, 430
SAMPLES_PER_DOUBLING = 16

SHARES_LABELS = (2, 16, 128, 1024, 8192, 65_536, 262_144)
WEIGHT_LABELS = (1, 10, 100, 1000, 10_000)

LEGEND = {
    Curve.QUADRATIC: "quadratic: runc from 1.3.2, crun from 1.23",
    Curve.KEP: "kep: older runtimes; kubelet, for pods",
    Curve.PROPORTIONAL: "proportional: keeps ratios",
}
LIGHT = {
    "paper": "#ffffff",
    "ink": "#24292f",
    "grid": "#d8dee4",
    "axis": "#57606a",
    Curve.QUADRATIC: "#0550ae",
    Curve.KEP: "#bc4c00",
    Curve.PROPORTIONAL: "#116329",
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "grid": "#30363d",
    "axis": "#8b949e",
    Curve.QUADRATIC: "#79c0ff",
    Curve.KEP: "#ffa657",
    Curve.PROPORTIONAL: "#7ee787",
}
DASHES = {Curve.QUADRATIC: "none", Curve.KEP: "9 4", Curve.PROPORTIONAL: "2 4"}


def x_of(shares: int) -> float:
    """Return the horizontal place of a number of shares."""
    part = (log2(shares) - log2(MIN_SHARES)) / (log2(MAX_SHARES) - log2(MIN_SHARES))
    return LEFT + part * (RIGHT - LEFT)


def y_of(weight: int) -> float:
    """Return the vertical place of a weight."""
    return BOTTOM - log10(weight) / log10(MAX_WEIGHT) * (BOTTOM - TOP)


def style(colours: dict[str, str]) -> list[str]:
    """Return the rules that give everything its colour."""
    return [
        f".paper {{ fill: {colours['paper']}; }}",
        f"text {{ fill: {colours['ink']}; }}",
        f".grid {{ stroke: {colours['grid']}; }}",
        f".axis {{ stroke: {colours['axis']}; }}",
        *(f".{curve} {{ stroke: {colours[curve]}; }}" for curve in Curve),
        *(f"circle.{curve} {{ fill: {colours[curve]}; }}" for curve in Curve),
    ]


def line(name: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{name}" {ends}/>'


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    """Return a piece of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def grid() -> list[str]:
    """Return lines and numbers of both axes."""
    doublings = [x_of(1 << power) for power in range(2, MAX_SHARES.bit_length() - 1)]
    parts = [line("grid", x, TOP, x, BOTTOM) for x in doublings]
    for decade in WEIGHT_LABELS[:-1]:
        for digit in (1, 2, 5):
            y = y_of(decade * digit)
            parts.append(line("grid", LEFT, y, RIGHT, y))
    for shares in SHARES_LABELS:
        parts.append(line("axis", x_of(shares), BOTTOM, x_of(shares), BOTTOM + 5))
        parts.append(text(x_of(shares), BOTTOM + 20, str(shares), "middle"))
    for weight in WEIGHT_LABELS:
        parts.append(line("axis", LEFT - 5, y_of(weight), LEFT, y_of(weight)))
        parts.append(text(LEFT - 9, y_of(weight) + 4, str(weight), "end"))
    middle = (TOP + BOTTOM) / 2
    turned = f' transform="rotate(-90 20 {middle:.1f})"'
    return [
        *parts,
        f'<rect class="axis" fill="none" x="{LEFT}" y="{TOP}" '
        f'width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/>',
        text((LEFT + RIGHT) / 2, HEIGHT - 18, "cpu shares (v1)", "middle"),
        text(20, middle, "cpu.weight (v2)", "middle", turned),
    ]


def path(curve: Curve) -> str:
    """Return the line of one curve, through whole numbers of shares."""
    doublings = MAX_SHARES.bit_length() - MIN_SHARES.bit_length()
    steps = range(doublings * SAMPLES_PER_DOUBLING + 1)
    samples = {round(MIN_SHARES * 2 ** (i / SAMPLES_PER_DOUBLING)) for i in steps}
    points = " ".join(
        f"{x_of(shares):.1f},{y_of(weight_of(shares, curve)):.1f}"
        for shares in sorted(samples)
    )
    return (
        f'<polyline class="{curve}" fill="none" stroke-width="2.5" '
        f'stroke-dasharray="{DASHES[curve]}" points="{points}"/>'
    )


def marks() -> list[str]:
    """Return the default's lines, and what each curve makes of it."""
    x, y = x_of(DEFAULT_SHARES), y_of(DEFAULT_WEIGHT)
    parts = [line("axis", x, TOP, x, BOTTOM), line("axis", LEFT, y, RIGHT, y)]
    names: dict[int, list[Curve]] = {}
    for curve in Curve:
        names.setdefault(weight_of(DEFAULT_SHARES, curve), []).append(curve)
    for weight, curves in names.items():
        dot = f'cx="{x:.1f}" cy="{y_of(weight):.1f}" r="4.5"'
        parts.append(f'<circle class="{curves[0]}" {dot}/>')
        words = f"{DEFAULT_SHARES} → {weight} ({', '.join(curves)})"
        if weight == DEFAULT_WEIGHT:  # above the curves there, else below them
            parts.append(text(x - 10, y_of(weight) - 10, words, "end"))
        else:
            parts.append(text(x + 10, y_of(weight) + 18, words))
    return parts


def legend() -> list[str]:
    """Return which line is which."""
    box = f'x="{LEFT + 8}" y="{TOP + 8}" width="330" height="{22 * len(LEGEND) + 8}"'
    parts = [f'<rect class="paper grid" {box}/>']
    for row, (curve, words) in enumerate(LEGEND.items()):
        y = TOP + 23 + 22 * row
        sample = f'x1="{LEFT + 14}" y1="{y}" x2="{LEFT + 48}" y2="{y}"'
        parts.append(
            f'<line class="{curve}" stroke-width="2.5" '
            f'stroke-dasharray="{DASHES[curve]}" {sample}/>'
        )
        parts.append(text(LEFT + 56, y + 4, words))
    return parts


def draw() -> str:
    """Return the picture."""
    rules = [
        "text { font: 13px system-ui, sans-serif; }",
        *style(LIGHT),
        "@media (prefers-color-scheme: dark) {",
        *(f"  {rule}" for rule in style(DARK)),
        "}",
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        "<!-- Made by hack/curves. -->",
        "<title>From cpu shares to cpu.weight: three curves, log-log</title>",
        "<style>",
        *rules,
        "</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        *grid(),
        *(path(curve) for curve in Curve),
        *marks(),
        *legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the file, or compare with it."""
    parser = argparse.ArgumentParser(prog="hack/curves", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    args = parser.parse_args()
    picture = draw()
    if not args.check:
        FILE.write_text(picture, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != picture:
        raise SystemExit("curves: docs/curves.svg is out of date: run hack/curves")
    else:
        print("curves: docs/curves.svg is up to date")


if __name__ == "__main__":
    main()
