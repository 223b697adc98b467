"""docs/architecture.md names only files that exist, and every package of nriplugin."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
TEXT = (TOP / "docs/architecture.md").read_text()


def test_every_file_that_is_named_exists() -> None:
    """A path is below nriplugin/, or below the top of the repository."""
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|proto|toml))`", TEXT))
    assert len(named) > 30
    doors = [TOP / "nriplugin/doors" / door for door in ("nri", "cri", "hook")]
    places = [TOP / "nriplugin", TOP, *doors]
    missing = [
        name for name in named if not any((place / name).exists() for place in places)
    ]
    assert missing == []


def test_every_package_is_named() -> None:
    """A new package has to be placed in the picture."""
    packages = [path.parent.name for path in TOP.glob("nriplugin/*/__init__.py")]
    assert len(packages) > 10
    assert [name for name in packages if f"{name}/" not in TEXT] == []
