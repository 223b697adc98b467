"""Runs the commands whose output the documents show, and puts the output there.

A command is run if it stands after the prompt `$ ` in a block of language `console` and
reads nothing but files of this repository: see RUNNABLE. A block of YAML whose first
line names a file of this repository is the text of that file. The support matrix is
made of the tests that pytest collects.

`--check` says which pages are not up to date, and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from documents import matrix
from documents.blocks import DOCUMENTS, TOP, Block, Shown, blocks, shown

if TYPE_CHECKING:
    from pathlib import Path

# `status` and others, which need a daemon, have hack/screens.
RUNNABLE = ("config check", "convert", "explain")
_NAMED_FILE = re.compile(r"# ((?:examples|deploy)/[\w./-]+\.yaml)\n")


def is_run(one: Shown) -> bool:
    """Return whether the output of a command is made by running it."""
    return one.block.language == "console" and one.command.startswith(
        tuple(f"nriplugin {verb} " for verb in RUNNABLE)
    )


def run(command: str) -> str:
    """Return what a command prints at the top of the repository, both streams."""
    program, *words = shlex.split(command)
    assert program == "nriplugin", command
    environ = {
        key: value for key, value in os.environ.items() if "NRIPLUGIN" not in key
    }
    done = subprocess.run(
        [sys.executable, "-m", "nriplugin", *words],
        cwd=TOP,
        env=environ | {"NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def named_file(block: Block) -> str | None:
    """Return the file of which a block is the text."""
    found = _NAMED_FILE.match(block.text) if block.language == "yaml" else None
    return found[1] if found else None


def made(block: Block) -> str:
    """Return the text that a block should have."""
    if file := named_file(block):
        return (TOP / file).read_text(encoding="utf-8")
    commands = shown(block)
    if not any(map(is_run, commands)):
        return block.text
    return "".join(
        f"$ {one.command}\n{run(one.command) if is_run(one) else one.output}"
        for one in commands
    )


def page(path: Path) -> str:
    """Return the text that a page should have."""
    text = path.read_text(encoding="utf-8")
    for block in reversed(list(blocks(path))):
        text = text[: block.start] + made(block) + text[block.end :]
    before, begin, rest = text.partition(matrix.BEGIN)
    if not begin:
        return text
    return (
        f"{before}{begin}\n{matrix.text()}{matrix.END}{rest.partition(matrix.END)[2]}"
    )


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(prog="hack/docs --outputs")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    changed = False
    for path in DOCUMENTS:
        now = page(path)
        if now == path.read_text(encoding="utf-8"):
            continue
        changed = True
        if not check:
            path.write_text(now, encoding="utf-8")
        print(f"{path.relative_to(TOP)}: {'not up to date' if check else 'written'}")
    return int(check and changed)


if __name__ == "__main__":
    sys.exit(main())
