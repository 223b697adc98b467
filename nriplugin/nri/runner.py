"""Keeps a plugin connected: dials, serves, and dials again when the runtime restarts.

There is one connection at a time, and each has a `Session` of its own. No state of the
protocol survives a connection: the runtime sends all pods and containers again with
the Synchronize of the next one.

A plugin that the runtime launched has one inherited connection and ends with it.
"""

from __future__ import annotations

import errno
import logging
import os
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.errors import (
    ConfigError,
    ConnectionClosed,
    RemoteProtocolError,
    RPCError,
)
from nriplugin.nri.backoff import Backoff
from nriplugin.nri.default_log import log_unless_configured
from nriplugin.nri.launch import Launch, launch_from
from nriplugin.nri.misspelt import misspelt_handlers
from nriplugin.nri.plugin import subscription
from nriplugin.nri.session import Session
from nriplugin.nri.stats import Stats
from nriplugin.stopping import StopFlag, stopping_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.nri.plugin import Plugin

_log = logging.getLogger(__name__)


# How often the log says that the runtime is still away.
REMIND_S = 600.0


class Trouble:
    """Logs why there is no connection: once per reason, and then rarely."""

    def __init__(
        self, socket_path: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._socket_path = socket_path
        self._clock = clock
        self._reason = ""
        self._began = self._said = clock()
        self._attempts = 0

    def note(self, reason: str, *, connected: bool) -> None:
        """Take note of a connection that has ended, or of one that was not made."""
        now = self._clock()
        if connected or not self._attempts:
            self._reason, self._began, self._attempts = "", now, 0
        self._attempts += 1
        if reason != self._reason:
            self._reason, self._said = reason, now
            _log.warning("not connected to %s: %s", self._socket_path, reason)
        elif now - self._said >= REMIND_S:
            self._said = now
            _log.warning(
                "not connected to %s for %.0f s, after %d attempts: %s",
                *(self._socket_path, now - self._began, self._attempts, reason),
            )


class Runner:
    """Runs one plugin until it is stopped."""

    def __init__(self, plugin: Plugin, launch: Launch) -> None:
        if isinstance(plugin, type):
            name = plugin.__name__
            raise ConfigError(f"plugin: the class {name}, expected a plugin: {name}()")
        if not subscription(plugin):
            raise ConfigError(
                f"plugin {type(plugin).__name__} has no handlers, expected at least one"
            )
        self.stats = Stats()
        self._plugin = plugin
        self._launch = launch
        self._session: Session | None = None
        self._stopped = StopFlag()

    def run(self) -> None:
        """Serve until `stop`, or until the runtime that launched the plugin ends.

        Raises:
            ConfigError: the plugin refuses to work with the runtime.
            OSError: the socket cannot be used, with an error that does not pass by
                itself.
        """
        # `Plugin.stop` may have been called already, which stops this runner, too.
        self._plugin.attach_runner(self.stop)
        try:
            self._run()
        finally:
            self._plugin.attach_runner(None)

    def _run(self) -> None:
        backoff = Backoff()
        trouble = Trouble(self._launch.socket_path)
        while not self._stopped.is_set():
            lived_s, reason = self._connect_and_serve()
            if self._stopped.is_set():
                return
            if self._launch.inherited_fd is not None:
                _log.info("the runtime is gone (%s)", reason)
                return
            trouble.note(reason, connected=lived_s is not None)
            self._stopped.wait(backoff.next_delay_s(lived_s))

    def stop(self) -> None:
        """End `run` soon; from any thread or signal handler."""
        self._stopped.set()
        # Read once: the thread in `run` sets it to None when the connection ends.
        session = self._session
        if session is not None:
            session.stop()

    @property
    def late_s(self) -> float:
        """Return for how many seconds the handler under way is late; 0 if it is not.

        From any thread. A handler that stays late for long will not come back.
        """
        session = self._session
        late_since = None if session is None else session.late_since
        return 0.0 if late_since is None else monotonic() - late_since

    def _connect_and_serve(self) -> tuple[float | None, str]:
        """Serve one connection; return how many seconds it worked and why it ended.

        The seconds are None if the connection was not made or never synchronized.
        """
        try:
            sock = self._launch.connect()
        except OSError as exc:
            if exc.errno not in _PASSING:
                raise
            return None, exc.strerror or str(exc)
        session = Session(self._plugin, sock, self._launch, self.stats)
        self._session = session
        # `stop` may have run before `_session` was set, and then it found no session.
        if self._stopped.is_set():
            session.stop()
        reason = "stopped"
        started = monotonic()
        try:
            session.run()
        except (ConnectionClosed, RemoteProtocolError, RPCError) as exc:
            reason = str(exc)
        finally:
            self._session = None
        if not session.established:
            return None, reason
        _log.info("disconnected: %s", reason)
        try:
            self._plugin.disconnected(reason)
        except Exception:  # noqa: BLE001 - plugin code must not end the runner
            _log.exception("the plugin's `disconnected` failed")
        return monotonic() - started, reason


# Errors of `connect` that can pass by themselves: the runtime is not started or not
# ready, or the node is out of descriptors or memory. Others, such as a missing
# permission or a path that is too long, need the user and end the runner.
_PASSING = {
    errno.ENOENT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EAGAIN,
    errno.EPIPE,
    errno.ENOTDIR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOBUFS,
    errno.EINTR,
}


def run(
    plugin: Plugin,
    *,
    name: str | None = None,
    idx: str | None = None,
    socket_path: str | None = None,
) -> None:
    """Run a plugin until SIGTERM, SIGINT or `plugin.stop()`.

    Without arguments, a plugin that a runtime launched takes name, index and socket
    from its environment; any other plugin dials the default socket. If the program has
    not configured logging, the log goes to standard error.

    Raises:
        ConfigError: the name or the index is not valid, the plugin has no handlers, or
            the plugin refuses to work with the runtime.
        OSError: the socket cannot be used, for instance because of its permissions.
    """
    log_unless_configured()
    for mistake in misspelt_handlers(plugin):
        _log.warning("%s", mistake)
    launch = launch_from(os.environ, name=name, idx=idx, socket_path=socket_path)
    runner = Runner(plugin, launch)
    with stopping_on_signals(runner.stop):
        runner.run()
