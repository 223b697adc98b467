"""The hook on a node with cgroup v1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doors.hook.bundles import CGROUP, ID, POD, Bundle

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.cgroup.types.tree import Tree
from nriplugin.config import parse_config
from nriplugin.doors.hook.bundle import HookError
from nriplugin.doors.hook.handle import HookResult

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.engine.settings import EngineConfig

BURST = "cpu.cfs_burst_us"
NOTHING = HookResult([], [])


def config(text: str) -> EngineConfig:
    return parse_config(text, "test").engine


HALF = config("cpuBurst: {enabled: true, percent: 50}")
LEVELS = config(
    "cpuQoS: {enabled: true, level: BE}\nmemoryQoSLevel: {enabled: true, level: BE}"
)


def v1(tmp_path: Path, **parts: str | None) -> Bundle:
    """Return a container whose quota the runtime has written, as kubelet the pod's."""
    bundle = Bundle(tmp_path, version=1, **parts)  # type: ignore[arg-type] # strings
    for cgroup in (POD, CGROUP):
        bundle.write("cpu.cfs_quota_us", "50000", f"/cpu{cgroup}")
    return bundle


def test_with_defaults_nothing_is_read_or_written(tmp_path: Path) -> None:
    """cgroup v1 needs no conversion, so not even the bundle has to be there."""
    bundle = v1(tmp_path)
    before = bundle.contents()
    (bundle.directory / "config.json").unlink()
    assert bundle.handle() == NOTHING
    assert bundle.contents() == before
    assert not bundle.state_dir.exists()


def test_a_burst_is_written_and_put_back(tmp_path: Path) -> None:
    """The container's and the pod's; the journal has both."""
    bundle = v1(tmp_path)
    before = bundle.contents()
    assert bundle.handle(HALF) == NOTHING
    for cgroup in (POD, CGROUP):
        assert bundle.read(BURST, cgroup=f"/cpu{cgroup}") == {BURST: "25000"}
    tree = Tree(LocalFiles(str(bundle.root), magics=None), 1)
    with Journal(str(bundle.state_dir)) as journal:
        findings = restore(tree, journal)
    assert [found.action for found in findings] == [Action.RESTORED] * 2
    assert {f: text.strip() for f, text in bundle.contents().items()} == {
        f: text.strip() for f, text in before.items()
    }


def test_levels_are_written_where_the_kernel_has_them(tmp_path: Path) -> None:
    """And where it has not, nothing happens."""
    bundle = v1(tmp_path)
    assert bundle.handle(LEVELS) == NOTHING
    files = ("cpu.qos_level", "memory.qos_level")
    places = [
        f"/{file.partition('.')[0]}{at}" for file in files for at in (POD, CGROUP)
    ]
    for place in places:
        bundle.write(f"{place.split('/')[1]}.qos_level", "0", place)
    assert bundle.handle(LEVELS) == NOTHING
    values = [
        value
        for place in places
        for value in bundle.read(
            f"{place.split('/')[1]}.qos_level", cgroup=place
        ).values()
    ]
    assert values == ["-1"] * 4


def test_a_shared_cgroup_is_never_written(tmp_path: Path) -> None:
    """The process is in a cgroup of cpu that does not bear the container's name."""
    bundle = v1(tmp_path, process="/system.slice/containerd.service")
    with pytest.raises(HookError, match=r"containerd\.service"):
        bundle.handle(HALF)


def test_the_cgroup_of_the_cpu_counts(tmp_path: Path) -> None:
    """On a hybrid node the unified hierarchy has the process at another place."""
    bundle = v1(tmp_path)
    proc = tmp_path / "host/proc/4711/cgroup"
    proc.write_text(f"2:cpu,cpuacct:{CGROUP}\n1:name=systemd:/x\n0::/init.scope\n")
    assert bundle.handle(HALF) == NOTHING
    assert bundle.read(BURST, cgroup=f"/cpu{CGROUP}") == {BURST: "25000"}
    assert ID in CGROUP
