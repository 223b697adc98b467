"""A made-up node whose cgroups hold what `nriplugin capacity` says that they should."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.trees import add_v1, add_v2, make

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SAMPLES = Path(__file__).parent.parent / "data" / "capacity"
NODE = str(SAMPLES / "node.yaml")
PODS = str(SAMPLES / "pods.yaml")


def levels(level: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a level of a JSON report and all below it."""
    yield level
    for one in level["below"]:
        yield from levels(one)


def fill(version: int, root: Path, tree: Mapping[str, Any]) -> None:
    """Make the cgroups of a JSON report, as a kubelet and a runtime would."""
    make(version, root, ())
    for level in levels(tree):
        cgroup = level["cgroup"]
        if cgroup is None:
            continue
        (add_v2 if version == 2 else add_v1)(root, cgroup)
        for file, value in level[f"v{version}"].items():
            file_in(version, root, cgroup, file).write_text(f"{value}\n")


def file_in(version: int, root: Path, cgroup: str, file: str) -> Path:
    """Return the path of a cgroup's file on the machine."""
    top = root / file.partition(".")[0] if version == 1 else root
    return top / cgroup.strip("/") / file
