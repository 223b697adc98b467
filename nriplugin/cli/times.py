"""How points in time and durations are shown, and how a duration is given."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import isinf

from nriplugin.errors import ConfigError

# Unit -> its seconds, and how many of it are shown before the next unit is used.
_UNITS = (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48))
_DAY_S = 86400

_GIVEN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_GIVEN_UNITS_S = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}


def lasting(seconds: float) -> str:
    """Return a duration in the unit that people would use."""
    seconds = max(seconds, 0)
    for unit, size, most in _UNITS:
        if seconds < most * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // _DAY_S)} days"


def latency(seconds: float) -> str:
    """Return the time of a request in milliseconds, or in seconds if it is long."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.2g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def stamp(at: float) -> str:
    """Return a point in time by the calendar, in UTC and to the second."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # no year of four digits
        return str(at)


def moment(at: float, now: float) -> str:
    """Return a point in time by the calendar and by its distance."""
    passed = now - at
    if passed < -1:  # the clock was set back since
        return f"{stamp(at)} (in the future)"
    return f"{stamp(at)} ({'now' if passed < 1 else f'{lasting(passed)} ago'})"


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a duration such as 5m, 1h30m, 90s or 90.

    Raises:
        ConfigError: the text is no duration.
    """
    parts = _GIVEN.findall(text)
    whole = "".join(number + unit for number, unit in parts)
    seconds = sum(float(number) * _GIVEN_UNITS_S[unit] for number, unit in parts)
    if not parts or whole != text or isinf(seconds):
        raise ConfigError(
            f"{option}: {text!r:.80}, expected a duration such as 30s, 5m or 1h30m"
        )
    return float(seconds)
