"""Keeps a plugin connected: dial, serve, and dial again when the runtime restarts.

One connection at a time, each with a `Session` of its own. All state comes anew with
the Synchronize of every connection.
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
from nriplugin.nri.launch import Launch, launch_from
from nriplugin.nri.plugin import subscription
from nriplugin.nri.session import Session
from nriplugin.nri.stats import Stats
from nriplugin.stopping import StopFlag, stopping_on_signals

if TYPE_CHECKING:
    from nriplugin.nri.plugin import Plugin

_log = logging.getLogger(__name__)


class Runner:
    """Runs one plugin until it is stopped."""

    def __init__(self, plugin: Plugin, launch: Launch) -> None:
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
        """Serve until `stop`, or, if launched by a runtime, as long as that lives.

        Raises:
            ConfigError: the plugin refuses to work with the runtime.
            OSError: the socket cannot be used, and waiting will not change that.
        """
        backoff = Backoff()
        trouble = ""
        while not self._stopped.is_set():
            lived_s, reason = self._connect_and_serve()
            if self._launch.inherited_fd is not None:
                _log.info("the runtime is gone (%s)", reason)
                return
            if self._stopped.is_set():
                return
            if lived_s is not None:
                trouble = ""
            if reason != trouble:  # said once, not at every attempt
                _log.warning(
                    "not connected to %s: %s", self._launch.socket_path, reason
                )
                trouble = reason
            self._stopped.wait(backoff.next_delay_s(lived_s))

    def stop(self) -> None:
        """End `run` soon; from any thread or signal handler."""
        self._stopped.set()
        session = self._session  # which `run` forgets when the connection ends
        if session is not None:
            session.stop()

    def _connect_and_serve(self) -> tuple[float | None, str]:
        """Return how long the connection worked, if at all, and why it ended."""
        try:
            sock = self._launch.connect()
        except OSError as exc:
            if exc.errno not in _PASSING:
                raise
            return None, exc.strerror or str(exc)
        session = Session(self._plugin, sock, self._launch, self.stats)
        self._session = session
        if self._stopped.is_set():  # between the check above and the assignment
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
        try:
            self._plugin.disconnected(reason)
        except Exception:  # noqa: BLE001 - the plugin's own code; we go on
            _log.exception("the plugin's `disconnected` failed")
        return monotonic() - started, reason


# The runtime is not there, or not ready, yet; or the node is out of descriptors or
# memory for a while. A permission or a path that is too long are the user's to mend.
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
    """Run a plugin until SIGTERM or SIGINT.

    Without arguments a plugin launched by the runtime takes name, index and socket
    from its environment, and any other dials the default socket.

    Raises:
        ConfigError: a wrong name or idx, or a plugin without handlers.
        OSError: the socket cannot be used, for instance for want of permission.
    """
    launch = launch_from(os.environ, name=name, idx=idx, socket_path=socket_path)
    runner = Runner(plugin, launch)
    with stopping_on_signals(runner.stop):
        runner.run()
