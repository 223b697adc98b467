"""`SystemdWriter`: sets unit properties, where systemd owns the kubelet's cgroups.

A value that is written to the file of a slice or scope directly lasts until the next
`systemctl daemon-reload`. So a file that has a unit property is set through it, at run
time only: the property is gone with the unit. All other files are written directly by
the executor, and so is every file if there is no bus or systemd refuses; the outcome
then has the reason.

Four things about systemd decide the code below:

* Setting one property makes systemd write *all* files of the same controller from what
  it knows about the unit, and `memory.oom.group` in any case. This undoes what the
  runtime wrote directly, such as a `memory.swap.max` of 0. So those files are read
  before and put back afterwards.
* systemd replies first and writes the files in the next turn of its event loop. A
  second call, which it can only answer after that turn, makes sure that the files are
  written before they are read.
* A value that the kernel refuses stays in the unit, and systemd would write it again at
  each `daemon-reload`. So the unit is then given what the file holds.
* On cgroup v1 the files have other properties, which systemd no longer supports, so v1
  is written directly.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from nriplugin.cgroup.systemd.properties import settled, unit_properties
from nriplugin.cgroup.writing.kernel_text import putting_back, same, writes
from nriplugin.cgroup_names import SCOPE, SLICE, expand_slice
from nriplugin.errors import CgroupError, ConfigError, NRIPluginError

if TYPE_CHECKING:
    from nriplugin.cgroup.systemd.properties import Property
    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

KUBE_ROOT = "/kubepods.slice"

SYSTEMD = "org.freedesktop.systemd1"
_OBJECT = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_PEER = "org.freedesktop.DBus.Peer"

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,249}\.(?:scope|slice)")

# Controller -> file -> what systemd writes to it if the unit lacks the property.
_DEFAULTS: dict[str, dict[str, tuple[str, ...]]] = {
    "cpu": {
        "cpu.idle": ("0",),
        "cpu.weight": ("100",),
        "cpu.max": ("max",),
    },
    "cpuset": {"cpuset.cpus": ("",), "cpuset.mems": ("",)},
    "io": {"io.weight": ("default 100",), "io.bfq.weight": ("default 100", "100")},
    "memory": {
        "memory.min": ("0",),
        "memory.low": ("0",),
        "memory.high": ("max",),
        "memory.max": ("max",),
        "memory.swap.max": ("max",),
        "memory.zswap.max": ("max",),
        "memory.oom.group": ("0",),
        "memory.zswap.writeback": ("1",),
    },
}
# systemd writes this file with every property, of whichever controller.
_ALWAYS = "memory.oom.group"
# The two files of the property CPUWeight: setting one sets the other.
_WEIGHT = ("cpu.weight", "cpu.idle")


class Caller(Protocol):
    """Calls methods on the system bus (`dbus.Bus` does)."""

    def call(
        self,
        destination: str,
        path: str,
        interface: str,
        method: str,
        signature: str | None = None,
        body: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """Return the values of the reply; raises NRIPluginError."""
        ...


class SystemdWriter:
    """Sets unit properties; `kube_root` is the slice of all pods."""

    def __init__(self, bus: Caller, kube_root: str = KUBE_ROOT) -> None:
        self._bus = bus
        self._kube_root = kube_root

    def write(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> bool | str:
        """Take a write over, if the cgroup is a unit and the file has a property.

        Returns:
            True if systemd set it. False if the file is not for systemd. Else one line
            that says why systemd should have set it and did not.
        """
        unit = unit_of(cgroup, self._kube_root)
        if tree.version != 2 or unit is None:
            return False
        file, path = resource.file, f"{cgroup}/{resource.file}"
        try:
            properties = unit_properties(file, content, lambda: tree.files.read(path))
        except CgroupError:
            return False  # the direct write will say what is wrong with the file
        if properties is None:
            return False
        held, others = _read(tree, path), _snapshot(tree, cgroup, file)
        earlier = _earlier(tree, cgroup, file, content, held)
        try:
            self._set(unit, properties)
        except NRIPluginError as exc:
            # A call without a reply may have been carried out all the same.
            undone = _put_back(tree, cgroup, others)
            return f"systemd, {unit}: {exc}{undone and '; '}{undone}"
        undone = _put_back(tree, cgroup, others)
        now = _read(tree, path)
        if now != held or same(file, settled(file, content), now or ""):
            return undone or True
        reason = f"systemd, {unit}: it took {content!r}, but {file} is {now!r} still"
        if held is None:
            return reason
        kept = self._withdraw(unit, earlier, held)
        _put_back(tree, cgroup, others)
        _write_again(tree, path, held)
        return f"{reason}{kept and '; '}{kept}"

    def _withdraw(self, unit: str, earlier: list[Property] | None, held: str) -> str:
        """Give the unit what the file holds, after the kernel refused a value.

        systemd would write the refused value again at the next `daemon-reload`.

        Returns:
            Why the unit still has the refused value; empty if it has not.
        """
        if earlier is None:
            return f"the unit keeps it, because no property says {held!r}"
        try:
            self._set(unit, earlier)
        except NRIPluginError as exc:
            return f"the unit keeps it: {exc}"
        return ""

    def _set(self, unit: str, properties: list[Property]) -> None:
        """Set properties, and wait until systemd has written their files."""
        body = (unit, True, properties)
        self._call(_MANAGER, "SetUnitProperties", "sba(sv)", body)
        self._call(_PEER, "Ping")

    def settled(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> tuple[str, str]:
        """Return what the file holds after the next `daemon-reload`: quotas in steps.

        Any other quota would change at that moment.
        """
        if tree.version != 2 or unit_of(cgroup, self._kube_root) is None:
            return content, ""
        kept = settled(resource.file, content)
        if kept == content:
            return content, ""
        return kept, f"systemd keeps quotas in steps of 1 %: {content!r} is {kept!r}"

    def _call(
        self,
        interface: str,
        method: str,
        signature: str | None = None,
        body: tuple[Any, ...] = (),
    ) -> None:
        self._bus.call(SYSTEMD, _OBJECT, interface, method, signature, body)


def unit_of(cgroup: str, kube_root: str = KUBE_ROOT) -> str | None:
    """Return the unit that a cgroup is, or None if it is not one of the kubelet's.

    The path has to be the one that systemd gives a unit of that name: a container that
    may make cgroups can give them the name of any unit.
    """
    if cgroup != kube_root and not cgroup.startswith(f"{kube_root}/"):
        return None
    parent, _, directory = cgroup.rpartition("/")
    # systemd puts a _ before names that could be taken for the kernel's files.
    unit = directory.removeprefix("_")
    if not _UNIT.fullmatch(unit):
        return None
    if unit.endswith(SLICE):
        return unit if _slice_path(unit) == cgroup else None
    assert unit.endswith(SCOPE)
    return unit if _slice_path(parent.rpartition("/")[2]) == parent else None


def _slice_path(name: str) -> str | None:
    try:
        return expand_slice(name)
    except ConfigError:
        return None


def _earlier(
    tree: Tree, cgroup: str, file: str, content: str, held: str | None
) -> list[Property] | None:
    """Return the properties that say what a file holds; None where none do."""
    if held is None:
        return None
    if file in _WEIGHT:
        # What the weight's file of an idle cgroup shows was never set.
        weight = _read(tree, f"{cgroup}/cpu.weight") or ""
        idle = _read(tree, f"{cgroup}/cpu.idle") == "1"
        file, text = ("cpu.idle", "1") if idle else ("cpu.weight", weight)
    else:
        text = putting_back(file, held, [content])
    return unit_properties(file, text, lambda: held)


def _write_again(tree: Tree, path: str, held: str) -> None:
    """Write what a file held again, if systemd has rounded it."""
    with suppress(CgroupError):
        if tree.files.read(path).strip() != held:
            for text in writes(path.rpartition("/")[2], held):
                tree.files.write(path, text)


def _snapshot(tree: Tree, cgroup: str, file: str) -> dict[str, str]:
    """Return what the other files hold that systemd is going to write."""
    others = {}
    names = (*_DEFAULTS.get(file.partition(".")[0], ()), _ALWAYS)
    for name in dict.fromkeys(names):
        if name == file or (name in _WEIGHT and file in _WEIGHT):
            continue
        content = _read(tree, f"{cgroup}/{name}")
        if content is not None:
            others[name] = content
    if others.get("cpu.idle") == "1":
        others.pop("cpu.weight", None)  # an idle cgroup takes no weight
    return others


def _put_back(tree: Tree, cgroup: str, before: dict[str, str]) -> str:
    """Write again what systemd undid; return what failed, in one line.

    Only files that hold systemd's default now are written: another value was set by
    another program in the meantime.
    """
    failures = []
    for name, content in before.items():
        path = f"{cgroup}/{name}"
        now = _read(tree, path)
        if now is None or now == content:
            continue
        defaults = _DEFAULTS[name.partition(".")[0]][name]
        if (now.partition(" ")[0] if name == "cpu.max" else now) not in defaults:
            continue
        try:
            for line in content.splitlines():
                tree.files.write(path, line)
        except CgroupError as exc:
            failures.append(f"systemd undid {name} = {content!r}: {exc}")
    return "; ".join(failures)


def _read(tree: Tree, path: str) -> str | None:
    try:
        return tree.files.read(path).strip()
    except CgroupError:
        return None
