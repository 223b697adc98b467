"""The targets of hack/fuzz hold for their own seeds, without a fuzzer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
FUZZING = TOP / "hack/fuzzing"
TARGETS = sorted(path.stem for path in FUZZING.glob("*.py") if path.stem != "drive")
# In a process of its own, because a target turns logging off.
CHECK = """
import importlib, sys
target = importlib.import_module(sys.argv[1])
for seed in target.SEEDS:
    for data in (seed, seed[:-1], seed + b"\\0"):
        target.check(data)
print(len(target.SEEDS))
"""


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_break_nothing(name: str) -> None:
    """Every seed, and each with a byte less and a byte more, keeps the invariants."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, name],
        env={"PYTHONPATH": f"{TOP}:{TOP / 'tests'}:{FUZZING}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
