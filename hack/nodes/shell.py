"""Running the tools that build a node."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class NodeError(Exception):
    """A node cannot be built or does not do what it should; the text says why."""


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit_s: float = 900,
) -> str:
    """Run a command, return what it printed, and say which and why if it fails."""
    argv = [str(part) for part in command]
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            text=True,
            errors="replace",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError as exc:
        raise NodeError(f"{argv[0]}: not found on this machine") from exc
    except subprocess.TimeoutExpired as exc:
        raise NodeError(f"{argv[0]}: not done after {limit_s:.0f} s") from exc
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise NodeError(f"{' '.join(argv)}: exit code {done.returncode}\n{last}")
    return done.stdout
