"""Builds the site: HTML pages of the Markdown files, made by Sphinx."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from documents.blocks import TOP

CONFIGURATION = Path(__file__).parent / "sphinx"


def main() -> int:
    """Build the site, and say where its first page is."""
    parser = argparse.ArgumentParser(prog="hack/docs")
    parser.add_argument("--strict", action="store_true", help="warnings are errors")
    parser.add_argument("--output", metavar="DIR", type=Path)
    args = parser.parse_args()
    called_from = Path(os.environ.get("CALLED_FROM", TOP))
    output = called_from / args.output if args.output else TOP / "dist/site"
    # Pages that are gone from the source must not stay. Sphinx marks what it built.
    if (output / ".buildinfo").is_file():
        shutil.rmtree(output)
    elif output.is_dir() and any(output.iterdir()):
        parser.error(
            f"--output: {output}, expected a directory that is empty or absent"
        )
    with tempfile.TemporaryDirectory(prefix="nriplugin-site-") as doctrees:
        strict = ["--fail-on-warning", "--keep-going"] if args.strict else []
        done = subprocess.run(
            [
                *(sys.executable, "-m", "sphinx", "-b", "html", *strict),
                *("-c", CONFIGURATION, "-d", doctrees, TOP, output),
            ],
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
    if done.returncode:
        return 1
    # The first page of the site is the README, which other pages link to by its name.
    shutil.copyfile(output / "README.html", output / "index.html")
    print(f"{output / 'index.html'}: {len(list(output.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
