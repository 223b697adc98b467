"""What the processes behind the sockets answer: a daemon of ours, and CRI runtimes.

All are asked at the same time and have a second each. grpcio is optional: without it
nobody is asked, and the checks say only whether a process listens.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.daemon.doctor.cri_sockets import is_socket
from nriplugin.errors import NRIPluginError
from nriplugin.sockets import target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.api import control_pb2, cri_pb2

TIMEOUT_S = 1

# A connection that the kernel accepted, the reason why there is none, or no socket.
LISTENING = "a process listens"
NO_GRPC = "grpcio is not installed"


class Answers(NamedTuple):
    """The answers; a socket that did not answer is in `silent` with the reason."""

    status: control_pb2.StatusResponse | None
    runtimes: dict[str, cri_pb2.VersionResponse]  # by socket
    silent: dict[str, str]


def dial(path: str) -> str:
    """Connect to a unix socket and close it; return LISTENING or why it failed.

    The kernel answers at once: it queues the connection, or refuses it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return "the queue of connections is full, so its process hangs"
        except ConnectionRefusedError:
            return "no process listens on it"
        except OSError as exc:
            return exc.strerror or str(exc)
    return LISTENING


def ask(control: str | None, cri_sockets: Sequence[str]) -> Answers:
    """Ask the daemon and the runtimes.

    Args:
        control: the path of the daemon's control socket; None if there is none.
        cri_sockets: the paths of CRI sockets.
    """
    silent: dict[str, str] = {}
    open_sockets = []
    for path in [*([control] if control else []), *cri_sockets]:
        if is_socket(path):
            state = dial(path)
            if state == LISTENING:
                open_sockets.append(path)
            else:
                silent[path] = state
    if not open_sockets:
        return Answers(None, {}, silent)
    try:
        import grpc  # noqa: F401 - imported on this thread, before it is used on others
    except ImportError:
        silent |= dict.fromkeys(open_sockets, NO_GRPC)
        return Answers(None, {}, silent)
    status, runtimes = None, {}
    with ThreadPoolExecutor(len(open_sockets)) as pool:
        of_control = pool.submit(_status, control) if control in open_sockets else None
        others = [path for path in open_sockets if path != control]
        of_runtimes = {path: pool.submit(_version, path) for path in others}
        if of_control is not None and control is not None:
            try:
                status = of_control.result()
            except (NRIPluginError, TimeoutError) as exc:
                silent[control] = str(exc)
        for path, future in of_runtimes.items():
            try:
                runtimes[path] = future.result()
            except (NRIPluginError, TimeoutError) as exc:
                silent[path] = str(exc)
    return Answers(status, runtimes, silent)


def _status(path: str | None) -> control_pb2.StatusResponse:
    import grpc

    from nriplugin.api import control_pb2

    options = (("grpc.default_authority", "localhost"),)
    with closing(grpc.insecure_channel(target_of(path or ""), options)) as channel:
        call = channel.unary_unary(
            "/nriplugin.control.v1.Control/Status",
            request_serializer=control_pb2.StatusRequest.SerializeToString,
            response_deserializer=control_pb2.StatusResponse.FromString,
        )
        try:
            status: control_pb2.StatusResponse = call(
                control_pb2.StatusRequest(), timeout=TIMEOUT_S
            )
        except grpc.RpcError as exc:
            raise NRIPluginError(_reason(exc)) from exc
    return status


def _reason(error: Exception) -> str:
    """Return in one line what a failed call was answered."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if code is None or details is None:
        return " ".join(str(error).split())
    return f"{code().name}: {' '.join(str(details()).split())}"


def _version(path: str) -> cri_pb2.VersionResponse:
    from nriplugin.doors.cri.client import RuntimeClient

    with RuntimeClient(path, TIMEOUT_S) as client:
        return client.version()
