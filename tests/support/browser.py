"""A real browser that lays a page out and says what a reader would see of it.

A script is added to a copy of the page. It measures, and the browser prints the page
with what the script has found.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from support.needs import need

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
HEIGHT = 900
# Smaller letters than these, in pixels of the screen, cannot be read.
LEAST_LETTERS = 9

MEASURE = """
addEventListener("load", async () => {
  const found = {overlaps: [], outside: [], small: [], texts: 0, missing: []};
  const box = element => element.getBoundingClientRect();
  const shown = element => element.textContent.trim().slice(0, 60);
  for (const svg of document.querySelectorAll("svg")) {
    const frame = box(svg);
    if (!frame.width) continue;
    const texts = [...svg.querySelectorAll("text")].filter(one => shown(one));
    found.texts += texts.length;
    for (const text of texts) {
      const at = box(text);
      if (at.left < frame.left - 1 || at.right > frame.right + 1 ||
          at.top < frame.top - 1 || at.bottom > frame.bottom + 1)
        found.outside.push(shown(text));
      const scale = Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b);
      if (parseFloat(getComputedStyle(text).fontSize) * scale < LEAST)
        found.small.push(shown(text));
    }
    for (let i = 0; i < texts.length; i++)
      for (let j = i + 1; j < texts.length; j++) {
        const a = box(texts[i]), b = box(texts[j]);
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // The boxes of two lines of text may touch; their letters do not.
        if (wide > 1 && high > Math.min(a.height, b.height) / 3)
          found.overlaps.push([shown(texts[i]), shown(texts[j])]);
      }
  }
  for (const image of document.images) {
    image.loading = "eager";  // also what is far below the window
    await image.decode().catch(() => found.missing.push(image.src));
  }
  const top = document.documentElement;
  found.sideways = Math.max(0, top.scrollWidth - top.clientWidth);
  const told = document.createElement("pre");
  told.id = "measured";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
});
"""


class Seen(NamedTuple):
    """What is wrong with a page as it is drawn, and how many texts pictures have.

    `overlaps` are texts of pictures over one another, `outside` those that leave their
    picture, `small` those that cannot be read, `missing` images that were not loaded,
    and `sideways` how many pixels the page is wider than the window.
    """

    overlaps: list[list[str]]
    outside: list[str]
    small: list[str]
    missing: list[str]
    sideways: int
    texts: int


def browser() -> str:
    """Return the browser; without one the test is skipped."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        need("chromium", "no Chromium is installed (Debian: chromium)")
    return found


def look(page: Path, scratch: Path, width: int = 1280) -> Seen:
    """Lay out a page, which lies beside the files that it loads, and measure it."""
    script = MEASURE.replace("LEAST", str(LEAST_LETTERS))
    copy = page.with_name(f"measured-{page.name}")
    text = page.read_text(encoding="utf-8")
    copy.write_text(f"{text}\n<script>{script}</script>\n", encoding="utf-8")
    try:
        done = subprocess.run(
            [
                *(browser(), "--headless", "--no-sandbox", "--disable-gpu"),
                *("--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"),
                *(f"--user-data-dir={scratch}", f"--window-size={width},{HEIGHT}"),
                *("--virtual-time-budget=10000", "--dump-dom", copy.as_uri()),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
    finally:
        copy.unlink()
    told = re.search(
        # A page's own script may give it more attributes.
        r'<pre id="measured"[^>]*>(.*?)</pre>',
        done.stdout,
        re.DOTALL,
    )
    assert told is not None, done.stderr[-2000:]
    return Seen(**json.loads(html.unescape(told[1])))


def in_a_page(picture: str, width: str = "auto") -> str:
    """Return a page that has nothing but a picture."""
    style = "body { margin: 0 } svg { max-width: 100%; height: auto }"
    return (
        f'<!doctype html><meta charset="utf-8"><style>{style}</style>'
        f'<body><div style="width: {width}">{picture}</div>'
    )
