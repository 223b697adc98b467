"""A guest's files, with the commands really run, in a directory of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from errno import (
    EACCES,
    EBUSY,
    EINVAL,
    EIO,
    EISDIR,
    ENOENT,
    ENOSPC,
    EOPNOTSUPP,
    EROFS,
    ETIMEDOUT,
    EXDEV,
)
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trees import CONTAINER, POD, make_v2

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.guest import Answer, GuestFiles
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.errors import CgroupError, RPCError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HOSTILE = [
    "a'b",
    'a"b',
    "a\nb",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "-n",
    "--help",
    "*",
    "a b",
    "\\0",
    "%s%n",
    "é",
]


class Guest:
    """Runs commands here, in a directory of its own, with a shell of choice."""

    def __init__(self, directory: Path, shell: str = "sh") -> None:
        self.directory = directory
        self.shell = shell
        self.commands: list[list[str]] = []

    def __call__(self, argv: Sequence[str], /) -> Answer:
        self.commands.append(list(argv))
        program = self.shell if argv[0] == "sh" else argv[0]
        done = subprocess.run(
            [program, *argv[1:]],
            cwd=self.directory,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=["sh", "bash"])
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Guest:
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cgroup").mkdir()
    return Guest(tmp_path / "cwd", request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


@pytest.fixture
def files(guest: Guest, root: Path) -> Iterator[GuestFiles]:
    yield GuestFiles(guest, str(root))
    assert os.listdir(guest.directory) == [], "a value or path was run as a command"


def test_a_guest_is_a_tree_like_any_other(files: GuestFiles, root: Path) -> None:
    """A tree works on a guest's files as on the node's."""
    local = make_v2(root).files
    assert isinstance(local, LocalFiles)
    tree = Tree(files, 2)
    tree.set(Type.CPU_QUOTA, CONTAINER, 50_000)
    assert tree.get(Type.CPU_QUOTA, CONTAINER) == 50_000
    assert tree.supported(Type.CPU_WEIGHT, CONTAINER)
    assert not tree.supported(Type.CPU_QOS_LEVEL, CONTAINER)
    for cgroup in ("/", POD, CONTAINER):
        assert tree.children(cgroup) == local.children(cgroup)
    path = f"{CONTAINER}/memory.stat"
    assert files.read(path) == local.read(path)
    local.close()


@pytest.mark.parametrize("value", ["", "max 100000", "8:0 rbps=1\n", "-1", *HOSTILE])
def test_a_value_arrives_as_it_is(files: GuestFiles, root: Path, value: str) -> None:
    """A value is an argument of its own, which no shell interprets."""
    (root / "f").write_text("before")
    files.write("/f", value)
    assert (root / "f").read_text() == value
    assert files.read("/f") == value


@pytest.mark.parametrize("name", HOSTILE)
def test_a_path_is_taken_as_it_is(files: GuestFiles, root: Path, name: str) -> None:
    """In every operation, a path is an argument of its own."""
    (root / name).mkdir()
    (root / name / "f").write_text("1")
    assert files.read(f"/{name}/f") == "1"
    files.write(f"/{name}/f", "2")
    assert (root / name / "f").read_text() == "2"
    assert files.exists(f"/{name}/f")
    assert not files.exists(f"/{name}/g")
    assert files.children("/") == [name]
    assert files.children(f"/{name}") == []


def test_paths_and_values_are_never_part_of_a_script(
    files: GuestFiles, guest: Guest, root: Path
) -> None:
    """The scripts are the same for all paths and values."""
    scripts = set()
    for name, value in (("a", "1"), ("b", "2")):
        (root / name).touch()
        files.write(f"/{name}", value)
        scripts.add(guest.commands[-1][2])
        assert guest.commands[-1][3:] == ["sh", value, f"{root}/{name}"]
    assert len(scripts) == 1


def test_children_are_directories_only(files: GuestFiles, root: Path) -> None:
    """Sorted, with hidden ones, without files and symlinks, as on the node."""
    for name in ("b", "a", ".hidden", "..strange"):
        (root / name).mkdir()
    (root / "file").touch()
    (root / "link").symlink_to(root / "a")
    with LocalFiles(str(root), magics=None) as local:
        assert files.children("/") == local.children("/")
    assert files.children("/") == ["..strange", ".hidden", "a", "b"]


def test_nothing_is_ever_created(files: GuestFiles, root: Path) -> None:
    """A write to a file that does not exist is an error, as on the node."""
    with pytest.raises(CgroupError) as caught:
        files.write("/cpu.max", "1")
    assert caught.value.errno == ENOENT
    assert os.listdir(root) == []


ESCAPES = ["/..", "/../x", "/a/../../x", "/a/..", "x", "", "a/b", "/a\0b", "/\0"]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_the_root(
    files: GuestFiles, guest: Guest, path: str
) -> None:
    """Such a path is refused before a command is run."""
    for attempt in (
        lambda: files.read(path),
        lambda: files.write(path, "1"),
        lambda: files.exists(path),
        lambda: files.children(path),
    ):
        with pytest.raises(CgroupError) as caught:
            attempt()
        assert caught.value.errno in (EINVAL, EXDEV)
        assert caught.value.path == path
    assert guest.commands == []


@given(st.text(st.characters(codec="utf-8")))
def test_every_argument_that_is_a_path_is_below_the_root(path: str) -> None:
    """No operation passes another path to the guest."""
    commands: list[Sequence[str]] = []

    def execute(argv: Sequence[str], /) -> Answer:
        commands.append(argv)
        return 0, b"", b""

    files = GuestFiles(execute, "/sys/fs/cgroup")
    try:
        files.read(path)
        files.write(path, "1")
        files.children(path)
        files.exists(path)
    except CgroupError:
        assert commands == []
    for argv in commands:
        assert os.path.normpath(argv[-1]).startswith("/sys/fs/cgroup")
        assert argv[-1] == f"/sys/fs/cgroup{path}"


def test_what_is_not_text_is_refused(files: GuestFiles, guest: Guest) -> None:
    """CRI carries UTF-8 only, and no argument holds a NUL byte."""
    with pytest.raises(CgroupError, match="not UTF-8"):
        files.read("/\udcff")
    with pytest.raises(CgroupError, match="not UTF-8"):
        files.write("/a", "\udcff")
    with pytest.raises(CgroupError, match="EINVAL"):
        files.write("/a", "1\0")
    assert guest.commands == []


def test_errors_of_the_kernel_keep_their_number(
    files: GuestFiles, guest: Guest, root: Path
) -> None:
    """The error number is read from the program's message."""
    (root / "directory").mkdir()
    for attempt, errno in (
        (lambda: files.read("/none"), ENOENT),
        (lambda: files.children("/none"), ENOENT),
        (lambda: files.read("/directory"), EISDIR),
        (lambda: files.write("/directory", "1"), EISDIR),
    ):
        with pytest.raises(CgroupError) as caught:
            attempt()
        assert caught.value.errno == errno
    proc = GuestFiles(guest, "/proc/self")
    with pytest.raises(CgroupError) as caught:
        proc.write("/oom_score_adj", "nonsense")
    assert caught.value.errno == EINVAL
    assert str(caught.value) == (
        "write /oom_score_adj: 'nonsense': Invalid argument (EINVAL)"
    )
    with pytest.raises(CgroupError) as caught:
        GuestFiles(guest, "/dev").write("/full", "1")
    assert caught.value.errno == ENOSPC


@pytest.mark.parametrize(
    ("code", "stderr", "errno"),
    [
        (1, b"cat: /x: Permission denied\n", EACCES),
        (1, b"sh: write error: Resource busy\n", EBUSY),  # musl's wording
        (1, b"printf: write error: Device or resource busy\n", EBUSY),
        (2, b"sh: 1: cannot create /x: Read-only file system\n", EROFS),
        (2, b"sh: 1: cannot create /x: Directory nonexistent\n", ENOENT),
        (1, b"cat: read error: Not supported\n", EOPNOTSUPP),
        (1, b"cat: /Permission denied: weird\n", EIO),
        (127, b"sh: cat: not found: No such file or directory\n", EIO),
        (126, b"exec: Permission denied", EIO),
        (1, b"", EIO),
        (137, b"\xff\xfe\n", EIO),
    ],
)
def test_what_programs_say_is_understood(code: int, stderr: bytes, errno: int) -> None:
    """A missing program is not a missing file; an unknown message is quoted."""

    def execute(argv: Sequence[str], /) -> Answer:
        return code, b"", stderr

    with pytest.raises(CgroupError) as caught:
        GuestFiles(execute).read("/x")
    assert caught.value.errno == errno
    assert "\n" not in str(caught.value)
    if errno == EIO:
        assert f"the guest answered {code}: " in str(caught.value)


def test_a_guest_without_test_is_no_guest_without_files() -> None:
    """Only exit code 1 of `test` means that the file does not exist."""

    def execute(argv: Sequence[str], /) -> Answer:
        return 127, b"", b"test: not found"

    with pytest.raises(CgroupError, match="the guest answered 127"):
        GuestFiles(execute).exists("/x")


@pytest.mark.parametrize(
    ("raised", "errno", "match"),
    [
        (TimeoutError("late"), ETIMEDOUT, "no answer from the guest in time"),
        (ConnectionRefusedError(111, "refused"), EIO, "cannot be asked: .*refused"),
        (RPCError(5, "container\nnot found"), EIO, "cannot be asked: container not"),
    ],
)
def test_a_guest_that_cannot_be_asked(
    raised: Exception, errno: int, match: str
) -> None:
    """A failing guest is an error of one file and does not end a batch."""

    def execute(argv: Sequence[str], /) -> Answer:
        raise raised

    files = GuestFiles(execute)
    for attempt in (
        lambda: files.read("/x"),
        lambda: files.write("/x", "1"),
        lambda: files.exists("/x"),
        lambda: files.children("/x"),
    ):
        with pytest.raises(CgroupError, match=match) as caught:
            attempt()
        assert caught.value.errno == errno
        assert caught.value.__cause__ is raised
