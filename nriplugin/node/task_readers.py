"""Opens what counts the tasks of a node's cgroups, for `nriplugin load` and `top`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.files import PROC_MAGIC, LocalFiles
from nriplugin.cgroup.tasks.states import CountOrWalk, ThreadWalk

if TYPE_CHECKING:
    from contextlib import ExitStack

    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.tasks.states import StatesReader


def open_states_reader(
    node: DetectedNode, files: Files, opened: ExitStack
) -> StatesReader:
    """Return a reader of task states; what it opens is closed with `opened`.

    Raises:
        CgroupError: /proc or the kernel's count of cgroup v1 cannot be opened.
    """
    # This process's own /proc, even if the host's is mounted elsewhere: cgroup files
    # show task IDs of the reader's PID namespace.
    proc = opened.enter_context(LocalFiles("/proc", (PROC_MAGIC,)))
    walk = ThreadWalk(files, proc, node.version.number)
    if node.version.number == 2 or node.plain:
        return walk
    from nriplugin.cgroup.tasks.taskstats import CgroupStats

    hierarchies = node.mounts.hierarchies
    directory = hierarchies.get("cpu", f"{node.cgroup_root}/cpu")
    return CountOrWalk(opened.enter_context(CgroupStats(directory)), walk)
