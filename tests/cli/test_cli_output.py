"""Commands whose standard output or error is closed, or on a full disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from doors.hook.bundles import Bundle
from support.harness import PATIENCE_S
from support.trees import make_v2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# As in a shell: Python has to buffer its output as usual.
ENVIRON = {key: os.environ[key] for key in os.environ if key != "PYTHONUNBUFFERED"}
POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: pod-%d}
spec: {containers: [{name: web, resources: {limits: {cpu: 1, memory: 1Gi}}}]}
"""


@contextmanager
def gone() -> Iterator[int]:
    """The writing end of a pipe whose reading end is closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        yield write_end
    finally:
        os.close(write_end)


@contextmanager
def full() -> Iterator[int]:
    """A device that refuses every write for lack of space."""
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def cli(*arguments: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command; streams that are not given are captured."""
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", *arguments],
        **{**kept, **streams},
        check=False,
        timeout=PATIENCE_S,
        env=ENVIRON,
    )


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A directory with everything that commands want to see."""
    make_v2(tmp_path / "cgroup")
    (tmp_path / "state").mkdir()
    (tmp_path / "config.yaml").write_text("curve: kep\n")
    (tmp_path / "pod.yaml").write_text(POD % 0)
    # More than Python buffers.
    many = "".join(POD % number for number in range(100))
    (tmp_path / "many.yaml").write_text(many)
    return tmp_path


COMMANDS = [
    "--help",
    "version",
    "version --help",
    "convert --shares 1024",
    "explain TMP/pod.yaml",
    "explain TMP/many.yaml",
    "explain --json TMP/many.yaml",
    "config check TMP/config.yaml",
    "detect --cgroup-root TMP/cgroup",
    "cgroup tree --cgroup-root TMP/cgroup",
    "cgroup get --cgroup-root TMP/cgroup cpu.weight /kubepods",
    "cgroup set --cgroup-root TMP/cgroup cpu.weight /kubepods 7",
    "restore --state-dir TMP/state",
    "hook install --dry-run",
    "hook --help",
    "demo",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_is_gone_is_left_in_peace(command: str, node: Path) -> None:
    """`nriplugin cgroup tree | head -1` exits with 141 and prints no error."""
    with gone() as stdout:
        done = cli(*command.replace("TMP", str(node)).split(), stdout=stdout)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_line(command: str, node: Path) -> None:
    """Output that could not be written is an error with exit code 1."""
    with full() as stdout:
        done = cli(*command.replace("TMP", str(node)).split(), stdout=stdout)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("nriplugin: ")
    assert line.endswith("No space left on device")


@pytest.mark.parametrize("stderr", [gone, full])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("run --idx 5", 2),
        ("config check /nonexistent", 2),
        ("nonsense", 2),
        ("cri-proxy", 2),
        ("version", 0),
    ],
)
def test_a_closed_standard_error(stderr: Any, command: str, code: int) -> None:
    """It does not change the exit code."""
    with stderr() as fd:
        assert cli(*command.split(), stderr=fd).returncode == code


def test_what_went_wrong_counts_for_more_than_a_reader(node: Path) -> None:
    """A command that failed keeps its exit code if standard output is closed."""
    state = node / "state"
    (state / "journal.db").write_bytes(b"no database at all" * 300)
    with gone() as stdout:
        done = cli("restore", "--state-dir", str(state), stdout=stdout)
    assert done.returncode == 1


@pytest.mark.parametrize("stderr", [gone, full])
@pytest.mark.parametrize("stdout", [gone, full])
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--failure-policy", "fail"), 1),
        (("--of-another-version",), 0),
        (("--of-another-version", "--failure-policy", "fail"), 1),
    ],
)
def test_a_hook_works_with_closed_streams(
    stdout: Any, stderr: Any, options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """Whether a container starts does not depend on who reads the hook's output."""
    bundle = Bundle(tmp_path, resources={"memory": {"limit": 1 << 20, "swap": 1}})
    command = ["hook", *bundle.options(), *options]
    state = json.dumps(bundle.state).encode()
    with stdout() as out, stderr() as err:
        done = cli(*command, input=state, stdout=out, stderr=err)
    assert done.returncode == code


@pytest.mark.parametrize("stderr", [gone, full])
def test_a_missing_module_with_closed_streams(stderr: Any) -> None:
    """It does not stop a container from starting."""
    script = "import sys; sys.modules['nriplugin.policy'] = None\n"
    script += "from nriplugin.cli.main import main; sys.exit(main(['hook']))"
    with stderr() as fd:
        done = subprocess.run(
            [sys.executable, "-c", script],
            stdin=subprocess.DEVNULL,
            stderr=fd,
            check=False,
            timeout=PATIENCE_S,
            env=ENVIRON,
        )
    assert done.returncode == 0
