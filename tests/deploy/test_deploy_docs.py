"""Links between the documents of this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
DOCUMENTS = [*TOP.glob("*.md"), *TOP.glob("docs/*.md"), TOP / "deploy/README.md"]


def anchors(path: Path) -> set[str]:
    """Return the anchors of all headings, in GitHub's spelling."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    """The file of every link exists and has the heading that the link names."""
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_what_stays_behind_is_said_where_it_is_put_back() -> None:
    """A page about `restore` links to what `restore` cannot restore."""
    for path in (TOP / "deploy/README.md", TOP / "docs/configuration.md"):
        assert "nriplugin restore" in path.read_text()
        assert "#removing-it" in path.read_text()
