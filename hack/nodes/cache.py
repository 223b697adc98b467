"""Results of builds, kept outside of the repository.

Each result is a directory whose name ends with a hash of all its inputs, so a changed
input means another name, and a result that is there is up to date.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
KEY_LENGTH = 16
UNFINISHED = "-unfinished"
# Longer than a run of all tests with everything to be built.
IN_USE_S = 3 * 3600


def directory() -> Path:
    """Return where nodes are kept."""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = os.environ.get("NRIPLUGIN_CACHE") or Path(xdg) / "nriplugin"
    return Path(base).absolute() / "nodes"


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"node: {text}", file=sys.stderr, flush=True)


def digest(*parts: object) -> str:
    """Return a short key of values, and of the contents of those that are paths."""
    total = hashlib.sha256()
    for part in parts:
        for chunk in _contents(part) if isinstance(part, Path) else [repr(part)]:
            total.update(chunk.encode() if isinstance(chunk, str) else chunk)
            total.update(b"\0")
    return total.hexdigest()[:KEY_LENGTH]


def _contents(path: Path) -> Iterable[str | bytes]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(path.parent))
            yield file.read_bytes()


def built(kind: str, key: str, what: str, build: Callable[[Path], None]) -> Path:
    """Return the directory `kind-key`; if it is not there, `build` fills a new one.

    Older directories of that kind are removed, unless they were asked for within
    `IN_USE_S`: a run in another checkout may be using them. A build works in a
    directory of another name, so an interrupted one is never taken for a result. Of two
    builds of a kind at once, the second waits for the first.
    """
    home = directory()
    home.mkdir(parents=True, exist_ok=True)
    result = home / f"{kind}-{key}"
    with _locked(home / f"{kind}.lock"):
        if result.exists():
            os.utime(result)
            return result
        for old in _results(home, kind):
            if old.name.endswith(UNFINISHED) or not _in_use(old):
                shutil.rmtree(old)
        say(what)
        scratch = home / f"{kind}{UNFINISHED}"
        scratch.mkdir()
        began = time.monotonic()
        build(scratch)
        os.utime(scratch)
        scratch.rename(result)
        say(f"{kind} is ready after {time.monotonic() - began:.0f} s")
    return result


def _in_use(result: Path) -> bool:
    return time.time() - result.stat().st_mtime < IN_USE_S


def _results(home: Path, kind: str) -> list[Path]:
    """Return the results of a kind, and its unfinished build, if there is one.

    The name of a kind may begin with that of another, as `kubernetes` does.
    """
    name = re.compile(rf"{re.escape(kind)}-([0-9a-f]{{{KEY_LENGTH}}}|unfinished)")
    return [path for path in home.iterdir() if name.fullmatch(path.name)]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
