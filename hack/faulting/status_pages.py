"""`nriplugin status --watch`, as processes that go on over restarts of the daemon."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60
POLL_S = 0.1


class StatusPages:
    """One process, and what it has printed so far."""

    def __init__(self, address: str) -> None:
        """Begin to watch the daemon at an address of the control API."""
        command = ["status", "--watch", "-o", "json", "--control", address]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nriplugin", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pages = 0
        self.without_daemon = 0
        self.last: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last = json.loads(line)
            if "error" in self.last:
                self.without_daemon += 1
            else:
                self.pages += 1

    @property
    def problem(self) -> str:
        """Return why it does not show a daemon that is ready; empty if it does."""
        if self._process.poll() is not None:
            assert self._process.stderr is not None
            said = self._process.stderr.read()[-500:]
            return f"status --watch: exit code {self._process.returncode}: {said!r}"
        return "" if self.last.get("ready") else f"status --watch shows {self.last}"

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


class StatusWatchers:
    """Several such processes, while the daemon is disturbed."""

    def __init__(self, address: str, count: int) -> None:
        self._address, self._count = address, count
        self.each: list[StatusPages] = []

    def __enter__(self) -> Self:
        self.each = [StatusPages(self._address) for _ in range(self._count)]
        return self

    def __exit__(self, *exc: object) -> None:
        for one in self.each:
            one.end()

    def wait_for_next(self) -> list[str]:
        """Wait until each shows another page, of a daemon that is ready.

        Returns:
            The problems of those that do not.
        """
        seen = [one.pages for one in self.each]
        deadline = time.monotonic() + PATIENCE_S
        while (problems := list(self._problems(seen))) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return problems

    def _problems(self, seen: list[int]) -> Iterator[str]:
        for one, pages in zip(self.each, seen, strict=True):
            if one.problem:
                yield one.problem
            elif one.pages == pages:
                yield "status --watch shows no more pages"
