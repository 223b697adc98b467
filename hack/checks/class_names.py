"""Checks that no class name is defined twice in the package.

A name that means two things sends a reader to the wrong file. Generated code is left
out: its names are those of the protocols. Names with an underscore are checked as well,
because they appear in tracebacks and in searches like every other.

usage: class_names.py DIRECTORY; exit code 1 with one line per name if there are any.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

GENERATED = "_pb2.py"


def duplicates(package: Path) -> dict[str, list[str]]:
    """Return each class name that is defined more than once, with its places."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        if path.name.endswith(GENERATED):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def main() -> int:
    """Check the directory that the command line names."""
    found = duplicates(Path(sys.argv[1]))
    for name, places in found.items():
        print(f"class {name} is defined more than once: {', '.join(places)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
