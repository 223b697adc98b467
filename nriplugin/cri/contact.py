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


class Contact:
    """Greets a runtime, and once it was away does so until it answers again."""

    def __init__(
        self,
        greet: Callable[[], object],
        tell: Callable[[bool], None],
        retry_s: float = RETRY_S,
    ) -> None:
        """Do nothing yet.

        Args:
            greet: asks for whatever has to be known; raises RPCError or TimeoutError.
            tell: told whether the runtime answers, each time that is found out.
            retry_s: between two attempts.
        """
        self._greet = greet
        self._tell = tell
        self._retry_s = retry_s
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="contact", daemon=True)

    def start(self) -> None:
        """Greet the runtime; if it does not answer, go on trying on a thread."""
        if not self._try():
            self._lost.set()
        self._thread.start()

    def lost(self) -> None:
        """Say that it was away just now."""
        if not self._lost.is_set():
            self._tell(False)
            self._lost.set()

    def stop(self) -> None:
        """Stop trying."""
        self._stop.set()
        self._lost.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while self._lost.wait() and not self._stop.wait(self._retry_s):
            # Before trying: what happens meanwhile makes for another try.
            self._lost.clear()
            if not self._try():
                self._lost.set()

    def _try(self) -> bool:
        try:
            self._greet()
        except (RPCError, TimeoutError) as exc:
            _log.warning("runtime: does not answer: %s", exc)
            self._tell(False)
            return False
        except Exception:  # noqa: BLE001 - a fault of ours must not end the thread
            _log.exception("runtime: what it has could not be learned")
            return True
        self._tell(True)
        return True
