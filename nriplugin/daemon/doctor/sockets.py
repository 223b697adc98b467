"""The sockets: of NRI, of a running daemon, and of the runtime's CRI."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from nriplugin import __version__
from nriplugin.daemon.doctor.answers import LISTENING, NO_GRPC
from nriplugin.daemon.doctor.finding import note, ok, problem, warning
from nriplugin.daemon.doctor.ways import other_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

INSTALL_GRPC = (
    "Install it where nriplugin is: "
    "pip install grpcio grpcio-health-checking grpcio-reflection."
)


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say which sockets are there, and who answers."""
    yield _nri_socket(host)
    yield from _control_socket(host)
    yield from _cri_sockets(host)


def _nri_socket(host: ExaminedHost) -> CheckFinding:
    path, state = host.options.nri_socket, host.nri_state
    if state == LISTENING:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        return ok("nri-socket", f"The runtime listens on {path} (mode {mode:04o}).")
    text = f"The NRI socket {path} cannot be used: {state}."
    other = other_way(host)
    if other:
        return note(
            "nri-socket", text, f"Nothing to do, because {other} needs no NRI socket."
        )
    status = host.answers.status
    if status is not None and status.door == "nri" and status.runtime.connected:
        return note(
            "nri-socket",
            text,
            f"Give the socket that process {status.pid} uses with --nri-socket: it is "
            "connected to the runtime.",
        )
    if state == "it does not exist":
        advice = (
            "Turn NRI on in the runtime's configuration (see the finding nri-enabled) "
            "and restart the runtime. If its socket is elsewhere, give --nri-socket. "
            "A pod needs the directory of the socket as a hostPath volume."
        )
    elif state == "this user may not write to it":
        advice = "Run nriplugin as root: only root may use the runtime's socket."
    elif state == "it is not a socket":
        advice = "Give the path of the runtime's NRI socket with --nri-socket."
    else:
        advice = (
            "Restart the runtime: systemctl restart containerd, or crio. In a pod, "
            "mount the directory of the socket and not the socket itself."
        )
    return problem("nri-socket", text, advice)


def _control_socket(host: ExaminedHost) -> Iterator[CheckFinding]:
    path, status = host.options.control, host.answers.status
    if status is not None:
        yield from _daemon(host)
        return
    silent = host.answers.silent.get(path or "")
    running = [one for processes in host.daemons.values() for one in processes]
    if path is None:
        yield note(
            "control-socket",
            "No daemon was asked, because of --control off.",
            "Leave out --control to ask a running daemon.",
        )
    elif silent == NO_GRPC:
        yield note(
            "control-socket",
            f"A process listens on the control socket {path}, but grpcio is not "
            "installed here, so it cannot be asked for its state.",
            INSTALL_GRPC,
        )
    elif silent is not None:
        yield warning(
            "control-socket",
            f"The control socket {path} does not answer: {silent}.",
            "Look at the daemon's log: journalctl -u nriplugin, or kubectl logs. "
            "Restart the daemon if it hangs.",
        )
    elif running:
        yield note(
            "control-socket",
            f"There is no control socket {path}, although nriplugin runs as process "
            f"{running[0].pid}.",
            "Give the daemon's own --control, or run doctor in the daemon's pod. "
            "The daemon serves the socket unless it was started with --control off "
            "or without grpcio.",
        )
    else:
        yield note(
            "control-socket",
            f"No daemon of nriplugin is running: there is no control socket {path}.",
            "Start it: systemctl enable --now nriplugin, or deploy the DaemonSet.",
        )


def _daemon(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say how the daemon is that answers."""
    status = host.answers.status
    assert status is not None
    door = {"nri": "run", "cri": "cri-proxy"}.get(status.door, status.door)
    text = (
        f"`nriplugin {door}` {status.version} answers on {host.options.control} as "
        f"process {status.pid}."
    )
    if status.version != __version__:
        yield warning(
            "control-socket",
            f"{text} This command has version {__version__}.",
            "Restart the daemon after an upgrade: systemctl restart nriplugin. Or run "
            "doctor from the same installation or image as the daemon.",
        )
    else:
        yield ok("control-socket", text)
    if status.healthy and status.ready and not status.withdrawn:
        yield ok("daemon", "The daemon is healthy, registered and synchronized.")
        return
    reasons = "; ".join(status.problems) or "it gave no reason"
    if status.withdrawn:
        reasons = "`nriplugin withdraw` has ended its decisions"
    state = "not ready" if status.healthy else "not healthy"
    yield problem(
        "daemon",
        f"The daemon is {state}: {reasons}.",
        "See `nriplugin status` and the daemon's log. A restart ends a withdrawal.",
    )


def _cri_sockets(host: ExaminedHost) -> Iterator[CheckFinding]:
    if not host.cri_sockets:
        yield note(
            "cri-socket",
            "No CRI socket of containerd or CRI-O is to be seen below "
            f"{host.node.host_root}.",
            "Nothing to do if the runtime is another one, or if this is a pod that "
            "does not have the node's /run; else start the runtime.",
        )
    for path, here in host.cri_sockets.items():
        answer = host.answers.runtimes.get(here)
        silent = host.answers.silent.get(here)
        if answer is not None:
            yield ok(
                "cri-socket",
                f"{answer.runtime_name} {answer.runtime_version} answers on {path}.",
            )
        elif silent == NO_GRPC:
            yield note(
                "cri-socket",
                f"A process listens on {path}; without grpcio it cannot be asked for "
                "its version.",
                INSTALL_GRPC,
            )
        else:
            yield warning(
                "cri-socket",
                f"The CRI socket {path} does not answer: {silent}.",
                "Start or restart the runtime: systemctl restart containerd, or crio.",
            )
