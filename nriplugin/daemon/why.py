"""Why the files of a container hold what they hold, for the control API.

For every file that nriplugin has decided about: what the kernel holds now, what was
decided and by which rule, and what the runtime would have written by itself. Where the
first two differ, a sentence says who may have written the other value and what to do.

Everything is read from the inventory and from cgroups; nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.daemon.container_verdicts import NOT_ASKED, judged
from nriplugin.daemon.plain import valid_text
from nriplugin.daemon.policy_status import (
    files_at_run_time,
    hold_message,
    hold_of,
    said_by_policies,
)
from nriplugin.daemon.unrecorded import decided_now, given_resources, native_values
from nriplugin.engine.explicit import UNSET
from nriplugin.engine.provenance import UNKNOWN
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import CgroupError, NRIPluginError
from nriplugin.node.policy_writes import held_value
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nriplugin.daemon.container_verdicts import JudgedContainer
    from nriplugin.daemon.process import DaemonProcess
    from nriplugin.daemon.unrecorded import DecidedNow
    from nriplugin.engine.decision import Why
    from nriplugin.state.inventory import ContainerEntry

EXPECTED = (
    "expected NAMESPACE/POD, NAMESPACE/POD/CONTAINER, NAMESPACE/PODGROUP, or the "
    "beginning of a container's ID"
)
# What the kernel has in these files unless they are written.
_DEFAULTS = {
    **UNSET,
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "100",
    "memory.max": "max",
    "memory.oom.group": "0",
    "memory.swap.max": "max",
}
_NUMBERS = ("shares", "quota", "period", "memory limit")


class NoSuchContainer(NRIPluginError):
    """The inventory has no container of that name or ID."""


def why_of(
    process: DaemonProcess, what: str, *, verdicts: bool = False
) -> control.WhyResponse:
    """Return the reasons of all containers that a text names.

    Args:
        process: the daemon.
        what: NAMESPACE/POD, NAMESPACE/POD/CONTAINER, NAMESPACE/PODGROUP, or the
            beginning of an ID; all containers that it names are in the answer.
        verdicts: whether to measure what holds them back, which takes a second.

    Raises:
        NoSuchContainer: there is none.
    """
    entries = process.lifecycle.inventory.snapshot().values()
    found = sorted(
        (entry for entry in entries if _is_named(entry, what)),
        key=lambda entry: (entry.path, entry.id),
    )
    if not found:
        raise NoSuchContainer(f"{what!r:.200}: no such container, {EXPECTED}")
    held_back = judged(process.lifecycle, found) if verdicts else {}
    return control.WhyResponse(
        containers=[
            _ContainerReasons(process, entry).message(
                held_back.get(entry.id, NOT_ASKED)
            )
            for entry in found
        ]
    )


def _is_named(entry: ContainerEntry, what: str) -> bool:
    names = what.split("/")
    if len(names) == 1:
        return bool(what) and entry.id.startswith(what)
    if len(names) == 2 and entry.pod.group and entry.pod.group.job_id == what:
        return True
    own = [entry.pod.namespace, entry.pod.name, entry.name]
    return len(names) in (2, 3) and own[: len(names)] == names


class _ContainerReasons:
    """One container's answer."""

    def __init__(self, process: DaemonProcess, entry: ContainerEntry) -> None:
        self._process = process
        self._lifecycle = process.lifecycle
        self._plan = process.lifecycle.plan
        self._entry = entry
        self._cgroup = process.lifecycle.locator.cgroup_of(entry)
        self._given = given_resources(entry)
        self._native = native_values(entry, self._given, self._plan)
        self._now: DecidedNow | None = None
        if entry.decision is None:
            self._now = decided_now(entry, self._given, self._plan)
        self._at_run_time = files_at_run_time(process.lifecycle, entry)
        self._advice: list[str] = []
        self._differing: list[str] = []  # files with another value than the decided

    def message(self, judged: JudgedContainer) -> control.ContainerWhy:
        entry, summary = self._entry, self._entry.decision
        if summary is None and self._now is not None:
            summary = self._now.summary
        files = [self._file(file) for file in self._file_names()]
        files += self._files_of_pod()
        self._advise()
        return control.ContainerWhy(
            id=entry.id,
            namespace=entry.pod.namespace,
            pod=entry.pod.name,
            container=entry.name,
            qos_class=entry.pod.qos_class or "",
            cgroup=self._cgroup or "",
            state=self._lifecycle.inventory.state_of(entry).value,
            reason=entry.reason,
            rule=summary.matched if summary else "",
            decided_at=entry.decided_at,
            files=files,
            skipped=summary.skipped if summary else (),
            advice=dict.fromkeys((*judged.advice, *self._advice)),
            numbers=_numbers_in_words(entry.numbers),
            at_run_time=said_by_policies(self._lifecycle, entry),
            verdicts=judged.verdicts,
            not_told=judged.not_told,
            sent=self._sent(),
        )

    def _sent(self) -> control.ContainerNumbers | None:
        """Return the numbers that kubelet sent; None if they are not known."""
        given = self._given
        if given is None:
            return None
        quota, limit = given.quota_us, given.memory_limit_bytes
        return control.ContainerNumbers(
            shares=given.shares,
            quota_us=quota if isinstance(quota, int) else None,
            period_us=given.period_us,
            memory_limit_bytes=limit if isinstance(limit, int) else None,
            memory_request_bytes=self._lifecycle.jobs.memory_request_of(self._entry),
        )

    def _file_names(self) -> list[str]:
        """Return the files in the order of the decision, and others by their names."""
        entry = self._entry
        summary = entry.decision or (self._now.summary if self._now else None)
        first = list(summary.files) if summary else []
        others = {*entry.files, *entry.outdated, *entry.others, *self._at_run_time}
        others.difference_update(first)
        if not entry.ours:
            others.update(entry.lacks.keys() - set(first))
        return first + sorted(others)

    def _files_of_pod(self) -> Iterator[control.FileWhy]:
        """Yield the files of the pod's cgroup that hold a policy's value."""
        tree, pod = self._lifecycle.tree, self._entry.pod_cgroup
        if tree is None or pod is None:
            return
        for file, hold in self._lifecycle.policies.pod_held_by(pod).items():
            yield control.FileWhy(
                file=f"{file} of the pod",
                now=held_value(tree, pod, file) or "",
                native=hold.original,
                hold=hold_message(hold),
            )

    def _file(self, file: str) -> control.FileWhy:
        entry = self._entry
        now, problem = self._held(file)
        why = self._why(file)
        message = control.FileWhy(
            file=file,
            now=now or "",
            unreadable_because=valid_text(problem),
            decided=self._decided(file),
            native=self._native.get(file, ""),
        )
        if why is not None:
            message.handler, message.rule = why.handler, why.rule.text
            message.source, message.confidence = why.source, why.confidence
        elif file in entry.others and file not in entry.ours:
            message.source = "set by another plugin or a user"
        elif file in entry.files:
            message.source = "the record of an earlier decision"
        hold = hold_of(self._lifecycle, entry, file)
        if hold is not None:
            message.hold.CopyFrom(hold)
        if now is not None and (hold is None or hold.shown):
            message.verdict = self._verdict(file, now, message.decided)
        return message

    def _held(self, file: str) -> tuple[str | None, str]:
        """Return the content of a file; or None and the reason why it is not known."""
        tree, cgroup = self._lifecycle.tree, self._cgroup
        if tree is None:
            return None, self._process.unreadable_because or "cgroups are not read"
        if cgroup is None:
            return None, "the container's cgroup is not known"
        if file in self._at_run_time:
            # Under its name of cgroup v2, on every node.
            now = held_value(tree, cgroup, file)
            return now, "" if now is not None else "it cannot be read"
        try:
            return tree.files.read(tree.file_path(cgroup, file)).strip(), ""
        except CgroupError as exc:
            return None, str(exc)

    def _why(self, file: str) -> Why | None:
        entry = self._entry
        if entry.decision is not None:
            return entry.decision.why(file)
        if self._now is None:
            return None
        # A value of the record that is not what would be decided now has no reason.
        recorded = entry.files.get(file)
        if recorded is not None and self._now.files.get(file) != recorded:
            return None
        return self._now.summary.why(file)

    def _decided(self, file: str) -> str:
        entry = self._entry
        value = entry.files.get(file) or entry.shadow.get(file, "")
        if not value and not entry.ours:
            now = {} if self._now is None else self._now.files
            return entry.lacks.get(file) or now.get(file, "")
        return value

    def _verdict(self, file: str, now: str, decided: str) -> str:
        """Say who may have written a value that is not the decided one."""
        entry = self._entry
        if file in entry.outdated and file not in entry.files:
            value = entry.outdated[file]
            if value == UNKNOWN or not same(file, value, now):
                return "nriplugin had set this file earlier, and sets it no longer"
            self._advice.append(
                f"{file}: the next update of the container ends nriplugin's earlier "
                "value, which nothing asks for any more"
            )
            return "an earlier value of nriplugin, which nothing asks for any more"
        if not decided or same(file, decided, now):
            return ""
        if file in entry.shadow:
            return "not applied: nriplugin decides about this container for show alone"
        if not entry.ours:
            return "not applied: the container was created without nriplugin"
        if not entry.started:
            return "the runtime has not started the container yet"
        self._differing.append(file)
        return self._difference(file, now, decided)

    def _difference(self, file: str, now: str, decided: str) -> str:
        """Say the same about a file that has drifted as the event and the log."""
        native = self._native.get(file)
        is_native = native is not None and same(file, native, now)
        is_default = _DEFAULTS.get(file) == now
        drift = self._lifecycle.verifier.drift_of(self._entry.id).get(file)
        if drift is not None and drift.wanted == decided:
            if drift.unwritten:
                held = f"{now!r:.80}"
                if is_native or is_default:
                    held = "its own value" if is_native else "the kernel's default"
                return f"the runtime did not write it: the file holds {held}"
            if is_native:
                return "the runtime's own value, written since"
            if is_default:
                return "the kernel's default: it was reset since"
        elif is_native:
            return "the runtime's own value: it did not write what nriplugin sent"
        elif is_default:
            return "the kernel's default: it was not written, or was reset since"
        return f"another program has written {now!r:.80} since"

    def _advise(self) -> None:
        """Add the advice that is about the whole container."""
        entry = self._entry
        if self._differing:
            self._advise_about(self._differing)
        if entry.decision is None and self._now is None:
            self._advice.append(
                "this process has made no decision about the container, and what a "
                "decision needs is not kept: its values come from an earlier record, "
                "and its next update decides anew"
            )
        elif entry.decision is None:
            self._advice.append(
                "this process has made no decision about the container: the reasons "
                "are those of a decision that was made for this answer"
            )
        if self._given is None:
            self._advice.append(
                "the numbers that kubelet sent are not known, so neither is what the "
                "runtime would have written by itself"
            )
        state = self._lifecycle.inventory.state_of(entry)
        if state is EntryState.SHADOWED:
            self._advice.append(
                "end shadow mode (--shadow, or shadow: true in the configuration) to "
                "have containers that are created from then on get these values"
            )
        undecided = state is EntryState.SKIPPED and entry.decision is None
        if state is EntryState.MISSED or undecided:
            self._advise_about_missing()

    def _advise_about_missing(self) -> None:
        """Say how a container without values can get some."""
        config = self._lifecycle.config
        if self._process.withdrawn:
            return
        if config is not None and config.adopt.enabled:
            self._advice.append(
                "adopt.enabled is true: it gets values while it runs, unless the log "
                "says why not; else have its pod created again"
            )
        else:
            self._advice.append(
                "set adopt.enabled: true to give it values while it runs, or have its "
                "pod created again"
            )

    def _advise_about(self, names: list[str]) -> None:
        """Say what to do about files that hold another value than the decided one."""
        facts, files = self._plan.facts, ", ".join(names)
        if self._process.withdrawn:
            self._advice.append(
                f"{files}: nriplugin is withdrawn, and does not write them again"
            )
            return
        if facts.drops_unified:
            self._advice.append(
                f"{files}: {facts.runtime} {facts.runtime_version} drops cgroup v2 "
                "values from updates; allow direct writes"
                + ("" if facts.ignores_unified else ", or use CRI-O 1.36 or later")
            )
        if facts.driver == SYSTEMD:
            self._advice.append(
                f"{files}: systemd may have written them, for example at a "
                "daemon-reload"
            )
        repairs, entry = self._lifecycle.verifier.repairs, self._entry
        if repairs.may_repair(entry):
            self._advise_about_repair(names)
            return
        if self._lifecycle.pending.writer is None or repairs.enabled:
            again = "an update of the container, such as a resize, writes them again"
        else:
            again = "with repair.enabled: true nriplugin writes them again"
        self._advice.append(f"{files}: {again}; else find the program that differs")

    def _advise_about_repair(self, names: list[str]) -> None:
        """Say what repair, which is on, does about files."""
        gave_up = self._lifecycle.verifier.repairs.gave_up
        ended = [file for file in names if gave_up(self._entry.id, file)]
        if ended:
            self._advice.append(
                f"{', '.join(ended)}: repair has given up until an update or a new "
                "decision: find the program that differs"
            )
        again = [file for file in names if file not in ended]
        if again:
            self._advice.append(
                f"{', '.join(again)}: repair writes them again; if that does not last, "
                "find the program that differs"
            )


def _numbers_in_words(numbers: str) -> str:
    values: Mapping[str, str] = dict(zip(_NUMBERS, numbers.split(","), strict=False))
    return ", ".join(f"{name} {value}" for name, value in values.items() if value)
