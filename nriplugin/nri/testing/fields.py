"""The table of the fields that plugins can set, and how each field is merged.

`ADJUSTED` lists the fields of a ContainerAdjustment, `UPDATED` those of a
ContainerUpdate. The order is that of the Go library, because only the first of several
conflicts is reported. The path of a field is the same in a plugin's answer, in the
message that collects all answers, and in the container that the next plugin is shown.

Each merge function first enters the plugin as the owner, which fails the request if
the field has one, and then changes the messages.

Reference: pkg/adaptation/result.go of the Go library, 0.12.5.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.field_ownership import REMOVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from google.protobuf.message import Message

    from nriplugin.nri.testing.field_ownership import FieldOwnership

    Merge = Callable[["Overlay", "OwnedField"], None]


class Overlay(NamedTuple):
    """One plugin's answer, and the messages that it is laid over."""

    answer: Message
    # The merged answers of the plugins so far.
    collected: Message
    # The container that the next plugin is shown; None in an update.
    shown: Message | None
    ownership: FieldOwnership

    def value(self, field: OwnedField) -> Any:  # noqa: ANN401 - of any type
        """Return the value of a field in the plugin's answer."""
        return _get(self.answer, field.path)

    def targets(self, field: OwnedField) -> list[Any]:
        """Return the field in each message that the answer is laid over."""
        messages = [self.collected]
        if self.shown is not None and field.shown:
            messages.append(self.shown)
        return [_get(message, field.path) for message in messages]


class OwnedField(NamedTuple):
    """A field that a plugin can own."""

    name: nri.Field.ValueType
    path: str
    merge: Merge
    shown: bool = True  # whether the next plugin is shown the change


def lay_over(overlay: Overlay, fields: Iterable[OwnedField]) -> None:
    """Merge a plugin's answer with those of earlier plugins.

    Raises:
        RequestRejected: a field of the answer was set before.
    """
    for field in fields:
        if _is_set(overlay.answer, field.path):
            field.merge(overlay, field)


def _get(message: Any, path: str) -> Any:  # noqa: ANN401 - of any field's type
    for name in path.split("."):
        message = getattr(message, name)
    return message


def _is_set(message: Any, path: str) -> bool:  # noqa: ANN401 - any message
    """Whether a field is present; an empty string, list or map counts as absent."""
    for name in path.split("."):
        if message.DESCRIPTOR.fields_by_name[name].has_presence:
            if not message.HasField(name):
                return False
        elif not getattr(message, name):
            return False
        message = getattr(message, name)
    return True


def _key_of(marked: str) -> str:
    return marked.removeprefix(REMOVAL)


# Fields that have one owner.


def _set_message(overlay: Overlay, field: OwnedField) -> None:
    """Replace a message. A wrapper that holds a zero is a value like any other."""
    overlay.ownership.set_owner(field.name)
    for target in overlay.targets(field):
        target.SetInParent()
        target.CopyFrom(overlay.value(field))


def _set_text(overlay: Overlay, field: OwnedField) -> None:
    """Replace a string."""
    overlay.ownership.set_owner(field.name)
    parent, _, name = field.path.rpartition(".")
    for target in overlay.targets(field._replace(path=parent)):
        setattr(target, name, overlay.value(field))


def _set_args(overlay: Overlay, field: OwnedField) -> None:
    """Replace the command line. An empty first argument removes an earlier owner."""
    args = list(overlay.value(field))
    if not args[0]:
        overlay.ownership.clear_owner(field.name)
        del args[0]
    overlay.ownership.set_owner(field.name)
    for target in overlay.targets(field):
        target[:] = args


def _set_rdt(overlay: Overlay, field: OwnedField) -> None:
    """Replace parts of the RDT settings. `remove` first removes earlier owners."""
    given = overlay.value(field)
    (collected,) = overlay.targets(field)
    parts = {
        "clos_id": nri.RdtClosID,
        "schemata": nri.RdtSchemata,
        "enable_monitoring": nri.RdtEnableMonitoring,
    }
    if given.remove:
        for name in parts.values():
            overlay.ownership.clear_owner(name)
        collected.Clear()
        collected.remove = True
    for part, name in parts.items():
        if given.HasField(part):
            overlay.ownership.set_owner(name)
            getattr(collected, part).SetInParent()
            getattr(collected, part).CopyFrom(getattr(given, part))
            collected.remove = False


# Maps and lists, in which each key has an owner.


def _set_keys(overlay: Overlay, field: OwnedField) -> None:
    """Set keys of a map whose keys cannot be removed."""
    for key, value in overlay.value(field).items():
        overlay.ownership.set_owner(field.name, key)
        for target in overlay.targets(field):
            target[key] = value


def _set_or_remove_keys(overlay: Overlay, field: OwnedField) -> None:
    """Set keys of a map. `-key` removes a key; beside `key` it removes its owner."""
    given = overlay.value(field)
    removed = [key for key in given if key.startswith(REMOVAL)]
    for key in given.keys() - removed:
        if REMOVAL + key in removed:
            overlay.ownership.clear_owner(field.name, key)
        overlay.ownership.set_owner(field.name, key)
        for target in overlay.targets(field):
            _put(target, key, given[key])
    for key in removed:
        _put(overlay.targets(field)[0], key, type(given[key])())


def _put(target: Any, key: str, value: Any) -> None:  # noqa: ANN401 - any map
    if isinstance(value, str):
        target[key] = value
    else:
        target[key].CopyFrom(value)


def _append(overlay: Overlay, field: OwnedField, key: str) -> None:
    """Add entries to a list whose entries cannot be removed."""
    for entry in overlay.value(field):
        overlay.ownership.set_owner(field.name, getattr(entry, key))
        for target in overlay.targets(field):
            target.append(entry)


def _append_unowned(overlay: Overlay, field: OwnedField) -> None:
    """Add entries to a list that has no owners."""
    for target in overlay.targets(field):
        target.extend(overlay.value(field))


def _append_hooks(overlay: Overlay, field: OwnedField) -> None:
    """Add hooks. All plugins that add some own the field together."""
    if overlay.value(field).ListFields():
        overlay.ownership.add_owner(field.name)
    for target in overlay.targets(field):
        target.MergeFrom(overlay.value(field))


def _set_entries(
    overlay: Overlay, field: OwnedField, key: str, tell_removals: bool = False
) -> None:
    """Set entries of a list by key. `-key` removes an entry, or only its owner.

    With `tell_removals` the removals are also passed on to the runtime, as entries.
    """
    given = overlay.value(field)
    marked = [entry for entry in given if getattr(entry, key).startswith(REMOVAL)]
    added = [entry for entry in given if not getattr(entry, key).startswith(REMOVAL)]
    removed = {_key_of(getattr(entry, key)): entry for entry in marked}
    collected, shown = overlay.targets(field)
    for taken in removed.keys() & _keys(collected, key):
        overlay.ownership.clear_owner(field.name, taken)
    _discard(collected, key, removed)
    _discard(shown, key, {*removed, *_keys(added, key)})
    for entry in added:
        overlay.ownership.set_owner(field.name, getattr(entry, key))
        collected.append(entry)
        shown.append(_as_shown(entry))
    if tell_removals:
        collected.extend(removed[alone] for alone in removed.keys() - _keys(added, key))


def _set_namespaces(overlay: Overlay, field: OwnedField) -> None:
    """Set namespaces by type. `-type` removes one and is passed on to the runtime."""
    collected, shown = overlay.targets(field)
    by_type = {entry.type: entry for entry in shown}
    for entry in overlay.value(field):
        kind = _key_of(entry.type)
        overlay.ownership.set_owner(field.name, kind)
        by_type.pop(kind, None)
        if entry.type == kind:
            by_type[kind] = entry
        collected.append(entry)
    del shown[:]
    shown.extend(by_type.values())


def _keys(entries: Iterable[Any], key: str) -> list[str]:
    """Return the keys of entries; an entry of an environment may be `key=value`."""
    return [
        entry.partition("=")[0] if isinstance(entry, str) else getattr(entry, key)
        for entry in entries
    ]


def _discard(entries: Any, key: str, unwanted: Container[str]) -> None:  # noqa: ANN401
    keys = _keys(entries, key)
    for i in range(len(keys) - 1, -1, -1):
        if keys[i] in unwanted:
            del entries[i]


def _as_shown(entry: Any) -> Any:  # noqa: ANN401 - of any list
    return f"{entry.key}={entry.value}" if isinstance(entry, nri.KeyValue) else entry


_MEMORY = {
    "limit": nri.MemLimit,
    "reservation": nri.MemReservation,
    "swap": nri.MemSwapLimit,
    "kernel": nri.MemKernelLimit,
    "kernel_tcp": nri.MemTCPLimit,
    "swappiness": nri.MemSwappiness,
    "disable_oom_killer": nri.MemDisableOomKiller,
    "use_hierarchy": nri.MemUseHierarchy,
}
_CPU = {
    "shares": nri.CPUShares,
    "quota": nri.CPUQuota,
    "period": nri.CPUPeriod,
    "realtime_runtime": nri.CPURealtimeRuntime,
    "realtime_period": nri.CPURealtimePeriod,
}

_RESOURCES = "linux.resources"
_AMOUNTS = (
    *(
        OwnedField(f, f"{_RESOURCES}.memory.{n}", _set_message)
        for n, f in _MEMORY.items()
    ),
    *(OwnedField(f, f"{_RESOURCES}.cpu.{n}", _set_message) for n, f in _CPU.items()),
    OwnedField(nri.CPUSetCPUs, f"{_RESOURCES}.cpu.cpus", _set_text),
    OwnedField(nri.CPUSetMems, f"{_RESOURCES}.cpu.mems", _set_text),
    OwnedField(
        nri.HugepageLimits,
        f"{_RESOURCES}.hugepage_limits",
        partial(_append, key="page_size"),
    ),
)
_FILES_AND_CLASSES = (
    OwnedField(nri.CgroupsUnified, f"{_RESOURCES}.unified", _set_keys),
    OwnedField(nri.BlockioClass, f"{_RESOURCES}.blockio_class", _set_message),
    OwnedField(nri.RdtClass, f"{_RESOURCES}.rdt_class", _set_message),
)

UPDATED = (*_AMOUNTS, *_FILES_AND_CLASSES)

_ENTRIES_BY_PATH = partial(_set_entries, key="path")
_MOUNTS = partial(_set_entries, key="destination", tell_removals=True)

ADJUSTED = (
    OwnedField(nri.Annotations, "annotations", _set_or_remove_keys),
    OwnedField(nri.Mounts, "mounts", _MOUNTS),
    OwnedField(nri.Env, "env", partial(_set_entries, key="key")),
    OwnedField(nri.Args, "args", _set_args),
    OwnedField(nri.OciHooks, "hooks", _append_hooks),
    OwnedField(nri.Devices, "linux.devices", _ENTRIES_BY_PATH),
    *_AMOUNTS,
    OwnedField(nri.Devices, f"{_RESOURCES}.devices", _append_unowned),
    *_FILES_AND_CLASSES,
    OwnedField(nri.PidsLimit, f"{_RESOURCES}.pids", _set_message),
    OwnedField(nri.CgroupsPath, "linux.cgroups_path", _set_text),
    OwnedField(nri.OomScoreAdj, "linux.oom_score_adj", _set_message),
    OwnedField(nri.IoPriority, "linux.io_priority", _set_message),
    OwnedField(nri.SeccompPolicy, "linux.seccomp_policy", _set_message),
    OwnedField(nri.Namespace, "linux.namespaces", _set_namespaces),
    OwnedField(nri.Sysctl, "linux.sysctl", _set_or_remove_keys),
    OwnedField(nri.LinuxNetDevices, "linux.net_devices", _set_or_remove_keys),
    OwnedField(nri.LinuxSched, "linux.scheduler", _set_message),
    OwnedField(nri.RdtClosID, "linux.rdt", _set_rdt, shown=False),
    OwnedField(nri.MemoryPolicy, "linux.memory_policy", _set_message, shown=False),
    OwnedField(nri.Rlimits, "rlimits", partial(_append, key="type")),
    OwnedField(
        nri.CdiDevices, "CDI_devices", partial(_append, key="name"), shown=False
    ),
)
