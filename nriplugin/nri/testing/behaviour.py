"""Which runtime the embedded one imitates: name, versions, timeouts, and habits.

The NRI release decides how events are delivered, what Configure announces and which
event masks are accepted. The other settings are those of a runtime's administrator,
and choices that a real runtime makes by itself and a test wants to force.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The properties of one embedded runtime; the defaults are those of containerd."""

    name: str = "containerd"
    version: str = "2.3.0"
    nri_version: str = "0.12.5"
    registration_timeout_s: float = 5.0
    request_timeout_s: float = 2.0
    # The configuration text that Configure carries.
    config: str = ""
    # Whether Configure is sent before the answer to RegisterPlugin. A real runtime may
    # do so, because it answers RegisterPlugin on another thread.
    configure_first: bool = False
    # How many pods and containers one Synchronize carries at most. None: as many as fit
    # into one message.
    sync_piece: int | None = None

    @property
    def release(self) -> tuple[int, int]:
        """Return the NRI release as a pair of numbers."""
        major, minor = self.nri_version.split(".")[:2]
        return int(major), int(minor)
