"""Decisions about updates of containers that exist.

The runtime lays our files over kubelet's request, and then writes everything that it
keeps for the container, earlier files of ours included, over what it makes of the
numbers. So what follows from a limit is derived anew, what nobody wants any more is
taken back, swap is kept, and where an order matters, each write says whether it comes
before the runtime's or after.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.engine.allowed_files import check_raw
from nriplugin.engine.context import Case, wishes_in
from nriplugin.engine.crun_scope import reach_scope
from nriplugin.engine.deciding import (
    decide_case,
    inactive,
    leave_others,
    qos_class_of,
    without_ours,
)
from nriplugin.engine.decision import UPDATES, Decision, Level, When, Why, Write
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.retract import not_lost
from nriplugin.engine.rules import select
from nriplugin.errors import ConversionError, NRIPluginError

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.engine.settings import EngineConfig

SWAP_RULE = Rule(
    ("memory.swap", "memory.limit"),
    "as before: runtimes answer a new memory limit with no swap",
)
AGAIN = Why(
    UPDATES,
    Rule((), "as decided before: the runtime keeps an older value, and writes it now"),
    "an earlier decision of ours",
)
# Whether these can be written depends on others, so their handlers alone send them.
_ORDERED = frozenset({"cpu.max.burst", "cpu.idle"})


def decide_update(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
    use: Use | None = None,
    *,
    unasked: bool = False,
) -> Decision:
    """Decide about an update of a container; `asked` has None for what is not asked.

    The files are to be laid over the request, less what is in `cleared`; with
    `unasked`, they are an update of our own, of which every runtime takes the files.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    settings = config.base
    if config.rules:
        settings = select(pod, container, qos_class_of(pod, container), config)
    out = Decision(settings)
    if facts.cgroup_version != 2:
        return inactive(facts, out)
    old = container.resources
    # kubelet says "not set", which would undo what we have set.
    undone = wishes_in(asked.unified) is not asked.unified
    if container.ours is not None:
        kept = {**without_ours(old, container).unified, **asked.unified}
        asked = asked._replace(unified=kept)
    if asked.quota_us is None:
        # A period alone would lift the quota that the container has.
        asked = asked._replace(period_us=None)
    case = Case(pod, container, together(old, asked), facts, out)
    case.asked, case.use = asked, use
    case.memory_comes = undone or asked.memory_limit_bytes is not None
    decide_case(case, asked, config.curve or pod.curve)
    _send_again(case)
    leave_others(out, container)
    reach_scope(pod, case.given.shares, facts, out)
    if out.files or out.cleared:
        _keep_swap(case, asked)
    _warn(case, asked)
    if out.files and facts.drops_unified and not unasked:
        _write_instead(case)
    return out


def together(old: Resources, asked: Resources) -> Resources:
    """Return what will hold: old numbers, unless others are asked for."""
    return old._replace(
        shares=old.shares if asked.shares is None else asked.shares,
        quota_us=old.quota_us if asked.quota_us is None else asked.quota_us,
        period_us=old.period_us if asked.period_us is None else asked.period_us,
        memory_limit_bytes=(
            old.memory_limit_bytes
            if asked.memory_limit_bytes is None
            else asked.memory_limit_bytes
        ),
        unified=asked.unified,
    )


def _send_again(case: Case) -> None:
    """Send what we know better than the runtime, which was not told when it changed.

    A direct write changes the kernel's file, but not the value that the runtime keeps.
    Where the runtime shows nothing of what it keeps, everything is sent.
    """
    container, out = case.container, case.out
    stored = container.resources.unified
    for file, value in container.decided.items():
        kept = stored.get(file, value if stored else None)
        if file in _ORDERED or file in out.files or kept == value:
            continue
        if file in case.facts.files and file not in case.explicit:
            with suppress(ConversionError):  # a record may say anything
                check_raw(file, value)
                case.send(file, value, AGAIN)


def _keep_swap(case: Case, asked: Resources) -> None:
    """Send the swap that a new limit would take away.

    Runtimes that get an answer to an update set memory and swap together to the limit,
    whoever has answered what.
    """
    old = case.container.resources
    limit, swap = old.memory_limit_bytes, old.memory_swap_bytes
    if asked.memory_limit_bytes is None or swap is None:
        return
    if "memory.swap.max" in old.unified or "memory.swap.max" in case.explicit:
        return  # which the runtime writes again, after its own
    if swap is UNLIMITED:
        value = "max"
    elif isinstance(limit, int) and swap > limit:
        value = str(swap - limit)
    else:
        return
    why = Why(UPDATES, SWAP_RULE, "the container's resources")
    with suppress(ConversionError):  # no more than the kernel can count
        check_raw("memory.swap.max", value)
        case.send("memory.swap.max", value, why)


def _warn(case: Case, asked: Resources) -> None:
    limit = asked.memory_limit_bytes
    used = case.use.memory_bytes if case.use else None
    if isinstance(limit, int) and used is not None and used > limit:
        case.out.warnings.append(
            f"memory.max {limit}: {used} bytes are in use, which the kernel reclaims, "
            "and kills for what it cannot"
        )


def _differs(case: Case) -> bool:
    """Whether a file of the conversion is to hold something else than before."""
    container = case.container
    kept = {**(container.ours or {}), **container.resources.unified}
    files = case.out.files
    return any(files[f] != kept.get(f) for f in CORE_FILES & files.keys())


def _write_instead(case: Case) -> None:
    """Have the executor write what the runtime drops from an answer to an update."""
    out, facts = case.out, case.facts
    if not facts.writable and _differs(case):
        runtime = f"{facts.runtime} {facts.runtime_version}"
        not_lost(case, NRIPluginError(f"{runtime} drops unified at updates"))
    for file, value in list(out.files.items()):
        why = out.why(file)
        out.unset(file)
        if any(w.file == file and w.level is Level.CONTAINER for w in out.writes):
            continue  # already, and at the right time
        if facts.writable:
            out.writes.append(
                Write(file, value, Level.CONTAINER, When.AFTER, False, why)
            )
        else:
            out.leave(
                file,
                f"{why.handler}: {facts.runtime} {facts.runtime_version} drops unified "
                "at updates, and the executor is off",
            )
