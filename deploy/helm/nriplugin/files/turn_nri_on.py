"""Turns NRI on in the configuration of containerd or CRI-O, and restarts the runtime.

The chart runs this in an init container if nri.runtime.patchConfig is true. If the NRI
socket answers, nothing is changed. If the runtime does not come back with NRI, its
configuration is put back and it is restarted once more. Running containers go on.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60
CONTAINERD = "etc/containerd/config.toml"
# CRI-O reads the files of this directory in the order of their names.
CRIO = "etc/crio/crio.conf.d/99-nriplugin.conf"
# What the configuration was when it did not help to turn NRI on: kubelet runs a failed
# init container again and again, and each try would restart the runtime twice. CRI-O
# would read the file if it were beside its configuration.
FAILED = {
    "containerd.service": "etc/containerd/nriplugin-failed",
    "crio.service": "etc/crio/nriplugin-failed",
}
CRIO_TEXT = "# Written by nriplugin's init container.\n[crio.nri]\nenable_nri = true\n"
SECTION = "io.containerd.nri.v1.nri"
HEADER = re.compile(rf"""\s*\[\s*plugins\s*\.\s*(['"]){re.escape(SECTION)}\1\s*\]""")
SETTING = re.compile(r"\s*disable\s*=")


class Failure(Exception):
    """NRI cannot be turned on; the text says why."""


class Services(Protocol):
    """The services of the node."""

    def is_active(self, unit: str) -> bool:
        """Return whether a service runs."""

    def restart(self, unit: str) -> None:
        """Have a service restarted."""


def containerd_with_nri(text: str) -> str:
    """Return a configuration of containerd with NRI on, otherwise as it was."""
    before = _parsed(text)
    if not text.strip():
        text = "version = 2\n"
    elif before.get("version", 1) < 2:
        raise Failure("version: 1 or none, expected a configuration of version 2 or 3")
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines) if HEADER.match(line)]
    if headers:
        first = headers[0] + 1
        section = _section(lines, first)
        found = [number for number in section if SETTING.match(lines[number])]
        if found:
            lines[found[0]] = "disable = false"
        else:
            lines.insert(first, "disable = false")
    else:
        lines += ["", f"[plugins.'{SECTION}']", "disable = false"]
    changed = "\n".join(lines) + "\n"
    _check(before, _parsed(changed))
    return changed


def _section(lines: list[str], first: int) -> range:
    """Return the numbers of the lines from `first` up to the next section."""
    for number in range(first, len(lines)):
        if lines[number].lstrip().startswith("["):
            return range(first, number)
    return range(first, len(lines))


def _check(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Fail unless NRI is on and everything else is as it was."""
    changed = after["plugins"][SECTION].pop("disable")
    before.get("plugins", {}).get(SECTION, {}).pop("disable", None)
    before.setdefault("version", after["version"])
    before.setdefault("plugins", {}).setdefault(SECTION, {})
    if changed is not False or before != after:
        raise Failure(f"{CONTAINERD}: the section of NRI is not where it was expected")


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise Failure(f"{CONTAINERD}: {exc}") from exc


def turn_on(
    host: Path,
    services: Services,
    answers: Callable[[], bool],
    wait: Callable[[Callable[[], bool]], bool],
) -> str:
    """Turn NRI on; return what was done."""
    unit, path = _runtime(host, services)
    before = path.read_text() if path.exists() else None
    failed = host / FAILED[unit]
    if failed.exists() and failed.read_text() == (before or ""):
        raise Failure(
            f"{unit} had no NRI socket with this configuration, and is not restarted "
            f"again; remove {failed.relative_to(host)} on the node to have it tried"
        )
    ours = unit == "crio.service"
    after = CRIO_TEXT if ours else containerd_with_nri(before or "")
    if before is not None:
        _replace(path.with_name(path.name + ".before-nriplugin"), before)
    _replace(path, after)
    services.restart(unit)
    if wait(answers):
        failed.unlink(missing_ok=True)
        return f"NRI is on: wrote {path} and restarted {unit}"
    if before is None:
        path.unlink()
    else:
        _replace(path, before)
    _replace(failed, before or "")
    services.restart(unit)
    raise Failure(
        f"{unit}: no NRI socket {PATIENCE_S} s after its restart; {path} is as it was"
    )


def _runtime(host: Path, services: Services) -> tuple[str, Path]:
    for unit, path in (("crio.service", CRIO), ("containerd.service", CONTAINERD)):
        if services.is_active(unit):
            return unit, host / path
    raise Failure(
        "neither crio.service nor containerd.service runs: turn NRI on by hand, for "
        "k3s and RKE2 in their template of containerd's configuration"
    )


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole, so that the runtime never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        new.chmod(path.stat().st_mode & 0o777)
    else:
        new.chmod(0o644)
    new.rename(path)


class Systemd:
    """The services of a node whose system bus is mounted."""

    def __init__(self, host: Path) -> None:
        from jeepney import DBusAddress
        from jeepney.io.blocking import open_dbus_connection

        bus = host / "run/dbus/system_bus_socket"
        try:
            self._connection = open_dbus_connection(bus=f"unix:path={bus}")
        except OSError as exc:
            raise Failure(f"{bus}: {exc.strerror}, expected systemd's bus") from exc
        self._manager = DBusAddress(
            "/org/freedesktop/systemd1",
            bus_name="org.freedesktop.systemd1",
            interface="org.freedesktop.systemd1.Manager",
        )

    def is_active(self, unit: str) -> bool:
        """Return whether a service runs."""
        listed = self._call("ListUnitsByNames", "as", ([unit],))
        return any(each[3] == "active" for each in listed)

    def restart(self, unit: str) -> None:
        """Have a service restarted."""
        self._call("RestartUnit", "ss", (unit, "replace"))

    def _call(self, method: str, signature: str, body: tuple[Any, ...]) -> Any:  # noqa: ANN401
        from jeepney import MessageType, new_method_call

        message = new_method_call(self._manager, method, signature, body)
        reply = self._connection.send_and_get_reply(message, timeout=30)
        if reply.header.message_type is MessageType.error:
            raise Failure(f"systemd: {method}: {reply.body}")
        return reply.body[0]


def is_served(path: str) -> bool:
    """Return whether something listens on a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def wait_until(condition: Callable[[], bool]) -> bool:
    """Return whether a condition comes true in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def main() -> int:
    """Turn NRI on; return 1 if that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True, help="where NRI is served")
    parser.add_argument("--host-root", required=True, type=Path, metavar="DIR")
    args = parser.parse_args()

    def answers() -> bool:
        return is_served(args.socket)

    try:
        # Before the bus is looked for, which a node without systemd does not have.
        done = (
            "the NRI socket answers, nothing to do"
            if answers()
            else turn_on(args.host_root, Systemd(args.host_root), answers, wait_until)
        )
    except (Failure, OSError) as exc:
        sys.stderr.write(f"turn-nri-on: {exc}\n")
        return 1
    sys.stderr.write(f"turn-nri-on: {done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
