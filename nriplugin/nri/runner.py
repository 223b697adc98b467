"""Keeps a plugin connected: dial, serve, and dial again when the runtime restarts.

One connection at a time, each with a `Session` of its own. All state comes anew with
the Synchronize of every connection.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import signal
import threading
from typing import TYPE_CHECKING

from nriplugin.errors import (
    ConfigError,
    ConnectionClosed,
    RemoteProtocolError,
    RPCError,
)
from nriplugin.nri.launch import Launch, launch_from
from nriplugin.nri.plugin import subscription
from nriplugin.nri.session import Session
from nriplugin.nri.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from nriplugin.nri.plugin import Plugin

_log = logging.getLogger(__name__)

# Between two attempts, doubling. The first is short, because a runtime's restart takes
# a second and containers started in between go without us; the last bounds how long a
# node is without us after its runtime came back from a long absence.
FIRST_DELAY_S = 0.1
LAST_DELAY_S = 3.0


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
        self._stopped = threading.Event()

    def run(self) -> None:
        """Serve until `stop`, or, if launched by a runtime, as long as that lives.

        Raises:
            ConfigError: the plugin refuses to work with the runtime.
            OSError: the socket cannot be used, and waiting will not change that.
        """
        delay_s = FIRST_DELAY_S
        trouble = ""
        while not self._stopped.is_set():
            established, reason = self._connect_and_serve()
            if self._launch.inherited_fd is not None:
                _log.info("the runtime is gone (%s)", reason)
                return
            if self._stopped.is_set():
                return
            if established:
                delay_s, trouble = FIRST_DELAY_S, ""
            if reason != trouble:  # said once, not at every attempt
                _log.warning(
                    "not connected to %s: %s", self._launch.socket_path, reason
                )
                trouble = reason
            # Half to all of it, so that plugins of one node do not dial in step.
            self._stopped.wait(delay_s * random.uniform(0.5, 1))
            delay_s = min(2 * delay_s, LAST_DELAY_S)

    def stop(self) -> None:
        """End `run` soon; from any thread or signal handler."""
        self._stopped.set()
        if self._session is not None:
            self._session.stop()

    def _connect_and_serve(self) -> tuple[bool, str]:
        """Return whether the connection came to work, and why it ended."""
        try:
            sock = self._launch.connect()
        except OSError as exc:
            if exc.errno not in _PASSING:
                raise
            return False, exc.strerror or str(exc)
        session = Session(self._plugin, sock, self._launch, self.stats)
        self._session = session
        if self._stopped.is_set():  # between the check above and the assignment
            session.stop()
        reason = "stopped"
        try:
            session.run()
        except (ConnectionClosed, RemoteProtocolError, RPCError) as exc:
            reason = str(exc)
        finally:
            self._session = None
        if session.established:
            self._plugin.disconnected(reason)
        return session.established, reason


# The runtime is not there, or not ready, yet. A permission or a path that is too long
# are the user's to mend.
_PASSING = {
    errno.ENOENT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EAGAIN,
    errno.EPIPE,
    errno.ENOTDIR,
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
    with stopping_on_signals(runner):
        runner.run()


@contextlib.contextmanager
def stopping_on_signals(runner: Runner) -> Iterator[None]:
    """Stop a runner on the first SIGTERM or SIGINT; the second does not wait."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        runner.stop()

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may install handlers: the caller has its own
        return
    numbers = signal.SIGTERM, signal.SIGINT
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
