"""Links between the documents of this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nriplugin.cli.main import COMMANDS
from nriplugin.engine.handlers import table
from nriplugin.state.events import EventKind

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


def test_no_package_of_ours_is_taken_from_an_index() -> None:
    """None is published: pip gets a checkout or a file, never our name alone."""
    for path in (
        *DOCUMENTS,
        *TOP.glob("deploy/*.service"),
        *TOP.glob("nriplugin/**/*.py"),
    ):
        for words in re.findall(r"\bpip\d? install ([^\n`]*)", path.read_text()):
            ours = re.findall(r"(?<![\w./-])nriplugin(?![\w*./-])[^ ]*", words)
            assert ours == [], f"{path.relative_to(TOP)}: pip install {words}"


def test_the_readme_leads_to_every_document() -> None:
    """A document that nothing leads to is not read."""
    readme = (TOP / "README.md").read_text()
    missing = [p.name for p in TOP.glob("docs/*.md") if f"(docs/{p.name}" not in readme]
    assert missing == []


def test_the_readme_names_every_command() -> None:
    """The list of commands has a line for each, and for no other."""
    readme = (TOP / "README.md").read_text()
    section = readme.partition("## Commands\n")[2].partition("\n## ")[0]
    named = re.findall(r"^nriplugin ([a-z-]+)", section, re.MULTILINE)
    assert set(named) == set(COMMANDS)


def test_every_kind_of_event_is_explained() -> None:
    """The table of `events` has each kind once, and no other."""
    text = (TOP / "docs/operating.md").read_text()
    rows = text.partition("| kind | |\n")[2].partition("\n\n")[0]
    kinds = re.findall(r"`(\w+)`", " ".join(r.split("|")[1] for r in rows.splitlines()))
    assert sorted(kinds) == sorted(EventKind)


def test_the_first_lines_of_the_log_name_every_handler() -> None:
    """As a daemon of today logs them."""
    text = (TOP / "docs/logging.md").read_text()
    found = re.search(r"^INFO handlers on: (.+); off: (.+)$", text, re.MULTILINE)
    assert found is not None
    on, off = (set(names.split(", ")) for names in found.groups())
    assert on | off == {handler.name for handler in table.HANDLERS}
    assert not on & off


def test_contributors_are_told_every_script() -> None:
    """Those that only other scripts call are left out."""
    text = (TOP / "CONTRIBUTING.md").read_text()
    scripts = {path.name for path in TOP.glob("hack/*") if path.is_file()}
    named = set(re.findall(r"`\./hack/([a-z-]+)", text))
    assert scripts - named <= {"setup.sh", "go-peers"}
    assert named <= scripts
