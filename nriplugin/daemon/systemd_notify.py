"""Tells systemd how the daemon does, for units of `Type=notify` (sd_notify(3)).

The protocol is a datagram with lines to the socket that `NOTIFY_SOCKET` names. The
library for it, `sdnotify`, has not been maintained since 2017.

READY=1 is sent when the daemon serves its sockets, not when the runtime has answered:
a runtime that is away must not keep the unit, and what is ordered after it, from being
started. `STATUS=` says whether there is a connection, and `/readyz` does. WATCHDOG=1 is
sent as long as `live` finds nothing; without it systemd kills and restarts the daemon.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import contextmanager, suppress
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import TYPE_CHECKING

from nriplugin.daemon.health import live, ready
from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from nriplugin.daemon.process import DaemonProcess

_log = LimitedLog(logging.getLogger(__name__))

# How often the state is looked at, unless the watchdog wants it more often. A state is
# sent only if it has changed.
INTERVAL_S = 5.0
# How long a datagram may wait for a systemd that does not read.
PATIENCE_S = 1.0


class SystemdNotifier:
    """Notifies systemd about one daemon; does nothing if systemd did not ask for it.

    As a context manager it sends the watchdog's signs of life and the status from a
    thread of its own, and at the end that the daemon stops.
    """

    def __init__(self, process: DaemonProcess, environ: Mapping[str, str]) -> None:
        """Read from the environment what systemd wants."""
        self._process = process
        path = environ.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is not in the file system; systemd also knows vsock.
        address = "\0" + path[1:] if path.startswith("@") else path
        self._address = address if address[:1] in ("\0", "/") else ""
        self._watchdog_s = _watchdog_s(environ)
        self._status = ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="systemd", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        if self._address:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Say that the daemon stops."""
        if self._address:
            self._ending.set()
            self._thread.join()
            self._send("STOPPING=1", "STATUS=stopping")

    def serving(self) -> None:
        """Say that the daemon serves its sockets."""
        self._send("READY=1", f"STATUS={self._state()}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Say that the configuration is read again, and when that is done."""
        now_us = clock_gettime_ns(CLOCK_MONOTONIC) // 1000
        # The time is for `Type=notify-reload`; others ignore it.
        self._send("RELOADING=1", f"MONOTONIC_USEC={now_us}")
        try:
            yield
        finally:
            self.serving()

    def _run(self) -> None:
        period_s = min(INTERVAL_S, self._watchdog_s / 2 or INTERVAL_S)
        while not self._ending.wait(period_s):
            try:
                self._look()
            except Exception as exc:  # noqa: BLE001 - the thread must go on
                _log.log(logging.ERROR, "systemd: not notified: %r", exc, exc_info=exc)
                # That says nothing about the other threads. Without a sign of life
                # systemd would kill a daemon that serves.
                if self._watchdog_s:
                    self._send("WATCHDOG=1")

    def _look(self) -> None:
        """Send a sign of life if there is reason to, and the status if it is new."""
        lines = []
        if self._watchdog_s and not live(self._process):
            lines.append("WATCHDOG=1")
        before = self._status
        if self._state() != before:
            lines.append(f"STATUS={self._status}")
        if lines:
            self._send(*lines)

    def _state(self) -> str:
        """Return one line about the daemon, and remember it as the last one sent."""
        process = self._process
        connection = process.lifecycle.connection
        problems = live(process) + ready(process)
        if process.config.error:
            problems.append(
                f"the old configuration is in force: {process.config.error}"
            )
        runtime = f"{connection.runtime} {connection.version}".strip()
        state = "; ".join(problems) or f"connected to {runtime or 'the runtime'}"
        self._status = " ".join(state.split())
        return self._status

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # Without systemd at the other end there is nobody to tell.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
        ):
            sock.settimeout(PATIENCE_S)
            # A path in a status may hold bytes that are not UTF-8.
            text = "\n".join(lines).encode(errors="replace")
            sock.sendto(text, self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """Return the time within which systemd wants signs of life; 0 for none."""
    time_us = environ.get("WATCHDOG_USEC", "")
    for_us = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return int(time_us) / 1e6 if for_us and time_us.isdecimal() else 0.0
