"""Markdown as the documents use it: blocks of code, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[2]
# In the order of the site. CHANGELOG.md tells of the past, so its commands may be gone.
DOCUMENTS = (
    *(TOP / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md")),
    *sorted(TOP.glob("docs/*.md")),
)

_FENCED = re.compile(
    r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code. `start` and `end` are where its text is in the page."""

    path: Path
    language: str
    text: str
    start: int
    end: int

    @property
    def where(self) -> str:
        """Return file and line, for messages."""
        line = self.path.read_text(encoding="utf-8").count("\n", 0, self.start) + 1
        return f"{self.path.relative_to(TOP)}:{line}"


@dataclass(frozen=True, slots=True)
class Shown:
    """A command after a prompt, with the output that the document shows."""

    block: Block
    command: str
    output: str


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    text = path.read_text(encoding="utf-8")
    for found in _FENCED.finditer(text):
        yield Block(path, found["language"], found["text"], *found.span("text"))


def shown(block: Block) -> list[Shown]:
    """Return the commands of a block that has prompts, each with its output."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    result = []
    for part in parts:
        command, output = re.fullmatch(
            r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.DOTALL
        ).groups()  # type: ignore[union-attr] # a pattern that matches every text
        result.append(Shown(block, command, output))
    return result


def without_blocks(path: Path) -> str:
    """Return the sentences and tables of a page."""
    return _FENCED.sub("", path.read_text(encoding="utf-8"))
