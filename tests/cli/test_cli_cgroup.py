"""`nriplugin cgroup` as a user types it, on trees of both versions."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.trees import CGROUPS, CONTAINER, CONTAINER_ID, POD, UID, add_v2, make

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.types.registry import Type
from nriplugin.cli.main import main
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.types.tree import Tree


@dataclass
class Shell:
    """Runs the command on a tree of its own."""

    root: Path
    state: Path
    tree: Tree
    capsys: pytest.CaptureFixture[str]
    err: str = ""

    def __call__(self, what: str, *arguments: str, code: int = 0) -> str:
        options = ["--cgroup-root", str(self.root)]
        host = self.root.parent / "host"
        (host / "proc").mkdir(parents=True, exist_ok=True)
        options += ["--host-root", str(host)]
        if what == "set":
            options += ["--state-dir", str(self.state)]
        assert main(["cgroup", what, *options, *arguments]) == code
        out, self.err = self.capsys.readouterr()
        return out


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def shell(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    monkeypatch.delenv("NRIPLUGIN_CGROUP_VERSION", raising=False)
    monkeypatch.delenv("CGROUP_DRIVER", raising=False)
    root = tmp_path / "cgroup"
    return Shell(root, tmp_path / "state", make(request.param, root), capsys)


def test_the_tree_shows_pods_and_containers(shell: Shell) -> None:
    """`tree` indents pods and containers and shows their main values."""
    header, *lines = shell("tree").splitlines()
    v1 = ["CGROUP", "CPU.SHARES", "CPU.CFS_QUOTA_US"]
    v2 = ["CGROUP", "CPU.WEIGHT", "CPU.MAX"]
    assert header.split()[:3] == (v1 if shell.tree.version == 1 else v2)
    assert [line.split("  ")[0] for line in lines[:1]] == ["/kubepods"]
    assert lines[1].startswith("  Burstable ")
    assert lines[2].startswith(f"    pod {UID} ")
    assert lines[3].startswith(f"      container {CONTAINER_ID[:13]} ")
    assert " max " in lines[3]


def test_the_tree_as_json(shell: Shell) -> None:
    """Each entry says which pod or container it is; no limit is -1."""
    nodes: list[dict[str, Any]] = json.loads(shell("tree", "--json"))["cgroups"]
    assert [node["cgroup"] for node in nodes] == list(CGROUPS)
    container = nodes[-1]
    assert container["container_id"] == CONTAINER_ID
    assert container["pod_uid"] == UID
    assert container["qos_class"] == "Burstable"
    assert container["level"] == "container"
    assert container["values"]["cpu.cfs_quota_us"] == -1
    assert container["values"]["memory.usage_in_bytes"] == 1 << 20


def test_crun_and_conmon_are_shown_for_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither crun's inner cgroup nor conmon's counts as another container."""
    root = tmp_path / "cgroup"
    tree = make(2, root, ["/kubepods/pod1/crio-abc/container"])
    for cgroup in ("/kubepods/pod1/crio-abc", "/kubepods/pod1/crio-conmon-abc"):
        add_v2(root, cgroup)
    text = Shell(root, tmp_path, tree, capsys)("tree")
    labels = [line.strip().split("  ")[0] for line in text.splitlines()[2:]]
    assert labels == ["pod 1", "container abc", "container", "conmon of abc"]


def test_get_by_type_wherever_it_is(shell: Shell) -> None:
    """`get` takes a path, a pod's UID or a container's ID, or shows all pods."""
    shell.tree.set(Type.CPU_QUOTA, POD, 50_000)
    assert shell("get", "cpu.cfs_quota_us", POD) == "50000\n"
    assert shell("get", "cpu.cfs_quota_us", UID) == "50000\n"
    assert shell("get", "cpu.cfs_quota_us", CONTAINER_ID[:8]) == "max\n"
    everywhere = shell("get", "cpu.cfs_quota_us").splitlines()
    assert [line.split()[0] for line in everywhere] == list(CGROUPS)
    (entry,) = json.loads(shell("get", "--json", "cpu.cfs_quota_us", UID))["values"]
    assert (entry["cgroup"], entry["value"]) == (POD, 50_000)
    assert entry["path"] == shell.tree.path(Type.CPU_QUOTA, POD)


def test_get_what_has_many_values(shell: Shell) -> None:
    """A file with several values is shown line by line, and as an object in JSON."""
    lines = shell("get", "memory.stat", UID).splitlines()
    assert all(len(line.split()) == 2 for line in lines)
    if shell.tree.version == 2:
        (entry,) = json.loads(shell("get", "--json", "cpu.pressure", UID))["values"]
        assert entry["value"]["some"]["total_us"] == 4711


def test_a_file_name_is_understood_if_only_one_type_is_in_it(shell: Shell) -> None:
    """cpu.max holds two types: `get` shows its content, and `set` names both."""
    name = "memory.max" if shell.tree.version == 2 else "memory.limit_in_bytes"
    assert shell("get", name, POD) == "max\n"
    if shell.tree.version == 2:
        assert shell("get", "cpu.max", POD) == "max 100000\n"
        shell("set", "cpu.max", POD, "max", code=2)
        expected = "TYPE: 'cpu.max', expected cpu.cfs_quota_us or cpu.cfs_period_us"
        assert expected in shell.err


def test_what_the_other_version_has_names_what_this_one_has(shell: Shell) -> None:
    """Of both versions' names for CPU time, this node has one; the error says which."""
    names = [("cpu.shares", "cpu.weight"), ("memory.failcnt", "memory.events")]
    if shell.tree.version == 1:
        names = [("cpu.weight", "cpu.shares"), ("memory.max", "memory.limit_in_bytes")]
    for name, instead in names:
        shell("get", name, code=2)
        expected = f"{name!r}, which cgroup v{shell.tree.version} does not have, "
        assert f"TYPE: {expected}expected {instead}\n" in shell.err


def test_set_says_what_was_and_what_is(shell: Shell) -> None:
    """`set` writes the value and prints the old and the new one."""
    out = shell("set", "cpu.cfs_quota_us", UID, "50000")
    path = shell.tree.path(Type.CPU_QUOTA, POD)
    assert out == f"{path}: max -> 50000\n"
    assert shell.tree.get(Type.CPU_QUOTA, POD) == 50_000
    assert shell.tree.get(Type.CPU_PERIOD, POD) == 100_000
    out = shell("set", "cpu.cfs_quota_us", UID, "-1")
    assert out == f"{path}: 50000 -> max\n"


def test_set_takes_kubernetes_quantities_of_memory(shell: Shell) -> None:
    """Memory may be given as in a manifest, such as 512Mi."""
    shell("set", "memory.limit_in_bytes", CONTAINER_ID, "512Mi")
    assert shell.tree.get(Type.MEMORY_LIMIT, CONTAINER) == 512 << 20
    shell("set", "memory.limit_in_bytes", CONTAINER_ID, "512Foo", code=2)
    assert "VALUE: '512Foo'" in shell.err


def test_set_turns_shares_and_weights_into_each_other(shell: Shell) -> None:
    """The one that this cgroup version lacks is converted, and the curve is named."""
    if shell.tree.version == 2:
        out = shell("set", "cpu.shares", POD, "2048")
        assert "cpu.shares 2048 is cpu.weight 174 on cgroup v2 (quadratic)" in out
        assert shell.tree.get(Type.CPU_WEIGHT, POD) == 174
        shell("set", "cpu.shares", POD, "1", code=2)
        assert "cpu.shares: '1', expected a whole number from 2 to" in shell.err
    else:
        assert "is cpu.shares 2437 on" in shell("set", "cpu.weight", POD, "200")
        assert shell.tree.get(Type.CPU_SHARES, POD) == 2437
        shell("set", "cpu.weight", POD, "0", code=2)
        assert "cpu.weight: '0', expected" in shell.err


def test_a_dry_run_changes_nothing(shell: Shell) -> None:
    """A dry run writes no file and makes no journal."""
    out = shell("set", "--dry-run", "cpu.cfs_period_us", UID, "50000")
    path = shell.tree.path(Type.CPU_PERIOD, POD)
    content = "50000" if shell.tree.version == 1 else "max 50000"
    assert out.startswith(f"would write {content!r} to {path}, which is ")
    assert shell.tree.get(Type.CPU_PERIOD, POD) == 100_000
    assert not shell.state.exists()


def test_what_was_set_can_be_restored(shell: Shell) -> None:
    """The old value is journalled before the new one is written."""
    shell("set", "memory.limit_in_bytes", UID, "1Gi")
    shell("set", "memory.limit_in_bytes", UID, "2Gi")
    options = ["--cgroup-root", str(shell.root), "--state-dir", str(shell.state)]
    assert main(["restore", *options]) == 0
    assert shell.tree.get(Type.MEMORY_LIMIT, POD) == -1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cpu.nope", POD, "1"], "TYPE: 'cpu.nope', expected one of "),
        (["memory.high", POD, "512m"], "VALUE: '512m', expected bytes, such as 512Mi"),
        (["pids.max", POD, "many"], "pids.max: 'many', expected a whole number"),
        (["pids.max", "nobody", "1"], "WHERE: 'nobody', expected a cgroup"),
        (["pids.max", "/system.slice", "1"], "WHERE: '/system.slice', expected /kubep"),
        (["pids.max", "/", "1"], "WHERE: '/', expected /kubepods or below"),
        (["cpu.stat", POD, "1"], "cpu.stat: '1', expected nothing: it is read only"),
        (["cpu.qos_level", POD, "1"], "TYPE: 'cpu.qos_level' is not supported here: "),
        (["pids.max", "/kubepods/podgone", "1"], "/kubepods/podgone is not there"),
    ],
)
def test_a_users_mistake_is_one_line_and_changes_nothing(
    shell: Shell, arguments: list[str], message: str
) -> None:
    """Exit code 2; it names the argument, the value and what was expected."""
    shell("set", *arguments, code=2)
    assert message in shell.err
    assert len(shell.err.splitlines()) == 1
    assert not shell.state.exists()


def test_no_path_leads_out_of_the_tree(shell: Shell, tmp_path: Path) -> None:
    """Files outside of the tree are neither read nor written."""
    for where in ("/kubepods/../../x", f"/kubepods/../..{tmp_path}"):
        shell("get", "pids.max", where, code=1)
        assert "leads out of its directory" in shell.err
        shell("set", "pids.max", where, "1", code=1)


def test_what_the_kernel_refuses_is_exit_code_1(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has the path, the value and the kernel's error."""

    def refusing(self: LocalFiles, path: str, value: str) -> None:
        raise CgroupError("write", path, value, errno.EBUSY)

    monkeypatch.setattr(LocalFiles, "write", refusing)
    shell("set", "memory.limit_in_bytes", UID, "4096", code=1)
    path = shell.tree.path(Type.MEMORY_LIMIT, POD)
    assert f"write {path}: '4096': " in shell.err
    assert "EBUSY" in shell.err


def test_a_copy_is_not_in_the_nodes_own_journal(shell: Shell) -> None:
    """Writes to a copy of a tree are journalled only with --state-dir."""
    root = str(shell.root)
    assert main(["cgroup", "set", "--cgroup-root", root, "pids.max", UID, "7"]) == 0
    assert shell.tree.get(Type.PIDS_MAX, POD) == 7
    assert not shell.state.exists()


def test_an_ambiguous_beginning_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names every container whose ID begins so."""
    root = tmp_path / "cgroup"
    tree = make(2, root, ["/kubepods", "/kubepods/podab1", "/kubepods/podab2"])
    shell = Shell(root, tmp_path, tree, capsys)
    shell("get", "pids.max", "ab", code=2)
    expected = "WHERE: 'ab', expected one of /kubepods/podab1, /kubepods/podab2"
    assert expected in shell.err
    assert shell("get", "pids.max", "ab2") == "max\n"


def test_a_node_without_kubepods_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, with the path that is not there."""
    root = tmp_path / "cgroup"
    shell = Shell(root, tmp_path, make(2, root, []), capsys)
    shell("tree", code=1)
    assert "list /kubepods: No such file or directory (ENOENT)" in shell.err
