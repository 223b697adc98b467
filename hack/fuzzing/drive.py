"""Runs one fuzz target under atheris: drive.py TARGET [directory] [libFuzzer options].

A target is a module beside this one with `SEEDS` and `check(data)`, which raises
nothing unless there is a bug. An empty directory is filled with the seeds first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # lives in .venv-fuzz only


def main() -> None:
    """Hand over to libFuzzer, which does not return."""
    _, name, *options = sys.argv
    with atheris.instrument_imports(include=["nriplugin"]):
        target = import_module(name)
    for directory in filter(Path.is_dir, map(Path, options)):
        if not any(directory.iterdir()):
            for number, seed in enumerate(target.SEEDS):
                (directory / f"seed-{number}").write_bytes(seed)
    atheris.Setup([name, *options], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
