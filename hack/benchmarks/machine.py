"""Names what was measured and where: the commit and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from nriplugin import __version__

TOP = Path(__file__).parents[2]


def commit() -> str:
    """Return the commit, and whether files differ from it.

    What the benches themselves write does not count as a difference.
    """
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", ".", ":!docs/benchmarks*")
    except (OSError, subprocess.CalledProcessError):
        return f"version {__version__}"
    return f"{head} with changes" if changed else head


def machine() -> str:
    """Return the processor, the memory, and the versions of what runs on it."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    return ", ".join(
        (
            f"{os.cpu_count()} × {_processor()}",
            f"{memory:.0f} GiB",
            system,
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
        )
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return " ".join(value.split())
    return platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=TOP, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
