"""Sphinx's configuration for `hack/docs`: the Markdown files stay as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

TOP = Path(__file__).parents[3]

project = "nriplugin"
author = "The nriplugin authors"
_code = (TOP / "nriplugin/__init__.py").read_text(encoding="utf-8")
version = release = re.search(r'__version__ = "(.+)"', _code)[1]  # type: ignore[index]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "deploy/README.md", "docs/*.md"),
]
# Anchors as GitHub makes them, down to the fourth level.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages that begin with a table below a title

# Output of commands is no program; blocks of code name their language.
highlight_language = "text"

html_theme = "pydata_sphinx_theme"
html_title = "nriplugin"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    # Everything is in the column on the left: a header of 30 links cannot be read.
    "navbar_start": ["navbar-logo"],
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "show_nav_level": 1,
    "navigation_depth": 2,
}
templates_path = ["templates"]
html_sidebars = {"**": ["chapters.html"]}
copyright = "The nriplugin authors, Apache-2.0"

# The column on the left. A page that is missing here is a warning of Sphinx's.
CHAPTERS = {
    "Use it": (
        *("docs/quickstart", "docs/recipes", "docs/install", "deploy/README"),
        *("docs/cri-proxy", "docs/hook"),
    ),
    "Configure it": (
        *("docs/configuration", "docs/policies", "docs/coexistence", "docs/migration"),
    ),
    "Operate it": (
        *("docs/operating", "docs/doctor", "docs/troubleshooting", "docs/metrics"),
        *("docs/logging", "docs/control", "docs/capacity", "docs/cgroup", "docs/faq"),
    ),
    "What to rely on": (
        *("docs/support", "docs/security", "docs/kubernetes", "docs/conformance"),
        *("docs/conversion", "docs/benchmarks"),
    ),
    "Build on it": (
        *("docs/sdk", "docs/protocol", "docs/architecture", "CONTRIBUTING"),
        *("CHANGELOG",),
    ),
}


class App(Protocol):
    """What is used of Sphinx's application, which the checks of types do not have."""

    def connect(self, event: str, callback: object) -> int:
        """Have a function called at an event."""


def _prepare(_app: App, page: str, source: list[str]) -> None:
    """Take out links to directories, and append the list of pages to the first one.

    A directory has a page where the repository is browsed, and none on the site.
    """
    here = (TOP / page).parent

    def plain(link: re.Match[str]) -> str:
        return link[1] if (here / link[2]).is_dir() else link[0]

    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:]+)\)", plain, source[0])
    if page == root_doc:
        for caption, pages in CHAPTERS.items():
            lines = [":hidden:", f":caption: {caption}", "", *pages]
            source[0] += "\n".join(["\n```{toctree}", *lines, "```\n"])


def setup(app: App) -> None:
    """Tell Sphinx of the function above."""
    app.connect("source-read", _prepare)
