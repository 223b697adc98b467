"""What commands print where names are not ours: a container names cgroups as it likes.

Nothing but text reaches a terminal, whatever a name holds, and JSON is JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import ENVIRON
from support.trees import CONTAINER, add_v2, make_v2

from nriplugin.cli.printing import Page, print_json, print_line, printable

if TYPE_CHECKING:
    from pathlib import Path

# Name of a cgroup in the kernel -> the text that is printed.
NAMES = {
    b"\x1b]0;owned\x07": r"\x1b]0;owned\x07",
    b"two\nlines": r"two\x0alines",
    b"\xff\xfe": r"\xff\xfe",
    b"\xc2\x9b31m": r"\x9b31m",
    "\u202edne".encode(): r"\u202edne",
    "über".encode(): "über",
}
# Python then raises an error if a name that is not UTF-8 is printed unescaped.
STRICT = ENVIRON | {"PYTHONIOENCODING": "utf-8:strict"}


@pytest.fixture
def node(tmp_path: Path) -> list[str]:
    """Options for a tree whose container has made cgroups of its own."""
    root = tmp_path / "cgroup"
    root.mkdir()
    make_v2(root)
    for name in NAMES:
        add_v2(root, f"{CONTAINER}/{os.fsdecode(name)}")
    (tmp_path / "host" / "proc").mkdir(parents=True)
    return ["--cgroup-root", str(root), "--host-root", str(tmp_path / "host")]


def run(
    *arguments: str, code: int = 0, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "nriplugin", *arguments],
        capture_output=True,
        check=False,
        env=environ or STRICT,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stderr
    for line in (done.stdout + done.stderr).decode().split("\n"):
        assert not line or line.isprintable(), line
    return done


@pytest.mark.parametrize(
    "command",
    [
        ["cgroup", "tree"],
        ["cgroup", "get", "memory.high"],
        ["load", "-r", CONTAINER],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_tables_show_names_as_text(node: list[str], command: list[str]) -> None:
    """Each name is escaped, on a line of its own, and in its column."""
    text = run(*command, *node).stdout.decode()
    lines = text.splitlines()
    for shown in NAMES.values():
        (line,) = [line for line in lines if f"{shown} " in line]
        name, *cells = line.split()
        assert name.endswith(shown)
        assert cells
    if command != ["cgroup", "get", "memory.high"]:
        heading = lines[0].split()[1]
        ends = {line.index(heading) for line in lines if heading in line}
        assert len(ends) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["cgroup", "tree", "--json"],
        ["cgroup", "get", "memory.high", "--json"],
        ["load", "-r", CONTAINER, "--json"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_json_has_no_half_characters(node: list[str], command: list[str]) -> None:
    """Lone surrogates, which JSON readers refuse, are escaped; other text is not."""
    document = json.loads(run(*command, *node).stdout)
    listed = document.get("values") or document["cgroups"]
    names = [one["cgroup"].rpartition("/")[2] for one in listed]
    text = json.dumps(names, ensure_ascii=False).encode().decode()
    assert r"\\xff\\xfe" in text
    assert "\x1b]0;owned\x07" in names
    assert "über" in names


def test_one_value_of_a_cgroup_with_such_a_name(node: list[str]) -> None:
    """An error shows the name, which was an argument, escaped."""
    for name in NAMES:
        cgroup = f"{CONTAINER}/{os.fsdecode(name)}"
        assert run("cgroup", "get", "memory.high", cgroup, *node).stdout == b"max\n"
        run("load", cgroup, *node)
        gone = f"{cgroup}/gone"
        for command in (["cgroup", "get", "memory.high"], ["load"]):
            (line,) = run(*command, gone, *node, code=2).stderr.splitlines()
            assert line.startswith(b"nriplugin: ")


def test_a_terminal_that_has_fewer_characters(node: list[str]) -> None:
    """Characters that the terminal's encoding lacks are escaped."""
    environ = ENVIRON | {"PYTHONIOENCODING": "ascii:strict"}
    text = run("cgroup", "tree", *node, environ=environ).stdout.decode("ascii")
    assert r"\xfcber" in text


LOGGING = r"""
import logging
from nriplugin.cli.logs import log_to_stderr

log_to_stderr(verbose=False)
logging.warning("wrote %s", "/kubepods/\x1b[31m\nERROR forged \udcff")
try:
    raise ValueError("/kubepods/\x1b[31m")
except ValueError:
    logging.exception("failed")
"""


def test_log_lines_hold_text_only() -> None:
    """A message is one line, and each line of a traceback is escaped."""
    done = subprocess.run(
        [sys.executable, "-c", LOGGING], env=STRICT, stderr=subprocess.PIPE, check=True
    )
    lines = done.stderr.decode().splitlines()
    assert lines[0].endswith(r"WARNING wrote /kubepods/\x1b[31m\x0aERROR forged \xff")
    assert lines[2] == "Traceback (most recent call last):"
    assert lines[-1] == r"ValueError: /kubepods/\x1b[31m"


def test_what_is_printable() -> None:
    """Printable text is unchanged, also backslashes, which systemd's names have."""
    for text in ("", "a b", r"kubepods-pod\x2d1.slice", "über"):
        assert printable(text) == text
    assert printable("\x00\x7f\x85\t") == r"\x00\x7f\x85\x09"
    assert printable("\udc80\ud800\u2028\U000e0001") == r"\x80\ud800\u2028\U000e0001"


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines, tables and JSON escape what is not printable."""
    print_line("a\x1b")
    page = Page(80, colour=False)
    page.table([["NAME", "N"], ["\x1b", "1"], ["b", "10"]], numbers=True)
    page.table([["A", "B"], ["longer", ""]])
    page.show()
    value: Any = {"\udcff": ["\ud800", 1, None, ("é",)]}
    print_json(value)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == r"a\x1b"
    assert out[1:4] == ["NAME   N", "\\x1b   1", "b     10"]
    assert out[4:6] == ["A       B", "longer"]
    assert out[6].isascii()
    assert json.loads(out[6]) == {r"\xff": [r"\ud800", 1, None, ["é"]]}
