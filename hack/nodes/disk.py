"""Disks made of directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.shell import run

if TYPE_CHECKING:
    from pathlib import Path


def make_disk(tree: Path, image: Path, spare_mb: int = 16) -> None:
    """Make an ext4 disk of a directory, without mounting anything."""
    used_kb = int(run("du", "-sk", tree).split()[0])
    size_kb = used_kb * 5 // 4 + spare_mb * 1024
    run(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
        "-d",
        tree,
        image,
        f"{size_kb}k",
    )
