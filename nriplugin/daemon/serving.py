"""Runs a door until the process is told to end, and ends everything in a fixed order.

`run_process` reads the configuration first, so that a mistake in it is an error at
once. Then it waits until no other process of nriplugin serves the same runtime
(instance_lock.py), opens the services, which may use the same sockets as that process,
and serves. On SIGTERM the door answers the requests that have arrived, the services
close, the background thread stores the records that wait for it, and the journal is
written. Only then the lock is released.
"""

from __future__ import annotations

import gc
import logging
import os
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nriplugin.daemon.instance_lock import (
    SIGN_OF_LIFE_S,
    InstanceLock,
    lock_path,
)
from nriplugin.daemon.start_lines import start_lines
from nriplugin.daemon.systemd_notify import SystemdNotifier
from nriplugin.state.events import EventKind
from nriplugin.stopping import StopFlag, stopping_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from nriplugin.config import Config
    from nriplugin.daemon.config_watch import ConfigWatch
    from nriplugin.daemon.process import DaemonProcess

_log = logging.getLogger(__name__)

# A runtime gives a plugin that it launches 5 s to register, with the start of Python.
LAUNCHED_LIMIT_S = 2.0
# How often a silent process looks whether the other one has ended.
SILENT_INTERVAL_S = 0.5


class Served(Protocol):
    """A door, as the process sees it."""

    def apply(self, config: Config) -> None:
        """Put a configuration in force, also while serving."""

    def close(self) -> None:
        """End everything that the door has started."""


class Instance(NamedTuple):
    """Which runtime the process serves, and who started the process."""

    runtime: str  # the path of the runtime's socket
    # Whether the runtime has launched the process. Then the process has to register
    # soon, whether another one still serves the runtime or not.
    launched: bool = False


def run_process(
    process: DaemonProcess,
    served: Served,
    serve: Callable[[], None],
    stop: Callable[[], None],
    *,
    instance: Instance,
    beside: Iterable[AbstractContextManager[Any]] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once.

    Args:
        process: the daemon's parts, as `process_on` has made them.
        served: the door.
        serve: blocks until `stop` is called; calls `process.notify_serving` once the
            daemon serves its sockets.
        stop: ends `serve`; called by a signal handler.
        instance: the runtime that is served.
        beside: other services of the process, entered before the door serves.

    Raises:
        NRIPluginError: the configuration is wrong, or the door cannot serve.
    """
    stopping = StopFlag()
    notifier = SystemdNotifier(process, os.environ)
    process.notify_serving = notifier.serving

    def end() -> None:
        stopping.set()
        stop()

    with ExitStack() as stack:
        stack.enter_context(stopping_on_signals(end))
        lock = stack.enter_context(_lock_of(process, instance))
        stack.callback(lock.note_end, process.lifecycle.connection)
        stack.enter_context(closing(served))
        if process.checkpoint_watch is not None:
            stack.callback(process.checkpoint_watch.stop)
        stack.callback(_stop_podgroups, process)
        watch = None
        if process.config.path:
            watch = _read_configuration(process, served, notifier)
        else:
            process.lifecycle.verifier.schedule(process.background)
        if not _may_serve(process, lock, stopping, launched=instance.launched):
            _log.info("stopped before anything was served")
            return
        # The process that served before may have begun its journal meanwhile.
        process.lifecycle.writer_opening.open_if_written_before()
        for service in beside:
            stack.enter_context(service)
        if watch is not None:
            from nriplugin.daemon.config_watch import watching

            stack.enter_context(watching(watch))
        for line in start_lines(process):
            _log.info("%s", line)
        # Imported modules are never freed: keep the garbage collector from examining
        # them during requests.
        gc.collect()
        gc.freeze()
        stack.enter_context(notifier)
        serve()
        process.lifecycle.events.note(EventKind.STOPPING)
        _log.info("stopping")
    _log.info("stopped after %s", _summary(process))


def _stop_podgroups(process: DaemonProcess) -> None:
    if process.podgroup_watches is not None:
        process.podgroup_watches.stop()


def _read_configuration(
    process: DaemonProcess, served: Served, notifier: SystemdNotifier
) -> ConfigWatch[Config]:
    """Put the configuration file in force; return the watch over it, not started.

    Raises:
        NRIPluginError: the file cannot be read, or is wrong.
    """
    # Imported only here: without a file, no YAML parser is needed.
    from nriplugin.config import parse_config
    from nriplugin.config.warnings import warnings_about
    from nriplugin.daemon.config_changes import changes
    from nriplugin.daemon.config_watch import ConfigWatch

    lifecycle = process.lifecycle

    def warn(config: Config) -> None:
        for warning in warnings_about(config):
            _log.warning("configuration: %s", warning)

    def apply(config: Config) -> None:
        difference = changes(lifecycle.config, lifecycle.effective(config))
        served.apply(config)
        process.config.changes = difference
        _log.info("configuration: %s", difference)
        warn(config)

    watch = process.config_watch = ConfigWatch(
        *(process.config.path, parse_config, apply),
        status=process.config,
        reloading=notifier.reloading,
    )
    first = watch.initial()
    served.apply(first)
    warn(first)
    return watch


# The other process of nriplugin


def _lock_of(process: DaemonProcess, instance: Instance) -> InstanceLock:
    directory = process.state_directory
    if directory is None:
        return InstanceLock(None)
    return InstanceLock(lock_path(directory, process.door, instance.runtime))


def _may_serve(
    process: DaemonProcess, lock: InstanceLock, stopping: StopFlag, *, launched: bool
) -> bool:
    """Wait until no other process serves the runtime; False if told to stop.

    A process that the runtime has launched must register within seconds. Before NRI 0.7
    a launched plugin that fails keeps the runtime from starting. So it registers, but
    answers nothing as long as another process has the lock: that one answers.
    """

    def waits(text: str) -> None:
        process.waits = text

    limit_s = LAUNCHED_LIMIT_S if launched else None
    if lock.acquire(stopping, waits, limit_s):
        process.waits = ""
        _give_signs_of_life(process, lock)
        return True
    if stopping.is_set():
        return False
    _log.warning("%s still serves: this process answers nothing", lock.holder())
    process.lifecycle.plans.set_silent(True)
    look = partial(_end_silence, process, lock)
    process.background.every(SILENT_INTERVAL_S, look, "instance lock")
    return True


def _end_silence(process: DaemonProcess, lock: InstanceLock) -> None:
    """Begin to answer if the other process has ended; on the background thread."""
    if not lock.attempt():
        return
    process.background.every(SILENT_INTERVAL_S, None, "instance lock")
    _give_signs_of_life(process, lock)
    process.lifecycle.writer_opening.open_if_written_before()
    process.lifecycle.end_silence()
    process.waits = ""
    _log.info("the other process has ended: this one answers from now on")


def _give_signs_of_life(process: DaemonProcess, lock: InstanceLock) -> None:
    """Learn how the process before this one ended; tell the one after this the same."""
    connection = process.lifecycle.connection
    connection.earlier = lock.earlier
    if lock.held:
        sign = partial(lock.give_sign_of_life, connection)
        process.background.every(SIGN_OF_LIFE_S, sign, "sign of life")


# The end


def _summary(process: DaemonProcess) -> str:
    """Return what the process has done."""
    operations = process.requests.snapshot() if process.requests is not None else {}
    requests = sum(stats.count for stats in operations.values())
    containers = process.lifecycle.inventory.snapshot().values()
    managed = sum(1 for entry in containers if entry.ours)
    return (
        f"{process.uptime_s:.0f} s: requests answered: {requests}; "
        f"containers that keep values of nriplugin: {managed}"
    )
