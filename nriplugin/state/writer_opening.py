"""When and how direct writes are opened.

Most configurations need no direct writes, so the writer with its journal is created
only when a configuration or a runtime first needs it. It stays open until the process
ends.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.updates import REFRESH_S
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import NRIPluginError
from nriplugin.state.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.config import Config
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.plan import CurrentPlan

_log = logging.getLogger(__name__)


class WriterOpening:
    """Gives the pending writes their writer, and tells the plan that there is one."""

    def __init__(
        self,
        create: Callable[[], DirectWriter] | None,
        pending: PendingWrites,
        plans: CurrentPlan,
        *,
        written_before: Callable[[], bool],
    ) -> None:
        """Begin without a writer.

        Args:
            create: creates the writer. None if cgroups must not be written.
            pending: the pending writes, which use the writer.
            plans: the plan in force, whose facts say whether there is a writer.
            written_before: whether another process has left a journal. Its writes may
                have to be taken back under any configuration.
        """
        self._create = create
        self._pending = pending
        self._plans = plans
        self._written_before = written_before
        self._opening = threading.Lock()
        self.problem = ""  # why the writer could not be created
        self._refresh_s: float = REFRESH_S

    @property
    def refresh_s(self) -> float:
        """For how long the writer takes a submitted value as held (directWrites)."""
        return self._refresh_s

    @refresh_s.setter
    def refresh_s(self, seconds: float) -> None:
        self._refresh_s = seconds
        if self._pending.writer is not None:
            self._pending.writer.refresh_s = seconds

    @property
    def allowed(self) -> bool:
        """Whether this process may write to cgroups at all."""
        return self._create is not None

    def open(self) -> None:
        """Open direct writes, unless that is done or not allowed."""
        if self._create is None:
            return
        # A reload and the thread that learns about the runtime may both come here.
        with self._opening:
            if self._pending.writer is not None:
                return
            try:
                writer = self._create()
                writer.refresh_s = self._refresh_s
                self._pending.writer = writer
            except NRIPluginError as exc:
                self.problem = str(exc)
                _log.warning("direct writes are off: %s", exc)
            else:
                self.problem = ""
                self._plans.learn({"writable": True})

    def open_if_written_before(self) -> None:
        """Open direct writes if another process has left a journal by now."""
        if self._written_before():
            self.open()

    def open_for(self, config: Config) -> None:
        """Open direct writes if a configuration can lead to some."""
        if self.needed_by(config) or self._written_before():
            self.open()

    def needed_by(self, config: Config) -> str:
        """Return what of a configuration can lead to direct writes; empty if nothing.

        A text such as `repair is on`.
        """
        if not Plan(config.engine).numbers_only:
            return "handlers or rules of the configuration may need them"
        facts = self._plans.now.facts
        # Which pods run under crun is not known yet.
        systemd = facts.driver == SYSTEMD and not facts.direct_only
        if systemd and config.engine.curve is not None:
            return "under systemd, crun may need them for the weights of the set curve"
        if config.adopt.enabled:
            return "adopt is on"
        return "repair is on" if config.repair.enabled else ""
