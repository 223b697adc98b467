"""Builds and runs the parts that the processes of `run` and `cri-proxy` both have.

`process_on` reads the facts about the node and builds the life-cycle that a door
decides with. `run_process` runs a door: it applies the configuration, starts the watch
of the configuration file, handles signals, and stops everything in a fixed order.
"""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Protocol

from nriplugin.cgroup.journal.journal import DATABASE
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.process import DaemonProcess
from nriplugin.errors import CgroupError
from nriplugin.node.facts import node_facts
from nriplugin.node.ownership_records import OwnershipRecords
from nriplugin.node.state_directory import state_directory
from nriplugin.state.lifecycle import Lifecycle
from nriplugin.stopping import stopping_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.config import Config
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.state.lifecycle import Render


class Served(Protocol):
    """A door, as the process sees it."""

    def apply(self, config: Config) -> None:
        """Put a configuration in force, also while serving."""

    def close(self) -> None:
        """End everything that the door has started."""


def process_on(
    node: DetectedNode,
    door: str,
    *,
    read_only: bool,
    config_path: str | None,
    render: Render | None = None,
) -> DaemonProcess:
    """Return the parts of a daemon that its door is built on.

    Args:
        node: the node, as it was detected.
        door: `nri` or `cri`.
        read_only: whether direct writes are forbidden.
        config_path: the configuration file; None for the defaults.
        render: makes the door's response from a decision.
    """
    background = BackgroundThread()
    lifecycle, unreadable, unwritable = _lifecycle_on(
        node, background, read_only=read_only, render=render
    )
    return DaemonProcess(
        *(door, lifecycle, background),
        read_only=read_only,
        unreadable_because=unreadable,
        unwritable_because=unwritable,
        config_path=config_path,
    )


def _lifecycle_on(
    node: DetectedNode,
    background: BackgroundThread,
    *,
    read_only: bool,
    render: Render | None,
) -> tuple[Lifecycle, str, str]:
    """Return a life-cycle for a node, and why its cgroups cannot be read or written.

    Either reason is empty if they can.
    """
    directory = state_directory(node)
    records = None if directory is None else OwnershipRecords(directory)
    try:
        tree = node.open_tree()
    except CgroupError as exc:
        facts = node_facts(node, None)._replace(writable=False)
        lifecycle = Lifecycle(background, facts, records=records, render=render)
        return lifecycle, str(exc), f"the cgroups cannot be read: {exc}"
    facts = node_facts(node, tree)
    unwritable = ""
    if read_only:
        unwritable = "--read-only was given"
    elif facts.cgroup_version != 2:
        unwritable = f"this node has cgroup v{facts.cgroup_version}"
    elif not facts.writable:
        unwritable = f"{node.cgroup_root} cannot be written by this process"
    may_write = not unwritable

    def open_writer() -> DirectWriter:
        # Imported only here: most nodes need no direct writes, and so no journal.
        from nriplugin.node.direct_writes import DirectWriter

        return DirectWriter.of(node, tree)

    # If an earlier process has left a journal, its direct writes may have to be taken
    # back, so the writer is opened under any configuration.
    journal = os.path.join(directory or "", DATABASE)
    written_before = may_write and os.path.exists(journal)
    lifecycle = Lifecycle(
        background,
        facts._replace(writable=False),
        tree,
        open_writer=open_writer if may_write else None,
        written_before=written_before,
        records=records,
        render=render,
    )
    if written_before:
        lifecycle.open_writer()
    return lifecycle, "", unwritable


def run_process(
    process: DaemonProcess,
    served: Served,
    serve: Callable[[], None],
    stop: Callable[[], None],
    *,
    beside: Iterable[AbstractContextManager[Any]] = (),
) -> None:
    """Serve until SIGTERM or SIGINT.

    At the end the configuration watch stops first, then the services `beside`, and then
    the door, so that nothing is applied to a door that is closed.

    Args:
        process: the daemon's parts, as `process_on` has made them.
        served: the door.
        serve: blocks until `stop` is called.
        stop: ends `serve`; called by a signal handler.
        beside: other services of the process, entered before the door serves.

    Raises:
        NRIPluginError: the configuration is wrong, or the door cannot serve.
    """
    with ExitStack() as stack:
        stack.enter_context(stopping_on_signals(stop))
        stack.enter_context(closing(served))
        for service in beside:
            stack.enter_context(service)
        if process.config.path:
            # Imported only here: without a file, no YAML parser is needed.
            from nriplugin.config import parse_config
            from nriplugin.daemon.config_watch import ConfigWatch, watching

            watch = process.config_watch = ConfigWatch(
                *(process.config.path, parse_config, served.apply),
                status=process.config,
            )
            served.apply(watch.initial())
            stack.enter_context(watching(watch))
        # Imported modules are never freed: keep the garbage collector from examining
        # them during requests.
        gc.collect()
        gc.freeze()
        serve()
