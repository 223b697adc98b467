"""Serves the control API of a daemon on a unix socket.

grpcio is imported only if the service is on: with `--control off` it stays out of the
process, with the memory and the threads that it takes.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError
from nriplugin.sockets import AddressTaken, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nriplugin.daemon.control.listener import ControlListener
    from nriplugin.daemon.process import DaemonProcess

_log = logging.getLogger(__name__)

DEFAULT_CONTROL = "unix:///run/nriplugin/nriplugin.sock"
OFF = "off"
SERVICE = "control API"  # in `DaemonProcess.addresses`
OPTION = "--control"
GROUP_OPTION = "--control-group"


@contextmanager
def serving_control(
    process: DaemonProcess, address: str | None, group: str | None = None
) -> Iterator[None]:
    """Serve within the `with` block, unless the address is `off`.

    Without an address the default one is served if that is possible. A socket that
    another process serves is waited for.

    Args:
        process: the daemon.
        address: of the socket, `off`, or None if the user gave none.
        group: the name or number of the group that may read, if there is one.

    Raises:
        ConfigError: the user gave an address or a group that cannot be served.
    """
    if address == OFF:
        if group is not None:
            raise ConfigError(f"{GROUP_OPTION}: {group!r}, expected {OPTION} to be on")
        process.addresses[SERVICE] = OFF
        yield
        return
    listener = None
    try:
        listener = _listener(process, address or DEFAULT_CONTROL, group)
        _open(listener)
        listener.start()
    except ConfigError as exc:
        if address is not None or group is not None:
            raise
        process.addresses[SERVICE] = f"not served: {exc}"
        _log.warning("the control API is off: %s", exc)
        listener = None
    except Exception:  # noqa: BLE001 - a defect must not keep the daemon from serving
        process.addresses[SERVICE] = "not served: the log says why"
        _log.exception("the control API is off")
        listener = None
    try:
        yield
    finally:
        if listener is not None:
            listener.close()


def _open(listener: ControlListener) -> None:
    """Open a listener, or leave it to its thread to try again.

    Raises:
        ConfigError: the socket cannot be made.
    """
    try:
        listener.open()
    except AddressTaken as exc:
        _log.warning("%s: tried again until it is free", exc)
    except BaseException:
        listener.close()
        raise
    else:
        _log.info("control API: %s", listener.path)


def _listener(
    process: DaemonProcess, address: str, group: str | None
) -> ControlListener:
    """Return the listener of an address, whose directory is made if it is missing.

    Raises:
        ConfigError: the address or the group is wrong, or grpcio is not installed.
    """
    path = parse_address(OPTION, address)
    try:
        _import_grpc()
        from nriplugin.daemon.control.server import ControlServer
    except ImportError as exc:
        raise ConfigError(
            f"{OPTION}: grpcio is not installed, expected nriplugin[grpc]"
        ) from exc
    from nriplugin.daemon.control.listener import ControlListener
    from nriplugin.daemon.control.peers import group_id
    from nriplugin.daemon.control.socket_files import make_directory_of

    readers = None if group is None else group_id(GROUP_OPTION, group)
    try:
        make_directory_of(path)
    except OSError as exc:
        raise ConfigError(
            f"{OPTION}: {os.path.dirname(path)}: {exc.strerror}, expected a directory "
            "that is there or can be made"
        ) from exc

    def opened() -> None:
        process.addresses[SERVICE] = address

    process.addresses[SERVICE] = f"not served: {address} is not free"
    return ControlListener(
        *(OPTION, path, readers),
        lambda access: ControlServer(process, access),
        opened=opened,
    )


def _import_grpc() -> None:
    """Import grpcio without OpenSSL, which would take 4 MB in every daemon.

    grpcio imports asyncio, and asyncio imports the module `ssl` if there is one. The
    daemon uses neither; grpcio brings its own TLS for those who use it.

    Raises:
        ImportError: grpcio is not installed.
    """
    if "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["ssl"] = None  # makes an import of it fail, as where Python has none
    try:
        import grpc  # noqa: F401 - to be loaded now
    finally:
        del modules["ssl"]
