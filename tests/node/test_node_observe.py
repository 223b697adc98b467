"""Reading cgroups: the memory that containers use, and the weights runtimes wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from node.writing import kernel_with
from support.trees import CONTAINER, CONTAINER_ID, POD, UID, make

from nriplugin.convert import Curve
from nriplugin.engine.curve import Observation, recognise_curve
from nriplugin.engine.model import Use
from nriplugin.node.observe import (
    container_cgroup,
    files_not_holding,
    held,
    memory_use,
    observe,
)

if TYPE_CHECKING:
    from pathlib import Path

SLICE = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
SCOPE = f"{SLICE}/cri-containerd-{CONTAINER_ID}.scope"


@pytest.mark.parametrize("version", [1, 2])
def test_memory_in_use(version: int, tmp_path: Path) -> None:
    """On either version; the use of a container that is gone is not known."""
    tree = make(version, tmp_path / "cgroup")
    assert memory_use(tree, CONTAINER) == Use(1048576)
    assert memory_use(tree, f"{POD}/gone") == Use(None)
    assert memory_use(tree, f"{POD}/../../..") == Use(None)
    tree.files.close()  # type: ignore[attr-defined] # LocalFiles, here


@pytest.mark.parametrize("content", ["", "max", "much"])
def test_memory_that_makes_no_sense(content: str) -> None:
    """The use is not known."""
    kernel = kernel_with(files=[(f"{CONTAINER}/memory.current", content)])
    assert memory_use(kernel.tree, CONTAINER) == Use(None)


def test_what_a_file_holds() -> None:
    """The content has no newline at its end; None if it cannot be read."""
    tree = kernel_with().tree
    assert held(tree, CONTAINER, "cpu.max") == "max 100000"
    assert held(tree, CONTAINER, "cpu.nonsense") is None
    assert held(tree, "/gone", "cpu.max") is None


@pytest.mark.parametrize(
    "name",
    [
        CONTAINER_ID,
        f"crio-{CONTAINER_ID}",
        f"crio-{CONTAINER_ID}.scope",
        f"cri-containerd-{CONTAINER_ID}.scope",
        f"docker-{CONTAINER_ID}.scope",
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_container_by_its_id(name: str, version: int) -> None:
    """For the cgroup names of every runtime, and never conmon's cgroup."""
    others = ("a" * 64, f"crio-conmon-{CONTAINER_ID}.scope")
    kernel = Kernel(version, [POD, *(f"{POD}/{one}" for one in (*others, name))])
    assert container_cgroup(kernel.tree, POD, CONTAINER_ID) == f"{POD}/{name}"


@pytest.mark.parametrize("container_id", ["", "f" * 64, "..", "/"])
def test_a_container_that_is_not_there(container_id: str) -> None:
    """An empty ID finds nothing, although every name contains it."""
    assert container_cgroup(kernel_with().tree, POD, container_id) is None
    assert container_cgroup(kernel_with().tree, "/gone", container_id) is None


def seen(
    weight: str = "39", shares: int | None = 1024, cgroup: str = CONTAINER
) -> Observation | None:
    kernel = kernel_with(POD, CONTAINER, SLICE, SCOPE)
    kernel.files[f"{cgroup}/cpu.weight"] = weight
    return observe(kernel.tree, cgroup, shares, {}, shows_unified=True)


@pytest.mark.parametrize("cgroup", [CONTAINER, SCOPE])
def test_a_container_shows_its_weight(cgroup: str) -> None:
    """With the shares that it was created with, and its pod's UID."""
    assert seen(cgroup=cgroup) == Observation(1024, 39, UID, made_by_us=False)


@pytest.mark.parametrize("weight", ["", "max", "-1", "1.5"])
def test_a_weight_that_is_no_number(weight: str) -> None:
    """It shows nothing."""
    assert seen(weight) is None


@pytest.mark.parametrize("shares", [None, 0])
def test_without_shares_there_is_nothing_to_compare(shares: int | None) -> None:
    """0 is "not given"."""
    assert seen(shares=shares) is None


@pytest.mark.parametrize(
    "cgroup",
    [POD, SLICE, "/kubepods", "/system.slice", f"{POD}/crio-conmon-{CONTAINER_ID}"],
)
def test_only_containers_show_a_weight(cgroup: str) -> None:
    """Other cgroups have weights that kubelet or another program set."""
    kernel = kernel_with(cgroup)
    assert observe(kernel.tree, cgroup, 1024, {}, shows_unified=True) is None


def test_an_idle_container_shows_nothing() -> None:
    """The kernel shows its own weight, which looks like an older runtime's."""
    kernel = kernel_with(
        files=[(f"{CONTAINER}/cpu.idle", "1"), (f"{CONTAINER}/cpu.weight", "1")]
    )
    assert recognise_curve([Observation(10, 1)]).curve is Curve.KEP
    assert observe(kernel.tree, CONTAINER, 10, {}, shows_unified=True) is None


def test_an_old_kernel_has_no_idle() -> None:
    """Before Linux 5.15 every container shows its weight."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.weight", "39")])
    del kernel.files[f"{CONTAINER}/cpu.idle"]
    found = observe(kernel.tree, CONTAINER, 1024, {}, shows_unified=True)
    assert found == Observation(1024, 39, UID)


def test_a_container_that_is_gone_shows_nothing() -> None:
    """It ended between the listing and the look at its cgroup."""
    kernel = kernel_with()
    kernel.remove(CONTAINER)
    assert observe(kernel.tree, CONTAINER, 1024, {}, shows_unified=True) is None


@pytest.mark.parametrize(
    ("unified", "shows", "made_by_us"),
    [
        ({}, True, False),
        ({"memory.high": "max"}, True, False),
        ({"cpu.weight": "39"}, True, True),
        ({}, False, None),
        ({"cpu.weight": "39"}, False, None),
    ],
)
def test_whether_nriplugin_set_a_weight(
    unified: dict[str, str], shows: bool, made_by_us: bool | None
) -> None:
    """It is certain only if the runtime shows the values that it keeps."""
    found = observe(kernel_with().tree, CONTAINER, 1024, unified, shows_unified=shows)
    assert found is not None
    assert found.made_by_us is made_by_us


def test_from_files_to_a_curve() -> None:
    """The engine recognises a curve from observed files."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.weight", "39")])
    found = observe(kernel.tree, CONTAINER, 1024, {}, shows_unified=False)
    assert found is not None
    recognised = recognise_curve([found, Observation(1024, 100)], UID)
    assert recognised.curve is Curve.KEP
    assert "of this pod" in recognised.evidence


def test_files_that_do_not_hold_their_value() -> None:
    """Values are compared as the kernel shows them; an unreadable file holds none."""
    kernel = kernel_with(
        files=[
            (f"{CONTAINER}/cpu.max", "max 100000"),
            (f"{CONTAINER}/memory.max", "4096"),
            (f"{CONTAINER}/cpu.weight", "100"),
        ]
    )
    wanted = {"cpu.max": "max", "memory.max": "5000", "cpu.weight": "59", "gone": "1"}
    missing = files_not_holding(kernel.tree, CONTAINER, wanted)
    assert missing == {"cpu.weight": "59", "gone": "1"}
