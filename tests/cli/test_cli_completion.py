"""`nriplugin completion`, tried in real shells."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest
from drawing.manual import DIRECTORY, manual_pages
from support.harness import PATIENCE_S
from support.needs import need

from nriplugin.cli.command_tree import command_tree
from nriplugin.cli.main import COMMANDS, main


@cache
def script(shell: str) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["completion", shell]) == 0
    return out.getvalue()


def in_shell(shell: str, text: str) -> str:
    program = shutil.which(shell)
    if program is None:
        need(shell, "it is not installed")
    done = subprocess.run(
        [program or shell, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


CASES = [
    ("st", ["status"]),
    ("status -o ''", ["table", "json", "yaml"]),
    ("cgroup ''", ["tree", "get", "set"]),
    ("cgroup get --out", ["--output"]),
    ("convert --curve k", ["kep"]),
    ("config check --str", ["--strict"]),
    ("completion f", ["fish"]),
    ("events --count ''", []),
]


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_bash_completes(words: str, expected: list[str]) -> None:
    """Commands, actions, options, and the words that an option accepts."""
    call = (
        f"COMP_WORDS=(nriplugin {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_nriplugin; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert in_shell("bash", f"{script('bash')}\n{call}").split() == expected


def test_fish_completes() -> None:
    """fish reads the script and offers the same words."""
    loaded = f"{script('fish')}\ncomplete -C "
    assert in_shell("fish", f"{loaded}'nriplugin stat'").split()[0] == "status"
    assert "kep" in in_shell("fish", f"{loaded}'nriplugin convert --curve k'")
    assert "get" in in_shell("fish", f"{loaded}'nriplugin cgroup g'")


def test_zsh_accepts_the_script() -> None:
    """zsh parses it, and its functions are there."""
    text = f"compdef() {{ :; }}\n{script('zsh')}\nwhence -w _nriplugin_cgroup_get"
    assert "function" in in_shell("zsh", text)


def test_every_command_is_in_every_script() -> None:
    """The scripts are made from the parsers; nothing is listed by hand."""
    names = [command.name for command in command_tree().below]
    assert names == list(COMMANDS)
    for shell in ("bash", "zsh", "fish"):
        assert all(name in script(shell) for name in names)


def test_the_manual_pages_are_those_of_the_parsers() -> None:
    """man/man1 is made by hack/man, and has a page for each command."""
    pages = manual_pages()
    assert set(pages) == {"nriplugin.1", *(f"nriplugin-{one}.1" for one in COMMANDS)}
    kept = {one.name: one.read_text(encoding="utf-8") for one in DIRECTORY.glob("*.1")}
    assert kept == pages, "run hack/man"


def test_man_understands_the_pages() -> None:
    """mandoc finds no error in them."""
    program = shutil.which("mandoc")
    if program is None:
        need("mandoc", "it is not installed")
    pages = sorted(map(str, DIRECTORY.glob("*.1")))
    done = subprocess.run(
        [program or "mandoc", "-T", "lint", "-W", "error", *pages],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "")
