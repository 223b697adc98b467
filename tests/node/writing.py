"""A DirectWriter on a model of a kernel, and writes for it to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgroup.kernels import Kernel
from support.trees import CGROUPS

from nriplugin.cgroup.writing.executor import Executor
from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Why, Write
from nriplugin.node.direct_writes import DirectWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

BURST = "cpu.max.burst"
LOW = "memory.low"
PAGE = 4096

WHY = Why("test", Rule((), "as the test says"), "a test")


def write(
    file: str, value: str, level: Level = Level.CONTAINER, *, part: bool = False
) -> Write:
    """Return a direct write."""
    return Write(file, value, level, When.BEFORE, part, WHY)


def part(file: str, value: int, level: Level = Level.POD) -> Write:
    """Return one container's part of a sum."""
    return write(file, str(value), level, part=True)


def writer_on(kernel: Kernel) -> DirectWriter:
    """Return a writer without a cache, so that every call reads the files."""
    tree = kernel.tree
    return DirectWriter(tree, Executor(tree, refresh_s=0))


def kernel_with(*cgroups: str, files: Iterable[tuple[str, str]] = ()) -> Kernel:
    """Return a kernel with the usual or the given cgroups, and these contents."""
    kernel = Kernel(2, cgroups or CGROUPS)
    kernel.files.update(files)
    return kernel
