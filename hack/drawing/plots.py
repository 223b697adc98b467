"""Draws bars and lines as SVG: plain text, and the same figures make the same file.

Colours follow the reader's light or dark setting. Every bar has its name and its
figure beside it, and lines differ in their dashes, so that nothing depends on colours.
"""

from __future__ import annotations

from html import escape
from math import floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Bars = Mapping[str, Mapping[str, float]]  # group -> name of the bar -> figure
    Lines = Mapping[str, Mapping[float, float]]  # name of the line -> x -> y

WIDTH = 780
MARGIN = 18
TITLE = 34
# How wide a letter of the text is, at most on average.
LETTER = 7.3
BAR, GAP = 20, 12
STEPS = 5

LIGHT = {"paper": "#ffffff", "ink": "#24292f", "grid": "#d8dee4", "axis": "#57606a"}
DARK = {"paper": "#0d1117", "ink": "#e6edf3", "grid": "#30363d", "axis": "#8b949e"}
LIGHT_SERIES = ("#0550ae", "#bc4c00", "#116329", "#8250df", "#9a6700", "#57606a")
DARK_SERIES = ("#79c0ff", "#ffa657", "#7ee787", "#d2a8ff", "#e3b341", "#8b949e")
DASHES = ("none", "9 4", "2 4", "12 4 2 4", "5 3", "1 3")


def shown(figure: float) -> str:
    """Return a figure with three digits or more, a whole one with its own."""
    if figure == round(figure):
        return f"{figure:,.0f}"
    digits = max(0, 2 - floor(log10(abs(figure))))
    return f"{figure:,.{min(digits, 3)}f}"


def bars(title: str, unit: str, groups: Bars) -> str:
    """Return a picture of horizontal bars, one below the other."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    label = MARGIN + LETTER * max((len(name) for name in groups), default=0)
    # A single bar in each group needs no name besides the group's.
    left = label + 14
    if len(names) > 1:
        left += LETTER * max(len(name) for name in names) + 10
    most = max((abs(v) for group in groups.values() for v in group.values()), default=0)
    right = WIDTH - MARGIN - LETTER * (len(shown(most)) + 1)
    scale = (right - left) / (most or 1)
    y = float(TITLE + GAP)
    parts: list[str] = []
    for group, figures in groups.items():
        parts.append(_text(label, y + BAR / 2 + 4, group, "end"))
        for name, figure in figures.items():
            width = max(1.0, abs(figure) * scale)
            if len(names) > 1:
                parts.append(_text(left - 8, y + BAR / 2 + 4, name, "end"))
            parts.append(
                f'<rect class="s{names.index(name) % len(DASHES)}" x="{left:.1f}" '
                f'y="{y:.1f}" width="{width:.1f}" height="{BAR - 4}"/>'
            )
            parts.append(_text(left + width + 6, y + BAR / 2 + 4, shown(figure)))
            y += BAR
        y += GAP
    axis = f'x1="{left:.1f}" y1="{TITLE + 4}" x2="{left:.1f}" y2="{y - GAP / 2:.1f}"'
    parts.append(f'<line class="axis" {axis}/>')
    return _picture(f"{title}, {unit}", y + MARGIN / 2, parts)


def lines(title: str, unit: str, x_title: str, series: Lines) -> str:
    """Return a picture of lines; the horizontal axis is logarithmic, the other is not.

    Raises:
        ValueError: a horizontal value is not positive, or there is nothing to draw.
    """
    xs = sorted({x for points in series.values() for x in points})
    if not xs or xs[0] <= 0:
        raise ValueError(f"{title}: a logarithmic axis for {xs}")
    most = max(y for points in series.values() for y in points.values())
    top = TITLE + 16 + 20 * len(series)
    left, right, bottom = MARGIN + 66, WIDTH - MARGIN - 30, top + 260
    step = _step(most)
    highest = step * (int(most / step) + 1)

    def x_of(x: float) -> float:
        if xs[0] == xs[-1]:
            return (left + right) / 2
        return left + (right - left) * log10(x / xs[0]) / log10(xs[-1] / xs[0])

    def y_of(y: float) -> float:
        return bottom - (bottom - top) * y / highest

    parts = list(_legend(list(series), left))
    for number in range(round(highest / step) + 1):
        y = y_of(number * step)
        ends = f'x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"'
        parts.append(f'<line class="{"grid" if number else "axis"}" {ends}/>')
        parts.append(_text(left - 8, y + 4, shown(number * step), "end"))
    for x in xs:
        place = f'x1="{x_of(x):.1f}" y1="{bottom}" x2="{x_of(x):.1f}" y2="{bottom + 5}"'
        parts.append(f'<line class="axis" {place}/>')
        parts.append(_text(x_of(x), bottom + 21, f"{x:,.0f}", "middle"))
    parts.append(_text((left + right) / 2, bottom + 44, x_title, "middle"))
    for number, points in enumerate(series.values()):
        kind = number % len(DASHES)
        places = [(x_of(x), y_of(y)) for x, y in sorted(points.items())]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline class="l{kind}" fill="none" stroke-width="2.5" '
            f'stroke-dasharray="{DASHES[kind]}" points="{way}"/>'
        )
        parts += [
            f'<circle class="s{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
            for x, y in places
        ]
    return _picture(f"{title}, {unit}", bottom + 44 + MARGIN, parts)


def _step(most: float) -> float:
    """Return a round distance of grid lines, of which about `STEPS` are drawn."""
    rough = (most or 1) / STEPS
    power = 10.0 ** floor(log10(rough))
    return next(power * one for one in (1, 2, 5, 10) if power * one >= rough)


def _legend(names: list[str], left: float) -> Iterator[str]:
    for row, name in enumerate(names):
        y, kind = TITLE + 16 + 20 * row, row % len(DASHES)
        ends = f'x1="{left:.1f}" y1="{y}" x2="{left + 36:.1f}" y2="{y}"'
        yield (
            f'<line class="l{kind}" stroke-width="2.5" '
            f'stroke-dasharray="{DASHES[kind]}" {ends}/>'
        )
        yield _text(left + 44, y + 4, name)


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def _rules(colours: dict[str, str], series: tuple[str, ...]) -> Iterator[str]:
    yield f".paper {{ fill: {colours['paper']}; }}"
    yield f"text {{ fill: {colours['ink']}; }}"
    yield f".grid {{ stroke: {colours['grid']}; }}"
    yield f".axis {{ stroke: {colours['axis']}; }}"
    for number, colour in enumerate(series):
        yield f".s{number} {{ fill: {colour}; }}"
        yield f".l{number} {{ stroke: {colour}; }}"


def _picture(title: str, height: float, parts: list[str]) -> str:
    size = f"{WIDTH} {height:.0f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{WIDTH}" height="{height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            "<style>",
            "text { font: 13px system-ui, sans-serif; }",
            *_rules(LIGHT, LIGHT_SERIES),
            "@media (prefers-color-scheme: dark) {",
            *(f"  {rule}" for rule in _rules(DARK, DARK_SERIES)),
            "}",
            "</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>',
            f'<text x="{MARGIN}" y="24" font-weight="600">{escape(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )
