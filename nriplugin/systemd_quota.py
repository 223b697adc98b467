"""How systemd rounds a CPU quota. Pure; shared by the engine and by cgroup/.

systemd keeps a quota as microseconds of CPU time per second, and stores it in steps of
1 % of a CPU: a quota of 12345 per 100000 comes back as 13000 after a `daemon-reload`.
Rounding before the first write, upwards as runc does, makes the value of cpu.max the
same before and after a reload.
"""

from __future__ import annotations

import re

US_PER_SECOND = 1_000_000
STEP_US = US_PER_SECOND // 100
DEFAULT_PERIOD = "100000"

_NUMBER = re.compile(r"[0-9]{1,19}")


def quota_per_second(quota_us: int, period_us: int) -> int:
    """Return the microseconds per second that systemd stores: the next whole step."""
    return -(-quota_us * US_PER_SECOND // (period_us * STEP_US)) * STEP_US


def rounded_cpu_max(content: str) -> str:
    """Return what cpu.max holds once systemd has written `content`.

    A text without a quota in numbers comes back unchanged.
    """
    words = content.split()
    if not words or not _NUMBER.fullmatch(words[0]):
        return content
    period = words[1] if len(words) > 1 else DEFAULT_PERIOD
    if not _NUMBER.fullmatch(period) or int(period) == 0:
        return content
    per_second = quota_per_second(int(words[0]), int(period))
    words[0] = str(per_second * int(period) // US_PER_SECOND)
    return " ".join(words)
