"""Whether a daemon works: its threads (`live`) and its connection (`ready`).

`/healthz` and `/readyz`, gRPC's health service, `status` and systemd's watchdog all ask
here, so they never differ. Both functions read a few attributes, take no lock that is
held during I/O, and may be called from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.daemon.process import DaemonProcess

# A request has two seconds by default, after which the watchdog answers in its place. A
# handler that is not back so much later does not come back.
REQUEST_STUCK_S = 30.0
# A background job and a direct write may change many files, and may wait for systemd
# and for the journal.
BACKGROUND_STUCK_S = 120.0


WITHDRAWN = (
    "withdrawn: direct writes were put back, and nothing is decided until the daemon "
    "is started again"
)


def live(process: DaemonProcess) -> list[str]:
    """Return why the process should be restarted; nothing if it works."""
    problems = []
    late_s = process.late_s()
    if late_s > REQUEST_STUCK_S:
        problems.append(f"requests are not decided about since {late_s:.0f} s")
    background = process.background
    if background.has_died:
        problems.append("the background thread has ended")
    elif (busy_s := background.busy_s) > BACKGROUND_STUCK_S:
        problems.append(f"the background thread has one job since {busy_s:.0f} s")
    writing = process.write_thread
    if writing is not None and writing.has_died:
        problems.append("the thread of direct writes has ended")
    elif writing is not None and (busy_s := writing.busy_s) > BACKGROUND_STUCK_S:
        problems.append(f"a direct write does not end since {busy_s:.0f} s")
    return problems


def ready(process: DaemonProcess) -> list[str]:
    """Return why the runtime's requests are not served; nothing if they are.

    A daemon on a cgroup v1 node is ready although it does direct writes only, or
    nothing at all: a roll-out to such a node must not wait for ever.
    """
    if process.withdrawn:
        return [WITHDRAWN]
    if process.waits:
        return [f"another process of nriplugin still serves: {process.waits}"]
    connection = process.lifecycle.connection
    if connection.since is None:
        return [f"not connected to the runtime: {connection.reason}"]
    return []
