"""A stream of containers: made, resized and removed, while things break.

It plays kubelet's part: what the death of the runtime interrupted is done again, or
cleaned up.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from support.gopeers import GoRuntimeDied

from faulting.played_node import Size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from faulting.played_node import PlayedNode

SIZES = (
    Size(1024, 50_000, 256 << 20),
    Size(2048, 100_000, 512 << 20),
    Size(4096, 200_000, 1 << 30),
    Size(512, 20_000, 64 << 20),
)
MOST = 30  # containers at a time
PAUSE_S = 0.02


class Step(NamedTuple):
    """One thing that is done to one container."""

    part: str  # run, resize or remove
    index: int
    size: Size


class Stream:
    """The thread that makes, resizes and removes containers."""

    def __init__(self, node: PlayedNode, random: Random) -> None:
        self._node, self._random = node, random
        self._gate = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._next = 1
        self._interrupted: Step | None = None
        # The size of each container, as of its last creation or resize.
        self.wanted: dict[int, Size] = {}
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE_S):
                with self._gate:
                    if self._interrupted is None:
                        self._do(self._pick())
                    else:
                        self._finish(self._interrupted)
        except Exception as exc:
            self.failed.append(f"the stream has ended: {exc!r}")
            raise

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do nothing within the block; nothing is half done."""
        with self._gate:
            while self._interrupted is not None:
                self._finish(self._interrupted)
            yield

    def _pick(self) -> Step:
        size = self._random.choice(SIZES)
        choice = self._random.random()
        # More often made than removed, until there are many.
        if not self.wanted or (choice < 0.4 and len(self.wanted) < MOST):
            self._next += 1
            return Step("run", self._next, size)
        index = self._random.choice(list(self.wanted))
        return Step("resize" if choice < 0.75 else "remove", index, size)

    def _do(self, step: Step) -> None:
        try:
            failed = self._node.play(
                step.part, step.index, resources=step.size.resources()
            )
        except GoRuntimeDied:
            self._interrupted = step
            return
        self._interrupted = None
        self.done[step.part] += 1
        self.failed += [f"{step.part}: {one}" for one in failed]
        if step.part == "remove":
            self.wanted.pop(step.index, None)
        elif not failed:
            self.wanted[step.index] = step.size

    def _finish(self, step: Step) -> None:
        """Do again what the runtime's death interrupted; clean up half a creation."""
        exists = step.index in self._node.containers()
        if step.part == "resize" and exists:
            self._do(step)
        elif exists:
            self._do(step._replace(part="remove"))
        else:
            self.wanted.pop(step.index, None)
            self._interrupted = None
        self._stop.wait(PAUSE_S)
