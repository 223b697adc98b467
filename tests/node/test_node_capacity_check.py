"""The comparison of a node's cgroups with the values that kubelet means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.trees import CONTAINER, POD, QOS, add_v2, make

from nriplugin.kube.level_tree import CgroupLevel
from nriplugin.node.capacity_check import compare_levels

if TYPE_CHECKING:
    from pathlib import Path

SLICE = (
    "/kubepods.slice/kubepods-burstable.slice/"
    "kubepods-burstable-pod7b0f0a2e_5d6c_4c1f_9c39_1f5a2a0f4b11.slice"
)


def level(name: str, cgroup: str, *below: CgroupLevel, **v2: str) -> CgroupLevel:
    files = {file.replace("_", "."): value for file, value in v2.items()}
    return CgroupLevel(name, name, cgroup, "", {}, {}, {}, files, below)


def test_a_quota_that_systemd_has_rounded_is_the_same(tmp_path: Path) -> None:
    """In a slice, 12345 of 100000 is 13000; where kubelet writes, it is not."""
    for cgroup, count in ((SLICE, 0), (POD, 1)):
        add_v2(tmp_path, cgroup)
        (tmp_path / cgroup[1:] / "cpu.max").write_text("13000 100000\n")
        tree = make(2, tmp_path, ())
        pod = level("pod", cgroup, cpu_max="12345 100000")
        assert len(compare_levels(tree, pod, pods_are_complete=False)) == count


def test_what_crun_puts_into_its_inner_cgroup_counts(tmp_path: Path) -> None:
    """... except for the weight, which has an effect only among siblings."""
    tree = make(2, tmp_path)
    add_v2(tmp_path, f"{CONTAINER}/container")
    for file in ("memory.max", "cpu.weight"):
        inner = tmp_path / CONTAINER[1:] / "container" / file
        inner.write_text("4096\n")
    one = level("container", CONTAINER, memory_max="4096", cpu_weight="4096")
    found = compare_levels(tree, one, pods_are_complete=False)
    assert [difference.file for difference in found] == ["cpu.weight"]


@pytest.mark.parametrize(
    ("name", "cgroup", "file", "held", "likely"),
    [
        ("node", "/kubepods", "memory_max", "max", "kubelet does not enforce this"),
        (
            "qos",
            QOS,
            "cpu_weight",
            "7",
            "another program has written it since; kubelet",
        ),
        ("pod", POD, "cpu_weight", "100", "kubelet has not written it yet"),
        ("pod", POD, "memory_low", "4096", "nriplugin's memoryQoS or kubelet's gate"),
        ("container", CONTAINER, "cpu_weight", "7", "the container was resized"),
    ],
)
def test_who_has_likely_caused_a_difference(
    tmp_path: Path, name: str, cgroup: str, file: str, held: str, likely: str
) -> None:
    """It depends on the level, the file, and whether the kernel's default is there."""
    make(2, tmp_path)
    dotted = file.replace("_", ".")
    (tmp_path / cgroup[1:] / dotted).write_text(f"{held}\n")
    one = CgroupLevel(name, name, cgroup, "", {}, {}, {}, {dotted: "8192"})
    tree = make(2, tmp_path, ())
    (difference,) = compare_levels(tree, one, pods_are_complete=False)
    assert (difference.wanted, difference.held) == ("8192", held)
    assert likely in difference.likely


def test_a_controller_that_is_off_is_named(tmp_path: Path) -> None:
    """A file that is not there is a difference, and the cgroup is not missing."""
    tree = make(2, tmp_path)
    (tmp_path / POD[1:] / "memory.max").unlink()
    one = level("pod", POD, memory_max="4096")
    (difference,) = compare_levels(tree, one, pods_are_complete=False)
    assert difference.problem == "cannot be read, expected 4096"
    assert "controller memory is off" in difference.likely
