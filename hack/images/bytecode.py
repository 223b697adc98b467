"""Compiles the image's Python files, because nothing can be written at run time.

Without byte code every start of a container would compile all modules anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.shell import run

from images.debian import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

# Makes byte code that does not depend on the order of sets or on times of files.
_PROGRAM = """
import compileall, py_compile, sys
tree, *places = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for place in places:
    compileall.compile_dir(
        f"{tree}/{place}", quiet=2, maxlevels=20, stripdir=tree, prependdir="/",
        invalidation_mode=mode, force=True,
    )
"""


def compile_all(interpreter: Path, tree: Path, *places: str) -> None:
    """Compile what is below `places` of a tree with the Python of another tree."""
    (loader,) = interpreter.glob("usr/lib*/ld-linux*.so.*")
    libraries = next(interpreter.glob("usr/lib/*/libc.so.6")).parent
    run(
        loader,
        "--library-path",
        libraries,
        interpreter / f"usr/bin/python{PYTHON}",
        *("-S", "-B", "-c", _PROGRAM),
        tree,
        *places,
        env={"PYTHONHOME": str(interpreter / "usr"), "PYTHONHASHSEED": "0"},
    )
