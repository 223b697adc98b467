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


def machine(tmp_path: Path) -> None:
    """Make the files of /proc and /sys that have a machine's capacity."""
    for path, text in {
        "proc/meminfo": "MemTotal: 8388608 kB\nSwapTotal: 0 kB\n",
        "sys/devices/system/cpu/online": "0-3\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        "proc/sys/kernel/pid_max": "32768\n",
        "proc/sys/kernel/threads-max": "60000\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
