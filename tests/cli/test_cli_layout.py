"""Pages: wrapping, tables, colours; and how times are shown."""

from __future__ import annotations

import pytest

from nriplugin.cli.layout import Note, Tone, Toned
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


def test_numbers_without_room_are_below_the_name() -> None:
    """They are not broken, their columns line up, and no line is too long."""
    page = Page(40, colour=False)
    head = ("NAME", "FIRST", "SECOND COLUMN", "THE THIRD", "N")
    rows = [("namespace/a-pod-with-a-name", "1.25Gi", "7", "20 %", "5"), ("b", *"1234")]
    page.table([head, *rows], numbers=True)
    assert page.lines == [
        "NAME",
        "   FIRST  SECOND COLUMN  THE THIRD  N",
        "namespace/a-pod-with-a-name",
        "  1.25Gi              7       20 %  5",
        "b",
        "       1              2          3  4",
    ]
    page = Page(40, colour=False)
    page.table([("x" * 50, *["9" * 12] * 4)], indent=2, numbers=True)
    assert page.lines == [
        "  " + "x" * 38,
        "  " + "x" * 12,
        "    " + "  ".join(["9" * 12] * 2),
        "    " + "  ".join(["9" * 12] * 2),
    ]


def test_values_without_room_are_below_the_name() -> None:
    """They are at the left; where there is room, they are beside the name."""
    rows = [
        ("CGROUP", "CPU.MAX", "MEMORY.MAX"),
        ("  pod " + "x" * 34, "max 100000", "1"),
    ]
    page = Page(40, colour=False)
    page.table(rows, values=True)
    assert page.lines == [
        "CGROUP",
        "  CPU.MAX     MEMORY.MAX",
        "  pod " + "x" * 34,
        "  max 100000  1",
    ]
    page = Page(80, colour=False)
    page.table(rows, values=True)
    assert len(page.lines) == 2


def test_numbers_stay_beside_a_name_that_takes_fewer_lines_so() -> None:
    """One long name does not put the numbers of all others below them."""
    page = Page(40, colour=False)
    rows = [("pod", "1" * 14, "2"), ("  pod-of-a-long-name", "1" * 14, "20")]
    page.table([*rows, rows[0]], numbers=True)
    assert page.lines == [
        f"pod                   {'1' * 14}   2",
        f"  pod-of-a-long-name  {'1' * 14}  20",
        f"pod                   {'1' * 14}   2",
    ]
    rows[1] = ("  a-pod-of-a-long-name", "1" * 14, "20")
    page = Page(40, colour=False)
    page.table([*rows, rows[0]], numbers=True)
    assert page.lines == [
        f"pod                   {'1' * 14}   2",
        f"  a-pod-of-a-long-    {'1' * 14}  20",
        "  name",
        f"pod                   {'1' * 14}   2",
    ]


def test_notes_of_parts() -> None:
    """A part that is whole is not apart, and the lines after the first hang."""
    page = Page(40, colour=False)
    parts = [Toned(one, None, whole=True) for one in ("v2 ", "a=1 2", "b=" + "3" * 28)]
    page.table([("a", "b")], notes=[(Note(parts, indent=2, hanging=4),)])
    assert page.lines == ["a  b", "    v2  a=1 2", "        b=" + "3" * 28]


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
