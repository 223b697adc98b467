"""Writes that have their effect once, for policies at run time.

A trigger changes no setting, so the journal has nothing to remember about it and no
lock is taken. The kernel does the work within the write, and the CPU time of that is
this thread's.
"""

from __future__ import annotations

from errno import EINVAL, EIO
from time import thread_time
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify
from nriplugin.engine.policies import Trigger, Triggered
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree

# No other file may be written without the journal.
FILES = frozenset({"memory.reclaim"})


def pull(tree: Tree, cgroup: str, trigger: Trigger) -> Triggered:
    """Write to a file of a container's cgroup, and return what came of it."""
    place = identify(cgroup)
    if trigger.file not in FILES or place is None or place.level != "container":
        return Triggered(EINVAL, 0.0, trigger.value)
    began_s, errno = thread_time(), 0
    try:
        tree.files.write(f"{cgroup}/{trigger.file}", trigger.value)
    except CgroupError as exc:
        errno = exc.errno or EIO
    return Triggered(errno, thread_time() - began_s, trigger.value)
