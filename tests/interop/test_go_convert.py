"""nriplugin's arithmetic against the Go library with which runc and kubelet write."""

from __future__ import annotations

import json
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from nriplugin.convert import Curve, convert
from nriplugin.convert.curves import weight_of
from nriplugin.convert.readers import from_oci
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs_go

REFUSED = "refused"
GUESSES = 20_000
INT64 = (1 << 63) - 1


def ask(peers: Path, queries: list[dict[str, int]]) -> list[dict[str, Any]]:
    """Return the library's answers, one per query."""
    done = subprocess.run(
        [peers / "convert"],
        input="".join(json.dumps(query) + "\n" for query in queries),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(queries)
    return answers


def near(*numbers: int) -> list[int]:
    """Return numbers and their neighbours."""
    return sorted({number + step for number in numbers for step in (-1, 0, 1)})


def file_of(document: object, file: str) -> str | None:
    """Return what nriplugin writes to a file, None for nothing, or REFUSED."""
    try:
        return convert(from_oci(document)).files.get(file)
    except ConversionError:
        return REFUSED


def test_shares_have_the_weight_of_the_library(go_peers: Path) -> None:
    """Any number of shares has the weight that the library gives it."""
    guess = random.Random(1024)
    shares = near(1, 1024, 2048, 10_240, 102_400, 262_144, 1 << 32, 1 << 63)
    shares += [(1 << 64) - 1, *range(3, 5000), *range(260_000, 262_150)]
    shares += [guess.randrange(2, 262_145) for _ in range(GUESSES)]
    answers = ask(go_peers, [{"shares": number} for number in shares])
    theirs = {n: a["result"] for n, a in zip(shares, answers, strict=True)}
    assert theirs.pop(0) == 0  # not given
    assert file_of({"cpu": {"shares": 0}}, "cpu.weight") is None
    assert {n: weight_of(n, Curve.QUADRATIC) for n in theirs} == theirs


def test_swap_is_that_of_the_library(go_peers: Path) -> None:
    """Memory and swap give the library's swap, and fail where it fails.

    Except: the library's 0 is both "not given" and the result for swap equal to
    memory, which runc writes; and it leaves it to the kernel to refuse numbers below
    -1 when there is nothing to be computed, where ours refuses.
    """
    guess = random.Random(4096)
    edges = [*near(-1, 4096, 1 << 30, 1 << 40), -INT64 - 1, INT64 - 1, INT64]
    pairs = [(memory, swap) for memory in edges for swap in edges]
    for _ in range(GUESSES):
        memory = guess.randrange(1, 1 << guess.randrange(1, 63))
        more = guess.randrange(-4096, 1 << guess.randrange(1, 62))
        pairs.append((memory, max(memory + more, 1)))
        pairs.append((guess.choice(edges), guess.choice((memory, -memory))))
    answers = ask(go_peers, [{"memory": m, "swap": s} for m, s in pairs])
    for (memory, swap), answer in zip(pairs, answers, strict=True):
        given = {"limit": memory, "swap": swap}
        ours = file_of({"memory": given}, "memory.swap.max")
        result = answer.get("result")
        theirs = str(result)
        if "error" in answer or min(memory, swap) < -1:
            theirs = REFUSED
        elif result == -1:
            theirs = "max"
        if result == 0 and swap == 0 and memory >= 0:
            assert ours is None, given
        else:
            assert ours == theirs, given


def test_io_weights_are_those_of_the_library(go_peers: Path) -> None:
    """Every v1 weight has the library's io.weight, if that is one; else it is refused.

    Below 10 the library underflows, above 1000 it exceeds the file's range.
    """
    weights = list(range(1 << 16))
    answers = ask(go_peers, [{"blkio": weight} for weight in weights])
    for weight, answer in zip(weights, answers, strict=True):
        ours = file_of({"blockIO": {"weight": weight}}, "io.weight")
        result = answer["result"]
        if weight == 0:
            assert (ours, result) == (None, 0)
        elif 1 <= result <= 10_000:
            assert ours == str(result)
        else:
            assert (ours, 10 <= weight <= 1000) == (REFUSED, False)
