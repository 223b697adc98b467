"""Writes deploy/image/requirements.txt: each wheel's version, and its hashes.

There is one hash for each architecture, and one for a wheel that fits all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nodes.shell import run

from images.wheels import EXTRAS, LOCK, PIP, PROCESSORS, platform_options

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """\
# The packages of the image, beside nriplugin itself. Made by: hack/image --lock
"""


def write_lock(wheel: Path) -> None:
    """Find the newest versions that a wheel of nriplugin accepts, and write them."""
    hashes: dict[str, set[str]] = {}
    for architecture in PROCESSORS:
        for item in _resolved(wheel, architecture):
            name = f"{item['metadata']['name']}=={item['metadata']['version']}"
            download = item["download_info"]
            if not download["url"].endswith(wheel.name):
                sha256 = download["archive_info"]["hashes"]["sha256"]
                hashes.setdefault(name.lower(), set()).add(sha256)
    lines = [
        " \\\n    ".join([name, *(f"--hash=sha256:{one}" for one in sorted(found))])
        for name, found in sorted(hashes.items())
    ]
    LOCK.write_text(HEADER + "\n".join(lines) + "\n")


def _resolved(wheel: Path, architecture: str) -> list[dict[str, Any]]:
    report = run(
        *(*PIP, "install", "--dry-run", "--ignore-installed", "--report", "-"),
        *("--target", "/nonexistent", *platform_options(architecture)),
        f"{wheel}{EXTRAS}",
    )
    found: list[dict[str, Any]] = json.loads(report)["install"]
    return found
