"""The capacity of a machine, as kubelet finds it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.capacity_trees import machine

from nriplugin.kube.capacity import node_capacity
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
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


def test_huge_pages_are_set_aside(tmp_path: Path) -> None:
    """They are counted by the size of a page, as kubelet counts them."""
    machine(tmp_path)
    directory = tmp_path / "sys/kernel/mm/hugepages"
    (directory / "hugepages-2048kB/nr_hugepages").write_text("512\n")
    (directory / "hugepages-1048576kB").mkdir()
    (directory / "hugepages-1048576kB/nr_hugepages").write_text("0\n")
    amounts = machine_capacity(str(tmp_path)).amounts
    assert amounts["hugepages-2Mi"] == str(1 << 30)
    assert amounts["hugepages-1Gi"] == "0"
    node = node_capacity(amounts, KubeletCapacitySettings())
    assert node.allocatable["memory"] == (7 << 30) - (100 << 20)
    assert node.available_to_pods["memory"] == 8 << 30


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    """It has no directory of them."""
    machine(tmp_path)
    shutil.rmtree(tmp_path / "sys/kernel")
    assert set(machine_capacity(str(tmp_path)).amounts) == {"cpu", "memory", "pid"}
