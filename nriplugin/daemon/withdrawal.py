"""Ends what nriplugin does on a node, while its process goes on: `nriplugin withdraw`.

Three things happen. Decisions end: a new container gets no values. Every direct write
is put back, by the journal. And the operator is told which containers still have keys
of nriplugin's in their specification, which nobody but the runtime can take out.

As long as the process runs, a resize of such a container is still answered: with what
follows from kubelet's new numbers, and with the end of all other values, as after a
reload that turns every handler off. The runtime would otherwise write the old keys over
the new numbers. When the process is gone, the runtime does just that; `at_resize` says
what it means for each container. A container that is created anew has no such keys.

A reload of the configuration does not start decisions again; a restart does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.journal.restore import Action
from nriplugin.daemon.restoring import restore
from nriplugin.engine.model import CORE_FILES
from nriplugin.errors import JournalError
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nriplugin.daemon.process import DaemonProcess
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

_log = logging.getLogger(__name__)


def withdraw(
    process: DaemonProcess, *, dry_run: bool = False
) -> control.WithdrawResponse:
    """End all decisions and put back every direct write.

    With `dry_run` nothing is changed, and the answer says what would be.

    Raises:
        JournalError: the journal cannot be read or written. Decisions have ended all
            the same, and the caller may try again.
    """
    lifecycle = process.lifecycle
    if not dry_run:
        process.withdrawn = True
        lifecycle.withdraw()
    try:
        files = restore(process, dry_run=dry_run).files
    except JournalError as exc:
        if dry_run:
            raise
        text = f"nothing is decided any more, but {exc}"
        lifecycle.events.note(EventKind.WITHDRAWN, text=text)
        _log.warning("withdrawn: %s", text)
        raise JournalError(text) from exc
    written = {f"{one.cgroup}/{one.file}" for one in files}
    entries = lifecycle.inventory.snapshot().values()
    direct_only = lifecycle.plan.facts.direct_only
    locate = lifecycle.locator.cgroup_of
    carried = {
        entry.id: {} if direct_only else carried_files(entry, locate(entry), written)
        for entry in entries
    }
    answer = control.WithdrawResponse(
        files=files,
        carrying=[
            _carrying(entry, carried[entry.id])
            for entry in sorted(entries, key=lambda one: (one.path, one.id))
            if carried[entry.id]
        ],
    )
    if not dry_run:
        for entry in entries:
            _drop_direct(lifecycle, entry, carried[entry.id])
        back = sum(1 for one in files if one.status == Action.RESTORED)
        text = (
            f"{back} direct writes put back; {len(answer.carrying)} containers keep "
            "values of nriplugin in their specification"
        )
        lifecycle.events.note(EventKind.WITHDRAWN, text=text)
        _log.warning("withdrawn: nothing is decided any more; %s", text)
    return answer


def carried_files(
    entry: ContainerEntry, cgroup: str | None, written: Collection[str]
) -> dict[str, str]:
    """Return nriplugin's values that the runtime keeps in a container's specification.

    The decision knows which of its files went through the door. About a file of an
    earlier process only the journal tells: one that it has was written directly, and
    the conversion alone sends files that are also written.

    Args:
        entry: the container.
        cgroup: its cgroup; None if it is not known, as of one that has just ended.
        written: the paths of all files that the journal has.
    """
    summary = entry.decision
    known = () if summary is None else summary.files
    direct = () if summary is None else summary.direct

    def is_carried(file: str) -> bool:
        if file in known:
            return file not in direct
        if file in CORE_FILES or cgroup is None:
            return True
        return f"{cgroup}/{file}" not in written

    return {file: value for file, value in entry.ours.items() if is_carried(file)}


def at_resize(files: Mapping[str, str]) -> str:
    """Return what a resize does to a container when nriplugin is gone.

    The runtime makes files of kubelet's new numbers, and then writes the values over
    them that it keeps from nriplugin.
    """
    lost = _listed({f: v for f, v in files.items() if f in CORE_FILES})
    others = {f: v for f, v in files.items() if f not in CORE_FILES}
    parts = []
    if lost:
        parts.append(
            f"the runtime writes {lost} again, over kubelet's new numbers, so a resize "
            "of these has no effect"
        )
    if others:
        whatever = "" if lost else "a resize takes effect, but "
        stay = "stays as it is" if len(others) == 1 else "stay as they are"
        parts.append(
            f"{whatever}{_listed(others)} {stay}, whatever the new numbers are"
        )
    return "; ".join(parts)


def _listed(files: Mapping[str, str]) -> str:
    return ", ".join(f"{file}={value}" for file, value in sorted(files.items()))


def _carrying(
    entry: ContainerEntry, files: Mapping[str, str]
) -> control.CarryingContainer:
    return control.CarryingContainer(
        id=entry.id,
        namespace=entry.pod.namespace,
        pod=entry.pod.name,
        container=entry.name,
        files=files,
        at_resize=at_resize(files),
    )


def _drop_direct(
    lifecycle: Lifecycle, entry: ContainerEntry, carried: Mapping[str, str]
) -> None:
    """Forget the values of a container that were put back."""
    if carried.keys() == entry.ours.keys():
        return
    files = {f: v for f, v in entry.files.items() if f in carried}
    outdated = {f: v for f, v in entry.outdated.items() if f in carried}
    lifecycle.change(entry, entry._replace(files=files, outdated=outdated))
