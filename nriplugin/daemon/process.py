"""One running daemon, as far as `status`, metrics, health and the control API read it.

The parts are made by daemon/assembly.py and by the commands `run` and `cri-proxy`. All
of them may be read from any thread.
"""

from __future__ import annotations

from time import monotonic, time
from typing import TYPE_CHECKING

from nriplugin.daemon.config_status import ConfigStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.config import Config
    from nriplugin.daemon.background import BackgroundThread
    from nriplugin.daemon.checkpoint_watch import CheckpointWatch
    from nriplugin.daemon.config_watch import ConfigWatch
    from nriplugin.daemon.podgroups.watch import PodGroupWatches
    from nriplugin.daemon.write_thread import WriteThread
    from nriplugin.nri.stats import Stats
    from nriplugin.request_stats import RequestStats
    from nriplugin.state.lifecycle import Lifecycle


class DaemonProcess:
    """The parts of a daemon."""

    def __init__(
        self,
        door: str,
        lifecycle: Lifecycle,
        background: BackgroundThread,
        *,
        read_only: bool = False,
        unreadable_because: str = "",
        unwritable_because: str = "",
        config_path: str | None = None,
    ) -> None:
        """Put the parts together that exist before the door does.

        Args:
            door: `nri` or `cri`.
            lifecycle: decides and keeps the inventory.
            background: runs the jobs of the life-cycle.
            read_only: whether the user has forbidden direct writes.
            unreadable_because: why the node's cgroups cannot be read; else empty.
            unwritable_because: why direct writes can never be on; else empty.
            config_path: the configuration file, if there is one.
        """
        self.started_at = time()
        # The wall clock may be set meanwhile, so `uptime_s` uses another one.
        self._began = monotonic()
        self.door = door
        self.lifecycle = lifecycle
        self.background = background
        self.read_only = read_only
        self.unreadable_because = unreadable_because
        self.unwritable_because = unwritable_because
        self.config = ConfigStatus(config_path or "", events=lifecycle.events)
        # Set when the parts exist: requests by operation, the counters of the NRI
        # connection (None for the CRI proxy), the watches of the configuration file, of
        # kubelet's checkpoint and of PodGroups, and the thread that writes repairs
        # (from the first need of direct writes on).
        self.requests: RequestStats | None = None
        self.nri_stats: Stats | None = None
        self.config_watch: ConfigWatch[Config] | None = None
        self.checkpoint_watch: CheckpointWatch | None = None
        self.podgroup_watches: PodGroupWatches | None = None
        self.write_thread: WriteThread | None = None
        # Returns for how many seconds requests have not been decided about because the
        # door's threads do not come back from earlier ones; 0 in a healthy process.
        self.late_s: Callable[[], float] = float
        # Returns how many requests were answered without waiting for their decision.
        self.late_answers: Callable[[], int] = int
        # Called when the daemon serves its sockets; tells systemd, if that has asked.
        self.notify_serving: Callable[[], None] = _nobody
        # Whether the operator has ended all decisions (`nriplugin withdraw`).
        self.withdrawn = False
        # Where the state is kept; None for a node that is a copy of cgroups.
        self.state_directory: str | None = None
        # How the cgroup driver was found.
        self.driver_evidence = ""
        # By the name of a service, where it is served, `off`, or why it
        # is not; set by the services themselves.
        self.addresses: dict[str, str] = {}
        # For whom this process waits before it serves, as a sentence without a
        # subject; empty if it waits for nobody.
        self.waits = ""

    @property
    def uptime_s(self) -> float:
        """Return how long the process has been running."""
        return monotonic() - self._began

    @property
    def direct_only_mode(self) -> str:
        """Return what the daemon can do on a node with cgroup v1; empty with v2."""
        version = self.lifecycle.plan.facts.cgroup_version
        if version == 2:
            return ""
        because = self.unwritable_because or self.unreadable_because
        if because:
            return f"inactive: cgroup v{version}, and direct writes are off: {because}"
        return f"direct writes only: cgroup v{version}"

    @property
    def direct_writes_off_because(self) -> str:
        """Return why the daemon writes to no cgroup itself; empty if it may."""
        if self.withdrawn:
            return "withdrawn: nothing is decided any more"
        return self.no_writer_because

    @property
    def direct_writes_on_because(self) -> str:
        """Return what may need direct writes, now that they are on."""
        lifecycle = self.lifecycle
        config, facts = lifecycle.config, lifecycle.plan.facts
        needed = "" if config is None else lifecycle.writer_opening.needed_by(config)
        if not needed and facts.drops_unified and not facts.direct_only:
            needed = "this runtime drops cgroup v2 files from updates"
        return needed or "an earlier process or configuration may have needed them"

    @property
    def no_writer_because(self) -> str:
        """Return why the daemon cannot write to cgroups at all; empty if it can."""
        lifecycle = self.lifecycle
        if lifecycle.pending.writer is not None:
            return ""
        return (
            self.unwritable_because
            or lifecycle.writer_opening.problem
            or "nothing in the configuration needs them"
        )


def _nobody() -> None:
    """Notify nobody."""
