"""The commands in the documents, whoever runs them: in blocks, and within sentences."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from documents.blocks import TOP, blocks, without_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Programs that the tests have: their options are compared with what they know.
CHECKED = ("nriplugin", "kubectl", "helm")
# Programs that the tests do not have, or that would change the machine: the shell reads
# the line, and files of this repository that it names have to exist.
SYNTAX_ONLY = (
    *("apt-get", "cp", "crictl", "ctr", "exec", "grep", "grpcurl", "journalctl", "ls"),
    *("mkdir", "mount", "pip", "podman", "python", "python3", "skopeo", "systemctl"),
    "touch",
)
# docs/sdk.md is followed to the letter by a test of its own.
LANGUAGES = ("", "sh", "console")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a document: its words, and whether it is a whole command line.

    A synopsis (`run [--config FILE]`) and code in a sentence (`helm upgrade`) are not
    whole: they name a command and some options, and no more.
    """

    path: Path
    text: str
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        """Return where it is, for the names of tests."""
        return f"{self.path.relative_to(TOP)}: {self.text}"


def program_of(words: tuple[str, ...]) -> str:
    """Return the name of the program; those of a virtual environment have a path."""
    first = words[0]
    return first.rpartition("/")[2] if "/bin/" in first else first


def _known(line: str) -> bool:
    program = program_of(tuple(line.split()) or ("",))
    return program.startswith("./hack/") or program in (*CHECKED, *SYNTAX_ONLY)


def lines_of(text: str, language: str) -> Iterator[str]:
    """Yield the command lines of a block, which may have output as well."""
    joined = re.sub(r"\\\n\s*", "", text)
    # The lines of a synopsis go on with an indent.
    joined = re.sub(r"\n +(?=\[)", " ", joined)
    has_prompts = re.search(r"^[$#] (?!/)", joined, re.MULTILINE) is not None
    for line in joined.splitlines():
        prompt = re.match(r"[$#] ", line)
        if has_prompts and prompt is None:
            continue
        bare = line[2:] if prompt else line
        for part in bare.split(" && ") if "[" not in bare else [bare]:
            if language == "sh" or _known(part.removeprefix("sudo ")):
                yield part.removeprefix("sudo ")


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:  # a quotation mark of a sentence
        return tuple(text.split())


def commands(path: Path) -> Iterator[Command]:
    """Yield every command of a page."""
    for block in blocks(path):
        if block.language not in LANGUAGES or path.name == "sdk.md":
            continue
        for line in lines_of(block.text, block.language):
            if words := _words(line):
                yield Command(path, line, words, whole="[" not in line)
    for text in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", without_blocks(path)):
        line = " ".join(text.replace("\\|", "|").split()).removeprefix("sudo ")
        if _known(line) and len(words := _words(line)) > 1:
            yield Command(path, line, words, whole=False)
