"""The log of a daemon: its formats, and what happens to equal lines."""

from __future__ import annotations

import io
import json
import logging
import re

from nriplugin.cli.logs import (
    EQUAL_LINES,
    FIELDS,
    PERIOD_S,
    REMEMBERED_LINES,
    JSONFormatter,
    LimitedHandler,
    RepeatLimit,
)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Log:
    """A log whose lines a test reads."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._stream = io.StringIO()
        self.handler = LimitedHandler(self._stream, RepeatLimit(self.clock))

    def say(self, text: str, level: int = logging.INFO) -> None:
        record = logging.LogRecord("x", level, "", 0, text, None, None)
        self.handler.handle(record)

    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


def record_of(text: str, *args: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("nriplugin.x", logging.INFO, "", 0, text, args, None)
    record.__dict__.update(extra)
    return record


def test_json_has_one_object_per_line() -> None:
    """With the time in UTC to the millisecond, the level, the logger and the text."""
    record = record_of("%s: two\nlines \x1b[31m \udcff", "a")
    record.created = 0.0625
    text = JSONFormatter().format(record)
    assert "\n" not in text
    assert text.isascii()
    assert json.loads(text) == {
        "ts": "1970-01-01T00:00:00.062Z",
        "level": "info",
        "logger": "nriplugin.x",
        "msg": "a: two\nlines \x1b[31m \\xff",
    }


def test_json_has_the_fields_of_a_decision() -> None:
    """They are beside the text, for programs."""
    record = record_of("text", **{FIELDS: {"pod": "web", "files": {"cpu.max": "1 2"}}})
    line = json.loads(JSONFormatter().format(record))
    assert (line["pod"], line["files"]) == ("web", {"cpu.max": "1 2"})


def test_json_has_a_traceback_in_one_field() -> None:
    """So that a reader need not put lines together."""
    try:
        raise ValueError("no such thing")
    except ValueError as exc:
        record = record_of("failed")
        record.exc_info = (type(exc), exc, exc.__traceback__)
    line = json.loads(JSONFormatter().format(record))
    assert line["msg"] == "failed"
    assert line["exception"].endswith("ValueError: no such thing")
    assert re.match(r"Traceback .*\n", line["exception"])


def test_equal_lines_are_limited() -> None:
    """A few are logged, then one in each period; other lines are not affected."""
    log = Log()
    for _ in range(EQUAL_LINES + 7):
        log.say("the runtime is away")
    log.say("something else")
    assert log.lines() == ["the runtime is away"] * EQUAL_LINES + ["something else"]
    log.clock.now += PERIOD_S - 1
    log.say("the runtime is away")
    assert len(log.lines()) == EQUAL_LINES + 1
    log.clock.now += 1
    log.say("the runtime is away")
    assert log.lines()[-1] == "the runtime is away"


def test_the_same_text_at_another_level_is_another_line() -> None:
    """An error must not be lost among equal warnings."""
    log = Log()
    for _ in range(EQUAL_LINES + 1):
        log.say("trouble", logging.WARNING)
    log.say("trouble", logging.ERROR)
    assert len(log.lines()) == EQUAL_LINES + 1


def test_what_was_left_out_is_counted() -> None:
    """The count comes with the next line after a period, and at the end."""
    log = Log()
    for _ in range(EQUAL_LINES + 7):
        log.say("the runtime is away")
    log.clock.now += PERIOD_S
    log.say("the runtime is back")
    assert log.lines()[-2:] == [
        "7 more lines were: the runtime is away",
        "the runtime is back",
    ]
    for _ in range(EQUAL_LINES + 3):
        log.say("it is away again")
    log.handler.close()
    assert log.lines()[-1] == "3 more lines were: it is away again"


def test_few_different_lines_are_remembered() -> None:
    """A container may choose names, and so make any number of different lines."""
    log = Log()
    for number in range(10 * REMEMBERED_LINES):
        log.say(f"line {number}")
    assert len(log.handler._limit._lines) <= REMEMBERED_LINES + 1
    assert len(log.lines()) == 10 * REMEMBERED_LINES
