"""Watches whether the runtime answers, on a thread of its own ("runtime-watch").

The thread first *greets* the runtime: it asks for the pods and containers that the door
has to know (Discovery.learn). When a forwarded call ends with UNAVAILABLE, the thread
probes the runtime. If the probe fails, it tries to greet the runtime at intervals until
that succeeds, because a runtime that was restarted may have other containers.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.errors import RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

RETRY_S = 1.0
# How long clients wait at the start for the first greeting to end.
FIRST_CONTACT_S = 3.0


class RuntimeWatch:
    """Greets a runtime, and greets it again whenever it was away."""

    def __init__(
        self,
        probe: Callable[[], object],
        greet: Callable[[], object],
        set_serving: Callable[[bool], None],
        retry_s: float = RETRY_S,
    ) -> None:
        """Do nothing yet.

        Args:
            probe: asks whether the runtime answers; raises RPCError or TimeoutError.
            greet: asks for pods and containers; raises the same.
            set_serving: called with whether the runtime answers, at each attempt.
            retry_s: the time between two attempts.
        """
        self._probe = probe
        self._greet = greet
        self._set_serving = set_serving
        self._retry_s = retry_s
        self._first = threading.Event()
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="runtime-watch", daemon=True
        )

    def start(self, first_contact_s: float) -> None:
        """Start the thread; wait for the first greeting, but not longer than this."""
        self._thread.start()
        self._first.wait(first_contact_s)

    def lost(self) -> None:
        """Report that a call has just found the runtime away."""
        self._lost.set()

    def stop(self) -> None:
        """Have the thread end after the call that it is waiting for."""
        self._stop.set()
        self._lost.set()

    def join(self) -> None:
        """Wait for the thread to end."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        greeted = False
        while not self._stop.is_set():
            if greeted:
                self._lost.wait()
                self._lost.clear()
                # A runtime also answers UNAVAILABLE if something else is unavailable,
                # such as a registry. Then the probe succeeds, and no greeting follows.
                greeted = self._try(self._probe)
            else:
                greeted = self._try(self._greet)
                self._first.set()
            if not greeted:
                self._stop.wait(self._retry_s)

    def _try(self, ask: Callable[[], object]) -> bool:
        try:
            ask()
        except (RPCError, TimeoutError) as exc:
            if not self._stop.is_set():
                _log.warning("runtime: does not answer: %s", exc)
            self._set_serving(False)
            return False
        except Exception:  # noqa: BLE001 - a defect in nriplugin must not end the thread
            # True, although the door has learned nothing: the runtime has answered, and
            # another attempt would end in the same defect.
            if not self._stop.is_set():
                _log.exception("runtime: its pods and containers could not be learned")
            return True
        self._set_serving(True)
        return True
