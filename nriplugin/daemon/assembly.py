"""Builds the parts that the processes of `run` and `cri-proxy` both have.

`process_on` reads the facts about the node and builds the life-cycle that a door
decides with. serving.py runs a door with it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import DATABASE
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.checkpoint_watch import CheckpointWatch
from nriplugin.daemon.process import DaemonProcess
from nriplugin.errors import CgroupError
from nriplugin.node.facts import node_facts
from nriplugin.node.ownership_records import OwnershipRecords
from nriplugin.node.policy_writes import PolicyRecord
from nriplugin.node.state_directory import state_directory
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.config.file import PodGroupsSection
    from nriplugin.daemon.write_thread import WriteThread
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.state.creation_decision import Render


def process_on(
    node: DetectedNode,
    door: str,
    *,
    read_only: bool,
    config_path: str | None,
    state_dir: str | None = None,
    render: Render | None = None,
    shadow: bool = False,
) -> DaemonProcess:
    """Return the parts of a daemon that its door is built on.

    Args:
        node: the node, as it was detected.
        door: `nri` or `cri`.
        read_only: whether direct writes are forbidden.
        config_path: the configuration file; None for the defaults.
        state_dir: the value of `--state-dir`, if it was given.
        render: makes the door's response from a decision.
        shadow: whether decisions are for show alone, whatever the file says.
    """
    background = BackgroundThread()
    directory = state_directory(node, state_dir)

    def begun(thread: WriteThread) -> None:
        process.write_thread = thread

    lifecycle, unreadable, unwritable = _lifecycle_on(
        *(node, background, directory, begun),
        read_only=read_only,
        render=render,
        shadow=shadow,
    )
    process = DaemonProcess(
        *(door, lifecycle, background),
        read_only=read_only,
        unreadable_because=unreadable,
        unwritable_because=unwritable,
        config_path=config_path,
    )
    process.state_directory = directory
    process.checkpoint_watch = CheckpointWatch(
        node.host_root, lifecycle.requests.publish
    )
    lifecycle.requests.watch = process.checkpoint_watch.configure
    lifecycle.jobs.watch = partial(_watch_groups, process)
    process.driver_evidence = node.driver.rungs[-1].evidence
    lifecycle.writer_opening.open_if_written_before()
    return process


def _watch_groups(process: DaemonProcess, section: PodGroupsSection) -> None:
    """Watch PodGroups as a configuration says."""
    if process.podgroup_watches is None:
        if not section.enabled:
            return
        # Imported only here: most nodes watch none.
        from nriplugin.daemon.podgroups.watch import PodGroupWatches

        process.podgroup_watches = PodGroupWatches(process.lifecycle.jobs.publish)
    process.podgroup_watches.configure(section)


def _lifecycle_on(
    node: DetectedNode,
    background: BackgroundThread,
    directory: str | None,
    begun: Callable[[WriteThread], None],
    *,
    read_only: bool,
    render: Render | None,
    shadow: bool,
) -> tuple[Lifecycle, str, str]:
    """Return a life-cycle for a node, and why its cgroups cannot be read or written.

    Either reason is empty if they can. `begun` is told of the thread of direct writes.
    """
    records = None if directory is None else OwnershipRecords(directory)
    policy_record = PolicyRecord(directory)
    try:
        tree = node.open_tree()
    except CgroupError as exc:
        facts = node_facts(node, None)._replace(writable=False)
        lifecycle = Lifecycle(
            background, facts, records=records, render=render, shadow=shadow
        )
        return lifecycle, str(exc), f"the cgroups cannot be read: {exc}"
    facts = node_facts(node, tree)
    unwritable = ""
    if read_only:
        unwritable = "--read-only was given"
    elif not facts.writable:
        unwritable = f"{node.cgroup_root} cannot be written by this process"
    may_write = not unwritable

    def open_writer() -> DirectWriter:
        # Imported only here: most nodes need no direct writes, and so no journal.
        from nriplugin.daemon.write_thread import WriteThread
        from nriplugin.node.direct_writes import DirectWriter

        writer = DirectWriter.of(node, tree, directory, queued=True)
        if writer.queue is not None:
            thread = WriteThread(writer.queue)
            writer.end_queue = thread.end
            begun(thread)
        return writer

    # If another process has left a journal, its direct writes may have to be taken
    # back, so the writer is opened under any configuration. The process that serves
    # before this one may begin a journal as long as it runs (serving.py asks again).
    journal = os.path.join(directory or "", DATABASE)
    lifecycle = Lifecycle(
        background,
        facts._replace(writable=False),
        tree,
        open_writer=open_writer if may_write else None,
        written_before=lambda: may_write and os.path.exists(journal),
        records=records,
        render=render,
        shadow=shadow,
        policy_record=policy_record,
        host_root=node.host_root,
    )
    return lifecycle, "", unwritable
