"""Pages: wrapping, tables, colours; and how times are shown."""

from __future__ import annotations

import pytest

from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import Page
from nriplugin.cli.times import lasting, latency, moment, parse_duration, stamp
from nriplugin.errors import ConfigError


def test_a_text_is_wrapped_at_spaces_and_long_words_at_slashes() -> None:
    """No line is too long, and nothing is lost."""
    page = Page(40, colour=False)
    page.section("Label", 8)
    page.text("some words that are", "more than a line can hold,", "/a/bc/def" * 6)
    assert max(map(len, page.lines)) <= 40
    assert page.lines[0] == "Label   some words that are more than a"
    assert page.lines[1].startswith("        line can hold,")
    assert "".join(page.lines).replace(" ", "").endswith("/a/bc/def" * 6)
    assert page.lines[-2].endswith("/")


def test_hanging_lines() -> None:
    """The first line begins at the left, and takes the room that it has there."""
    page = Page(40, colour=False)
    page.text("x" * 36, "yyy", "z" * 36, hanging=4)
    assert page.lines == ["x" * 36 + " yyy", "    " + "z" * 36]


def test_a_whole_text_is_not_wrapped_at_its_spaces() -> None:
    """A file stays together with its value."""
    page = Page(40, colour=False)
    page.text("x" * 30, Toned("cpu.max=50000 100000", None, whole=True))
    assert page.lines == ["x" * 30, "cpu.max=50000 100000"]


def test_colours_come_after_escaping_and_add_no_width() -> None:
    """A control sequence in a text is escaped, and columns line up."""
    page = Page(80, colour=True)
    page.text(Toned("bad\x1b[0m", Tone.BAD), "plain")
    page.table([("a", Toned("b", Tone.GOOD), "c"), ("aa", "bb", "cc")])
    assert page.lines[0] == "\x1b[31mbad\\x1b[0m\x1b[0m plain"
    assert page.lines[1] == "a   \x1b[32mb\x1b[0m   c"
    assert page.lines[2] == "aa  bb  cc"


def test_wide_columns_of_a_table_are_wrapped() -> None:
    """The widest column gives way; numbers stay at the right."""
    page = Page(40, colour=False)
    page.table([("name", "n"), ("word " * 12, "5"), ("x" * 70, "6")], numbers=True)
    assert max(map(len, page.lines)) <= 40
    text = "".join(page.lines)
    assert text.count("word") == 12
    assert text.count("x") == 70
    assert page.lines[0].index("n", 5) == page.lines[1].index("5")


def test_notes_stand_below_their_row() -> None:
    """They are indented, and wrapped as texts are."""
    page = Page(40, colour=False)
    page.table([("a", "b"), ("c", "d")], notes=[(), ("first", "second")])
    assert page.lines == ["a  b", "c  d", "  first", "  second"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (119.9, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 days")],
)
def test_durations(seconds: float, text: str) -> None:
    """Each in the unit that people would use."""
    assert lasting(seconds) == text


def test_points_in_time() -> None:
    """By the calendar and by their distance; a clock may have been set back."""
    assert moment(0, 180) == "1970-01-01T00:00:00Z (3 min ago)"
    assert moment(0, 0.5) == "1970-01-01T00:00:00Z (now)"
    assert moment(100, 0) == "1970-01-01T00:01:40Z (in the future)"
    assert stamp(1e30) == "1e+30"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00005, "0.05 ms"), (0.25, "250 ms"), (0.0025, "2.5 ms"), (2, "2 s")],
)
def test_latencies(seconds: float, text: str) -> None:
    """In milliseconds, or seconds."""
    assert latency(seconds) == text


def test_durations_that_are_given() -> None:
    """As in Go's tools; a bare number is seconds."""
    given = {"5m": 300, "90": 90, "1h30m": 5400, "250ms": 0.25, "1.5s": 1.5}
    assert {text: parse_duration("-d", text) for text in given} == given
    for text in ("", "m", "5 m", "-1s", "5d", "1h30x", "9" * 400 + "s"):
        with pytest.raises(ConfigError, match=r"-d: .*expected a duration"):
            parse_duration("-d", text)
