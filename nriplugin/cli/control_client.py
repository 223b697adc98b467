"""The client of a daemon's control API, for `status`, `why`, `events` and `reload`.

grpcio is imported once a process is known to listen on the socket. Before that a plain
connection is tried, because its errors say what is wrong, and at once.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from google.protobuf.message import Message

from nriplugin.daemon.control_service import DEFAULT_CONTROL
from nriplugin.errors import ConfigError, ControlError, NoDaemon
from nriplugin.sockets import SCHEME, parse_address, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import grpc

ENV_CONTROL = "NRIPLUGIN_CONTROL"
SERVICE = "nriplugin.control.v1.Control"

# How long an answer may take. A daemon answers within milliseconds; a node under heavy
# load may take a thousand times as long.
PATIENCE_S = 10.0
CONNECT_S = 5.0

# `status --by pod` and `why` on a node with very many pods.
_MAX_BYTES = 64 * 1024 * 1024

_Answer = TypeVar("_Answer", bound=Message)


def add_control_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names the daemon."""
    parser.add_argument(
        "--control",
        metavar="ADDRESS",
        help=f"socket of the daemon (default: ${ENV_CONTROL}, or {DEFAULT_CONTROL})",
    )


def control_path(address: str | None) -> str:
    """Return the path of the socket that --control or the environment names.

    Raises:
        ConfigError: the address is none.
    """
    option = "--control"
    if address is None and os.environ.get(ENV_CONTROL):
        option, address = ENV_CONTROL, os.environ[ENV_CONTROL]
    return parse_address(option, address or DEFAULT_CONTROL)


def client_of(args: argparse.Namespace) -> ControlClient:
    """Return the client of the daemon that the command line or the environment names.

    Raises:
        ConfigError: the address is none.
    """
    return ControlClient(control_path(args.control))


class ControlClient:
    """Calls the daemon whose socket is at a path.

    All methods raise ControlError if no daemon answers or the daemon refuses, and
    ConfigError if what it was asked for is the user's mistake. Both have the daemon's
    words for it.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def call(
        self,
        method: str,
        request: Message,
        answer: type[_Answer],
        patience_s: float = PATIENCE_S,
    ) -> _Answer:
        """Call a method and return the answer."""
        with self._channel() as channel, self._errors():
            ask = channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            return ask(request, timeout=patience_s)

    def stream(
        self, method: str, request: Message, answer: type[_Answer]
    ) -> Iterator[_Answer]:
        """Call a method and return its answers as they come, until the daemon ends."""
        with self._channel() as channel, self._errors():
            ask = channel.unary_stream(
                f"/{SERVICE}/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            yield from ask(request)
        raise NoDaemon(self._ended())

    @contextmanager
    def _channel(self) -> Iterator[grpc.Channel]:
        self._try_to_connect()
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # this package prints errors
        try:
            import grpc  # late: it takes a tenth of a second
        except ImportError as exc:
            raise ConfigError(
                "grpcio is not installed, expected nriplugin[grpc]"
            ) from exc
        options = [("grpc.max_receive_message_length", _MAX_BYTES)]
        with grpc.insecure_channel(target_of(self._path), options=options) as channel:
            yield channel

    def _try_to_connect(self) -> None:
        """Find out whether a process listens on the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            tried.settimeout(CONNECT_S)
            try:
                tried.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
                raise NoDaemon(self._nobody()) from None
            except TimeoutError:
                raise ControlError(
                    f"the daemon at {SCHEME}{self._path} accepts no connection"
                ) from None
            except OSError as exc:
                if exc.errno in (errno.EACCES, errno.EPERM):
                    raise ControlError(
                        f"{SCHEME}{self._path}: permission denied; run this as root, "
                        "or as a member of the group that the daemon lets read"
                    ) from exc
                raise ControlError(
                    f"{SCHEME}{self._path}: {exc.strerror}, expected the socket of a "
                    "daemon"
                ) from exc

    def _nobody(self) -> str:
        return (
            f"no daemon answers at {SCHEME}{self._path}; start `nriplugin run` without "
            "`--control off`, or give both the same --control ADDRESS"
        )

    def _ended(self) -> str:
        return (
            f"the daemon at {SCHEME}{self._path} has ended the connection; if it runs, "
            "its log says why"
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn gRPC's errors into those of this package."""
        import grpc

        code_of = grpc.StatusCode
        mistakes = (code_of.INVALID_ARGUMENT, code_of.NOT_FOUND)
        try:
            yield
        except grpc.RpcError as exc:
            call = cast("grpc.Call", exc)
            code, text = call.code(), call.details() or "no reason given"
            if code in mistakes:
                raise ConfigError(text) from None
            if code is code_of.UNAVAILABLE or code is code_of.CANCELLED:
                raise NoDaemon(self._ended()) from exc
            if code is code_of.DEADLINE_EXCEEDED:
                text = f"the daemon at {SCHEME}{self._path} does not answer"
            elif code is code_of.UNIMPLEMENTED:
                text = (
                    f"the daemon at {SCHEME}{self._path} cannot do this: {text}; is it "
                    "of another version?"
                )
            raise ControlError(text) from exc
