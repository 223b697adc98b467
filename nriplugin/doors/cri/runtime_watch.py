"""Whether the runtime is there: asked at the start, and again after it was away."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.errors import RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

RETRY_S = 1.0
# How long callers wait, at the start, for us to know what there is.
PATIENCE_S = 3.0


class Contact:
    """Greets a runtime, and once it was away does so until it answers again."""

    def __init__(
        self,
        probe: Callable[[], object],
        greet: Callable[[], object],
        tell: Callable[[bool], None],
        retry_s: float = RETRY_S,
    ) -> None:
        """Do nothing yet.

        Args:
            probe: asks whether it is there; raises RPCError or TimeoutError.
            greet: asks for whatever has to be known; likewise.
            tell: told whether the runtime answers, each time that is found out.
            retry_s: between two attempts.
        """
        self._probe = probe
        self._greet = greet
        self._tell = tell
        self._retry_s = retry_s
        self._first = threading.Event()
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="contact", daemon=True)

    def start(self, patience_s: float) -> None:
        """Greet the runtime on a thread, and wait for that, but not for long."""
        self._thread.start()
        self._first.wait(patience_s)

    def lost(self) -> None:
        """Say that it did not seem to be there just now."""
        self._lost.set()

    def stop(self) -> None:
        """Stop trying, as soon as what was asked is answered."""
        self._stop.set()
        self._lost.set()

    def join(self) -> None:
        """Wait for the end of it."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        greeted = False
        while not self._stop.is_set():
            if greeted:
                self._lost.wait()
                self._lost.clear()
                # A runtime may also say that something else is unavailable: a registry.
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
            self._tell(False)
            return False
        except Exception:  # noqa: BLE001 - a fault of ours must not end the thread
            if not self._stop.is_set():
                _log.exception("runtime: what it has could not be learned")
            return True
        self._tell(True)
        return True
