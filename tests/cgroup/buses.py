"""A real message bus for tests, with a program on it that answers as systemd does."""

from __future__ import annotations

import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from jeepney import (
    HeaderFields,
    MessageType,
    message_bus,
    new_error,
    new_method_return,
)
from jeepney.io.blocking import DBusConnection, Proxy, prep_socket
from support.needs import need

from nriplugin.cgroup.systemd.units import SYSTEMD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

_CONFIG = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
    <allow user="*"/>
  </policy>
</busconfig>
"""

Properties = dict[str, Any]


class MessageBus:
    """A `dbus-daemon` on a socket in a directory; it can be stopped and started."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("dbus-daemon") is None:
            need("dbus", "no dbus-daemon on PATH (Debian: dbus-daemon)")
        self.path = str(directory / "bus")
        self._config = directory / "bus.conf"
        self._config.write_text(_CONFIG.format(path=self.path))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens."""
        self._process = subprocess.Popen(
            [
                "dbus-daemon",
                f"--config-file={self._config}",
                "--nofork",
                "--nopidfile",
                "--print-address",
            ],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def stop(self) -> None:
        """End it, and with it every connection."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class FakeSystemd:
    """Has systemd's name on a bus, and records which properties units were given.

    As in systemd, files are written after the answer, in the next turn: `realise` is
    called with a unit and its properties before the next message is looked at.
    """

    def __init__(
        self,
        path: str,
        realise: Callable[[str, Properties], None] = lambda unit, properties: None,
    ) -> None:
        self.calls: list[tuple[str, bool, Properties]] = []
        self.refusals: dict[str, tuple[str, str]] = {}
        self._realise = realise
        self._stopping = False
        self._connection = DBusConnection(prep_socket(path))
        Proxy(message_bus, self._connection).RequestName(SYSTEMD)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        """Leave the bus."""
        self._stopping = True
        self._thread.join()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self) -> None:
        while not self._stopping:
            try:
                message = self._connection.receive(timeout=0.05)
            except TimeoutError:
                continue
            except ConnectionError:
                return  # the bus has gone
            if message.header.message_type is MessageType.method_call:
                self._answer(message)

    def _answer(self, message: Any) -> None:
        fields = message.header.fields
        if fields[HeaderFields.member] == "Ping":
            self._connection.send(new_method_return(message))
            return
        assert fields[HeaderFields.member] == "SetUnitProperties"
        assert fields[HeaderFields.signature] == "sba(sv)"
        unit, runtime, pairs = message.body
        if unit in self.refusals:
            name, text = self.refusals[unit]
            self._connection.send(new_error(message, name, "s", (text,)))
            return
        properties = {name: value for name, (_, value) in pairs}
        self.calls.append((unit, runtime, properties))
        self._connection.send(new_method_return(message))
        self._realise(unit, properties)
