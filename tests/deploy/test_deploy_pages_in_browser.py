"""Pages and pictures in a real browser: nothing overlaps, everything can be read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from drawing.plots import bars, lines
from support.browser import browser, in_a_page, look
from support.needs import need

from nriplugin.cli.main import main

if TYPE_CHECKING:
    from support.browser import Seen

TOP = Path(__file__).parents[2]
RECIPES = {
    "databases": "databases-pods.yaml",
    "java": "java-pods.yaml",
    "idle": "idle-pods.yaml",
    "queues": "queues-jobs.yaml",
}
# A screen, and the narrowest window that a browser opens.
WIDTHS = (1280, 500)
PLOTS = {
    "bars": bars(
        "Latency of CreateContainer, next to the Go reference",
        "µs",
        {
            name: {"p50": 281.0, "p90": 423.0, "p99": 3585.0}
            for name in ("nriplugin", "annotated, all differ", "and writes", "go")
        },
    ),
    "lines": lines(
        "Latency as containers grow",
        "µs",
        "containers on the node",
        {
            name: {10.0: base, 1000.0: base + 40, 10_000.0: base + 5}
            for name, base in (("nriplugin p50", 280.0), ("Go stub p50", 400.0))
        },
    ),
}

# The first time it installs the packages that build the site.
pytestmark = pytest.mark.timeout(1800)


def assert_fine(seen: Seen) -> None:
    """Fail with what is wrong."""
    assert seen._replace(texts=0) == seen._replace(
        overlaps=[], outside=[], small=[], missing=[], sideways=0, texts=0
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_page_of_explain_can_be_read(
    recipe: str, width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pod's picture has its texts inside, apart, and large enough."""
    page = tmp_path / "page.html"
    examples = TOP / "examples/recipes"
    config, pods = examples / f"{recipe}.yaml", examples / RECIPES[recipe]
    arguments = ["explain", "--config", str(config), "--html", str(page), str(pods)]
    assert main(arguments) == 0, capsys.readouterr().err
    seen = look(page, tmp_path / "profile", width)
    assert seen.texts > 3
    # On a narrow window a picture may be as small as the window makes it.
    assert_fine(seen if width == WIDTHS[0] else seen._replace(small=[]))


@pytest.mark.parametrize(
    "name", [*PLOTS, *sorted(path.name for path in TOP.glob("docs/*.svg"))]
)
def test_a_picture_can_be_read(name: str, tmp_path: Path) -> None:
    """Pictures of the documents, and those that hack/bench draws."""
    picture = PLOTS.get(name) or (TOP / "docs" / name).read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(in_a_page(picture), encoding="utf-8")
    seen = look(page, tmp_path / "profile")
    assert seen.texts > 3
    assert_fine(seen)


def test_what_overlaps_is_seen(tmp_path: Path) -> None:
    """The measure finds texts over one another, outside, too small, and wide pages."""
    page = tmp_path / "page.html"
    picture = (
        '<svg width="2000" height="40" style="max-width: none">'
        '<text x="10" y="20">one text</text><text x="20" y="22">another</text>'
        '<text x="300" y="20" font-size="5">small</text>'
        '<text x="1990" y="20">leaves it</text></svg><img src="none.png">'
    )
    page.write_text(in_a_page(picture), encoding="utf-8")
    seen = look(page, tmp_path / "profile", 600)
    assert seen.overlaps == [["one text", "another"]]
    assert seen.small == ["small"]
    assert seen.outside == ["leaves it"]
    assert len(seen.missing) == 1
    assert seen.sideways > 1000
    assert seen.texts == 4


def test_the_site_fits_its_window(tmp_path: Path) -> None:
    """No page of the site is wider than the window, and every image is there."""
    browser()
    site = tmp_path / "site"
    built = subprocess.run(
        [TOP / "hack/docs", "--output", site],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and not (TOP / ".venv-docs/.stamp").is_file():
        need("sphinx", "its packages could not be installed")
    assert built.returncode == 0, built.stderr
    pages = [
        *(site / "index.html", site / "docs/benchmarks.html"),
        *(site / "docs/configuration.html", site / "docs/support.html"),
    ]
    wrong = {}
    for page in pages:
        for width in WIDTHS:
            seen = look(page, tmp_path / "profile", width)
            if seen.sideways or seen.missing:
                wrong[f"{page.name} at {width}"] = (seen.sideways, seen.missing)
    assert wrong == {}
