"""The site of the documents, built as a user builds it."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.needs import need

TOP = Path(__file__).parents[2]

# The first time it installs packages.
pytestmark = pytest.mark.timeout(1800)


class Links(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.places |= {given.get("id", ""), given.get("name", "")}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in ("script", "img", "link"):
            self.loaded.add(given.get("src") or given.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with --strict."""
    output = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [TOP / "hack/docs", "--strict", "--output", output],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not (TOP / ".venv-docs/.stamp").is_file():
        need("sphinx", f"its packages could not be installed: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{output}/index.html: " in done.stdout
    return output


def test_every_document_is_a_page(site: Path) -> None:
    """Each Markdown file has a page, and the first page leads to each."""
    first = Links(site / "index.html").links
    for path in (*TOP.glob("docs/*.md"), TOP / "deploy/README.md"):
        name = path.relative_to(TOP).with_suffix(".html")
        assert (site / name).is_file()
        assert any(link.partition("#")[0] == str(name) for link in first), name


def test_every_link_leads_somewhere(site: Path) -> None:
    """Files and anchors of links within the site exist."""
    pages = {path: Links(path) for path in site.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and target in pages and anchor not in pages[target].places
            ):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []
    assert len(pages) > 25


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles and pictures are the site's own: it works without a network."""
    for path in site.rglob("*.html"):
        for loaded in Links(path).loaded:
            assert not re.match(r"(https?:)?//", loaded), f"{path}: {loaded}"


def test_another_directory_is_not_emptied(tmp_path: Path) -> None:
    """Only what Sphinx has built is replaced."""
    (tmp_path / "mine").write_text("kept")
    done = subprocess.run(
        [TOP / "hack/docs", "--output", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    if not (TOP / ".venv-docs/.stamp").is_file():
        need("sphinx", "its packages could not be installed")
    assert done.returncode == 2
    assert f"--output: {tmp_path}, expected a directory that is empty" in done.stderr
    assert (tmp_path / "mine").read_text() == "kept"


def test_the_help_names_every_option() -> None:
    """It comes before anything is installed."""
    done = subprocess.run(
        [TOP / "hack/docs", "--help"], capture_output=True, text=True, check=True
    )
    assert all(one in done.stdout for one in ("--strict", "--output", "--outputs"))
