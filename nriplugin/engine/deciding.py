"""The one way from a container to a decision, for every door and for `explain`.

Pure, and in the way of every container start: with nothing but the conversion on, it is
little more than the conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.ceilings import settle_protection
from nriplugin.engine.context import Case, hidden_files, quota_of
from nriplugin.engine.crun_scope import reach_scope
from nriplugin.engine.decision import (
    RESOURCES,
    Decision,
    HandlerFailed,
    Reason,
)
from nriplugin.engine.handlers.cpu_burst import KEY as BURST_KEY
from nriplugin.engine.handlers.cpu_burst import decide_cpu_burst
from nriplugin.engine.handlers.cpu_qos import decide_cpu_qos
from nriplugin.engine.handlers.memory_qos import (
    FACTOR_KEY,
    SWITCH_KEY,
    decide_memory_qos,
)
from nriplugin.engine.handlers.memory_qos_level import decide_memory_qos_level
from nriplugin.engine.handlers.resources import decide_resources
from nriplugin.engine.handlers.unified_annotations import decide_unified_annotations
from nriplugin.engine.memory import REQUEST_KEY
from nriplugin.engine.qos_level import KEY as LEVEL_KEY
from nriplugin.engine.retract import clear_leftovers, not_lost
from nriplugin.engine.rules import select
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import ConversionError
from nriplugin.kube.annotations import read_annotations
from nriplugin.kube.oomscore import BEST_EFFORT, MAX_BURSTABLE, MIN_BURSTABLE
from nriplugin.kube.qos import QOSClass, qos_of_cgroup

if TYPE_CHECKING:
    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.engine.settings import EngineConfig

_DECIDERS = {
    "unifiedAnnotations": decide_unified_annotations,
    "cpuQoS": decide_cpu_qos,
    "cpuBurst": decide_cpu_burst,
    "memoryQoS": decide_memory_qos,
    "memoryQoSLevel": decide_memory_qos_level,
}

# Who reads which annotation, for a word about those that nobody reads.
_READERS = {
    BURST_KEY: frozenset({"cpuBurst"}),
    LEVEL_KEY: frozenset({"cpuQoS", "memoryQoSLevel"}),
    SWITCH_KEY: frozenset({"memoryQoS"}),
    FACTOR_KEY: frozenset({"memoryQoS"}),
    REQUEST_KEY: frozenset({"memoryQoS", "memoryQoSLevel"}),
}
_READERS_OF_FILES = frozenset({"unifiedAnnotations"})


def decide(
    pod: Pod,
    container: Container,
    facts: NodeFacts,
    config: EngineConfig,
    use: Use | None = None,
) -> Decision:
    """Decide about a container that is about to be made, or exists already.

    Of one that exists, `use` is what it uses.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    settings, qos_class = config.base, None
    if config.rules:
        qos_class = qos_class_of(pod, container)
        settings = select(pod, container, qos_class, config)
    out = Decision(settings)
    if facts.cgroup_version != 2:
        return inactive(facts, out)
    given = container.resources
    if container.ours:
        given = without_ours(given, container)
    chosen = config.curve or pod.curve
    if settings.only_resources:
        curve, ours = chosen or facts.curve, container.ours
        try:
            decide_resources(given, curve, facts, out, chosen=chosen, ours=ours)
        except Exception as exc:  # noqa: BLE001 - see _failed
            _failed(out, RESOURCES, exc)
    else:
        case = Case(pod, container, given, facts, out)
        case.use = use
        case.qos_class = qos_class
        decide_case(case, given, chosen)
    if container.others:
        leave_others(out, container)
    if facts.driver == SYSTEMD:
        reach_scope(pod, given.shares, facts, out)
    return out


def decide_case(case: Case, given: Resources, chosen: Curve | None) -> None:
    """Ask every handler that is on; `given` is what the conversion converts.

    `chosen` is the curve, None where it is simply the runtime's.
    """
    settings, out = case.settings, case.out
    curve = chosen or case.facts.curve
    if not settings.only_resources:
        if case.qos_class is None:
            case.qos_class = qos_class_of(case.pod, case.container)
        if case.pod.annotations:
            _read_annotations(case)
        for name in settings.active:
            if name != RESOURCES:
                try:
                    _DECIDERS[name](case)
                except Exception as exc:  # noqa: BLE001 - see _failed
                    _failed(out, name, exc)
    if case.asked is not None:
        clear_leftovers(case, given, curve)
    if settings.resources.enabled:
        if case.idle and given.shares is not None:
            given = given._replace(shares=None)
            out.leave("cpu.weight", "resources: the container is idle")
        if case.explicit is not given.unified:
            known = {file: v for file, v in case.explicit.items() if v}
            given = given._replace(unified=known)
        ours = case.container.ours
        try:
            decide_resources(given, curve, case.facts, out, chosen=chosen, ours=ours)
        except Exception as exc:  # noqa: BLE001 - see _failed
            not_lost(case, exc)
            _failed(out, RESOURCES, exc)
    if case.asked is not None or not settings.only_resources:
        _settle(case)


def _failed(out: Decision, handler: str, exc: Exception) -> None:
    """Go on without a handler, or not at all.

    Whatever went wrong in one handler must not take the others along, so everything is
    caught; a defect of ours is told from a mistake in the numbers by its reason.
    """
    known = isinstance(exc, ConversionError)
    text = str(exc) if known else repr(exc)
    if handler in out.settings.failing:
        raise HandlerFailed(handler, text) from exc
    out.refuse(handler, Reason.CONVERSION if known else Reason.ERROR, text)


def inactive(facts: NodeFacts, out: Decision) -> Decision:
    evidence = f" ({facts.cgroup_evidence})" if facts.cgroup_evidence else ""
    out.leave("everything", f"cgroup v{facts.cgroup_version}{evidence}")
    return out


def qos_class_of(pod: Pod, container: Container) -> str | None:
    """Return the class: known, or by the pod's cgroup, or by the OOM score."""
    if pod.qos_class:
        return pod.qos_class
    by_cgroup = qos_of_cgroup(pod.cgroup_parent) if pod.cgroup_parent else None
    if by_cgroup is not None:
        return by_cgroup
    score = container.oom_score_adj
    if score is None:
        return None
    if score == BEST_EFFORT:
        return QOSClass.BEST_EFFORT
    # Not -997: critical pods have it too, whatever their class.
    return QOSClass.BURSTABLE if MIN_BURSTABLE <= score <= MAX_BURSTABLE else None


def _read_annotations(case: Case) -> None:
    case.annotations = read = read_annotations(
        case.pod.annotations, case.container.name
    )
    active = case.settings.active
    for key, reason in read.refused:
        case.refuse("annotations", f"{key:.120}: {reason}")
    for setting, (_, key) in read.found.items():
        readers = _READERS_OF_FILES if "." in setting else _READERS.get(setting)
        if readers is None:
            case.refuse("annotations", f"{key:.120}: not an annotation of ours")
        elif readers.isdisjoint(active):
            names = " and ".join(sorted(readers))
            case.out.leave(f"annotation {key:.120}", f"{names}: off")


def leave_others(out: Decision, container: Container) -> None:
    """Send nothing over a file that another set, whether it is shown or not."""
    for file in hidden_files(container).keys() & out.files.keys():
        out.leave(file, f"{out.why(file).handler}: set by another before us")
        out.unset(file)


def without_ours(given: Resources, container: Container) -> Resources:
    """Return resources without the files that we set ourselves."""
    ours = container.ours or ()
    unified = {k: v for k, v in given.unified.items() if k not in ours}
    return given._replace(unified=unified)


def _settle(case: Case) -> None:
    """Mend what is valid alone, but not together, in every order of writing."""
    out, files = case.out, case.out.files
    if case.idle and "cpu.weight" in files:
        _take_back(out, "cpu.weight", "cpu.idle is 1: the kernel takes no weight")
    settle_protection(case)
    burst = files.get("cpu.max.burst")
    if burst is None or burst == "0":
        return
    if case.explicit.get("cpu.max") == "":
        _take_back(out, "cpu.max.burst", "another's cpu.max is not shown")
        return
    sent = case.explicit.get("cpu.max") or files.get("cpu.max")
    quotas = [quota_of(sent), case.given.quota_us]
    limits = [quota for quota in quotas if isinstance(quota, int)]
    if not limits:
        _take_back(out, "cpu.max.burst", "no quota to burst above")
    elif int(burst) > min(limits):
        _take_back(out, "cpu.max.burst", f"expected at most the quota, {min(limits)}")


def _take_back(out: Decision, file: str, reason: str) -> None:
    text = f"{file} {out.files[file]}: {reason}"
    out.refuse(out.why(file).handler, Reason.CONFLICT, text)
    out.unset(file)
