"""Bars and lines as SVG."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from drawing.plots import LETTER, WIDTH, bars, lines, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

SVG = "{http://www.w3.org/2000/svg}"
GROUPS = {
    "nriplugin": {"p50": 280.0, "p99": 1400.0},
    "Go <stub> & others": {"p50": 400.0, "p99": 3500.0},
}


def parsed(picture: str) -> ET.Element:
    """Return a picture as XML."""
    return ET.fromstring(picture)  # noqa: S314 # our own


def elements(picture: str, tag: str, *classes: str) -> list[dict[str, str]]:
    """Return the attributes of elements, those of some classes only."""
    return [
        dict(one.attrib)
        for one in parsed(picture).iter(f"{SVG}{tag}")
        if not classes or one.get("class") in classes
    ]


def words(picture: str) -> Iterator[tuple[float, float, float, str]]:
    """Yield where each text begins, ends and stands, and what it says."""
    for one in parsed(picture).iter(f"{SVG}text"):
        text = one.text or ""
        x, wide = float(one.get("x", "")), LETTER * len(text)
        left = x - {"end": wide, "middle": wide / 2}.get(one.get("text-anchor", ""), 0)
        yield left, left + wide, float(one.get("y", "")), text


def test_a_bar_is_as_long_as_its_figure() -> None:
    """The widths of all bars have the ratios of their figures."""
    found = [float(one["width"]) for one in elements(bars("T", "µs", GROUPS), "rect")]
    widths = found[1:]  # the first one is the paper
    wanted = [v for group in GROUPS.values() for v in group.values()]
    assert [w / widths[-1] for w in widths] == pytest.approx(
        [v / wanted[-1] for v in wanted], rel=0.01
    )


def test_bars_do_not_overlap_and_have_their_figures() -> None:
    """Each bar begins below the one before; its figure and names are beside it."""
    picture = bars("T", "µs", GROUPS)
    boxes = elements(picture, "rect")[1:]
    for above, below in itertools.pairwise(boxes):
        assert float(above["y"]) + float(above["height"]) < float(below["y"])
    said = [text for _, _, _, text in words(picture)]
    assert said == [
        *("T, µs", "nriplugin", "p50", "280", "p99", "1,400"),
        *("Go <stub> & others", "p50", "400", "p99", "3,500"),
    ]


def test_bars_of_one_kind_have_no_second_name() -> None:
    """Where each group has one bar, the group's name says it all."""
    said = [text for *_, text in words(bars("T", "ms", {"a": {"ms": 1.5}}))]
    assert said == ["T, ms", "a", "1.50"]


SERIES = {
    "nriplugin": {10.0: 270.0, 1000.0: 320.0, 10_000.0: 280.0},
    "Go stub": {10.0: 400.0, 10_000.0: 410.0},
}


def test_a_line_goes_through_its_figures() -> None:
    """Powers of ten are equally far apart, and heights are in the ratio of figures."""
    picture = lines("T", "µs", "containers", SERIES)
    drawn = [
        [tuple(map(float, place.split(","))) for place in one["points"].split()]
        for one in elements(picture, "polyline")
    ]
    (x10, y270), (x1000, y320), (x10000, y280) = drawn[0]
    assert (x1000 - x10) == pytest.approx(2 * (x10000 - x1000), abs=0.2)
    bottom = next(float(one["y1"]) for one in elements(picture, "line", "axis"))
    assert (bottom - y320) / (bottom - y270) == pytest.approx(320 / 270, abs=0.01)
    assert y320 < y280 < y270
    # A point that is missing is left out.
    assert [round(x, 1) for x, _ in drawn[1]] == [x10, x10000]
    dashes = [one["stroke-dasharray"] for one in elements(picture, "polyline")]
    assert len(set(dashes)) == len(dashes)


@pytest.mark.parametrize(
    "picture",
    [
        bars("T", "µs", GROUPS),
        bars("T", "ms", {"annotated, all differ": {"p50": 0.0, "p90": 123_456.0}}),
        lines("T", "µs", "containers", SERIES),
        lines("T", "µs", "containers", {"one": {5.0: 0.0}}),
    ],
)
def test_texts_are_inside_and_apart(picture: str) -> None:
    """No text leaves the picture or lies over another one."""
    height = float(parsed(picture).get("height", ""))
    found = list(words(picture))
    for left, right, y, text in found:
        assert 0 <= left <= right <= WIDTH, text
        assert 0 < y < height, text
    for one, other in itertools.combinations(found, 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or abs(one[2] - other[2]) >= 13
        assert apart, (one, other)


def test_a_logarithmic_axis_has_no_zero() -> None:
    """It is refused instead of drawn somewhere."""
    with pytest.raises(ValueError, match="logarithmic"):
        lines("T", "µs", "containers", {"a": {0.0: 1.0}})


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (0, "0"),
        (5.0, "5"),
        (0.02512, "0.025"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (123.45, "123"),
        (-8.5, "-8.50"),
        (98_765.4, "98,765"),
    ],
)
def test_figures_have_three_digits(figure: float, text: str) -> None:
    """And all of those before the point; a whole figure has no other."""
    assert shown(figure) == text
