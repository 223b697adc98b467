"""The capacity of a machine, as kubelet finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.capacity_trees import machine

from nriplugin.node.proc_capacity import machine_capacity

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("cgroup", "swap"), [("/", None), ("/system.slice/kubelet.service", 0)]
)
def test_a_kubelet_in_the_root_sets_no_swap(
    tmp_path: Path, cgroup: str, swap: int | None
) -> None:
    """The root has no memory.swap.max, by which kubelet knows that it can be set."""
    machine(tmp_path)
    process = tmp_path / "proc/7"
    process.mkdir()
    (process / "cmdline").write_bytes(b"/usr/bin/kubelet\0--v=2\0")
    (process / "comm").write_text("kubelet\n")
    (process / "status").write_text("Name:\tkubelet\nUid:\t0\t0\t0\t0\n")
    (process / "cgroup").write_text(f"0::{cgroup}\n")
    (process / "exe").symlink_to("/usr/bin/kubelet")
    assert machine_capacity(str(tmp_path)).swap_bytes == swap


def test_without_a_kubelet_the_swap_is_the_machines(tmp_path: Path) -> None:
    """Nothing is known of a kubelet then."""
    machine(tmp_path)
    assert machine_capacity(str(tmp_path)).swap_bytes == 0
