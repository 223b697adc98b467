"""`nriplugin load` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S
from support.needs import need
from support.trees import CONTAINER, CONTAINER_ID, POD, QOS, UID, add_v2, make_v2

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.locate.mounts import MOUNTINFO, parse_mountinfo

if TYPE_CHECKING:
    from collections.abc import Iterator

INNER = f"{CONTAINER}/container"


def load(
    *arguments: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", "load", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=ENVIRON | (environ or {}),
    )


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that sleeps for as long as the test takes."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


@pytest.fixture
def root(tmp_path: Path, sleeper: int) -> Path:
    """A tree with one container, crun's inner cgroup in it, and one sleeping task."""
    directory = tmp_path / "cgroup"
    files = make_v2(directory).files
    assert isinstance(files, LocalFiles)
    files.close()
    add_v2(directory, INNER)
    (directory / INNER[1:] / "cgroup.threads").write_text(f"{sleeper}\n")
    return directory


def options(root: Path) -> list[str]:
    return ["--cgroup-root", str(root), "--host-root", str(root.parent)]


WIDTH = len(f"    pod {UID}")
TITLES = "  RUNNING  SLEEPING  STOPPED  UNINTERRUPTIBLE  IO-WAIT  CPU %  MEMORY %  IO %"
TASKS = "        0         1        0                0        0"
TABLE = f"""\
{"CGROUP".ljust(WIDTH)}{TITLES}
{"/kubepods".ljust(WIDTH)}{TASKS}   2.50      0.00  0.00
{"  Burstable".ljust(WIDTH)}{TASKS}   0.00      0.00  0.00
{f"    pod {UID}".ljust(WIDTH)}{TASKS}   0.00      0.00     -
{f"      container {CONTAINER_ID[:13]}".ljust(WIDTH)}{TASKS}   0.00      0.00  0.00
"""


def test_the_pods_of_the_node_with_their_tasks_and_pressure(root: Path) -> None:
    """A task counts for all cgroups above it; cgroups inside a container have no
    line.
    """
    pressure = (root / "kubepods/cpu.pressure").read_text()
    changed = pressure.replace("avg10=0.00", "avg10=2.50", 1)
    (root / "kubepods/cpu.pressure").write_text(changed)
    (root / POD[1:] / "io.pressure").unlink()
    done = load(*options(root))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TABLE


def test_json_has_everything(root: Path) -> None:
    """JSON has the pod and container, all task states and all averages."""
    rows = json.loads(load("--json", *options(root)).stdout)["cgroups"]
    assert [row["cgroup"] for row in rows] == ["/kubepods", QOS, POD, CONTAINER]
    row = rows[-1]
    assert row["level"] == "container"
    assert row["qos_class"] == "Burstable"
    assert row["pod_uid"] == UID
    assert row["container_id"] == CONTAINER_ID
    assert row["tasks"] == {
        "running": 0,
        "sleeping": 1,
        "stopped": 0,
        "uninterruptible": 0,
        "io_wait": 0,
        "unseen": 0,
    }
    assert row["pressure"]["memory"]["some"]["avg300"] == 1.25
    assert row["pressure"]["memory"]["full"]["total_us"] == 42


@pytest.mark.parametrize("spelled", [POD, f"{POD}/", "on the machine"])
def test_one_cgroup_is_one_line(root: Path, spelled: str) -> None:
    """PATH is a cgroup or its directory; --recursive lists all below it."""
    path = f"{root}{POD}" if spelled == "on the machine" else spelled
    rows = json.loads(load(path, "--json", *options(root)).stdout)["cgroups"]
    assert [row["cgroup"] for row in rows] == [POD]
    assert rows[0]["tasks"]["sleeping"] == 1
    rows = json.loads(load(path, "-r", "--json", *options(root)).stdout)["cgroups"]
    assert [row["cgroup"] for row in rows] == [POD, CONTAINER, INNER]


def test_tasks_that_cannot_be_seen_are_reported(root: Path) -> None:
    """Standard error says how many tasks are missing, and what to do."""
    (root / CONTAINER[1:] / "cgroup.threads").write_text("0\n0\n")
    done = load(*options(root))
    assert done.returncode == 0
    assert done.stderr == (
        "nriplugin: 2 tasks are not visible from this PID namespace and not in the "
        "table: run in the node's own (hostPID: true)\n"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nonexistent", "PATH: '/nonexistent', expected a cgroup below "),
        ("/../x", "PATH: '/../x', expected a cgroup below "),
        ("/kubepods/cpu.max", "PATH: '/kubepods/cpu.max', expected a cgroup below "),
        ("kubepods", "PATH: 'kubepods', expected a cgroup that begins with /"),
        ("$(id)", "PATH: '$(id)', expected"),
        ("/a\nb", "PATH: '/a\\nb', expected"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    root: Path, path: str, message: str
) -> None:
    """The line names the value and what was expected."""
    done = load(path, *options(root))
    assert done.returncode == 2
    assert done.stderr.startswith(f"nriplugin: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_a_machine_without_pods_says_so(tmp_path: Path) -> None:
    """The line names the cgroup that does not exist."""
    (tmp_path / "cgroup.controllers").touch()
    done = load("--cgroup-root", str(tmp_path), "--host-root", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("nriplugin: pods: '/kubepods', expected a cgroup")


def test_a_cgroup_cannot_forge_the_table(root: Path) -> None:
    """A cgroup name that a container chose cannot add lines to the table."""
    add_v2(root, f"{CONTAINER}/x\n\x1b[31mpod 1")
    done = load(CONTAINER, "--recursive", *options(root))
    assert len(done.stdout.splitlines()) == 4
    assert "\x1b" not in done.stdout


def test_version_1_is_counted_by_the_kernel() -> None:
    """Where this machine has cgroup v1, the kernel counts; v1 has no pressure files."""
    hierarchies = parse_mountinfo(Path(MOUNTINFO).read_text()).hierarchies
    if "cpu" not in hierarchies:
        need("cgroup-v1", "no v1 hierarchy with cpu is mounted")
    root = os.path.dirname(hierarchies["cpu"])
    version = {"NRIPLUGIN_CGROUP_VERSION": "1"}
    done = load("/", "--cgroup-root", root, "--json", environ=version)
    assert done.stderr == ""
    (row,) = json.loads(done.stdout)["cgroups"]
    assert row["tasks"]["running"] + row["tasks"]["sleeping"] > 0
    assert row["pressure"] == {}
    done = load("/", "--cgroup-root", root, environ=version)
    assert done.stdout.split()[-7:-5] == ["IO-WAIT", "/"]
