"""What the containers that exist tell, and what they miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.agent.inventory import Known
from nriplugin.agent.reading import cgroups_of, read_existing, read_pod
from nriplugin.cgroup.paths import cgroup_of
from nriplugin.cgroup.quirks_contents import same
from nriplugin.engine.curve import curves_of_pods, recognise_or_continue
from nriplugin.engine.deciding import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.model import Pod
from nriplugin.engine.ours import conclude_ours
from nriplugin.errors import ConversionError
from nriplugin.hands.eyes import held, memory_use, observe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.agent.plan import Plan
    from nriplugin.api import view_pb2 as view
    from nriplugin.cgroup.tree import Tree
    from nriplugin.convert import Curve
    from nriplugin.engine.curve import Observation, Recognised
    from nriplugin.engine.decision import Write

# Each costs a few system calls, while the runtime waits for an answer.
MAX_OBSERVED = 500


class Missing(NamedTuple):
    """What a container has not got, and would get if it were made now."""

    container_id: str
    was: Known  # if that is no longer so, the rest is no longer true either
    known: Known  # what it will be
    pod: str | None
    files: Mapping[str, str]
    writes: Sequence[Write]
    idle: bool  # which takes cleared shares, so no runtime can do it afterwards
    who: str  # for people
    warnings: Sequence[str]


def recognise(
    containers: Iterable[view.Container], tree: Tree, *, shows_unified: bool
) -> tuple[Recognised, dict[str, Curve]]:
    """Return the node's curve, and those of pods whose own containers differ."""
    seen: list[Observation] = []
    for container in containers:
        linux = container.linux
        cgroup = cgroup_of(linux.cgroups_path)
        resources = linux.resources
        if cgroup is None:
            continue
        shares, unified = resources.cpu.shares.value, resources.unified
        one = observe(tree, cgroup, shares, unified, shows_unified=shows_unified)
        if one is not None:
            seen.append(one)
            if len(seen) == MAX_OBSERVED:
                break
    node = recognise_or_continue(seen)
    return node, curves_of_pods(seen, node.curve)


def survey(
    pods: Iterable[view.PodSandbox],
    containers: Iterable[view.Container],
    plan: Plan,
    tree: Tree | None,
) -> tuple[dict[str, Known], list[Missing]]:
    """Return what is known of containers that exist, and what they miss."""
    by_id = {pod.id: read_pod(pod, plan.curves) for pod in pods}
    known: dict[str, Known] = {}
    missing: list[Missing] = []
    for message in containers:
        pod = by_id.get(message.pod_sandbox_id, _NO_POD)
        parent, cgroup = cgroups_of(pod, message)
        use = None if tree is None or cgroup is None else memory_use(tree, cgroup)
        try:
            container = read_existing(message)
            concluded = conclude_ours(pod, container, plan.facts, plan.config)
            container = container._replace(ours=concluded)
            decision = decide(pod, container, plan.facts, plan.config, use)
        except (ConversionError, HandlerFailed):
            continue  # it runs, whatever we think of it
        wanted = decision.expected()
        has = container.resources.unified
        ours = {f: v for f, v in wanted.items() if has.get(f) == v}
        outdated = {f: v for f, v in concluded.items() if f not in ours}
        was = Known(message.linux.cgroups_path, ours, outdated)
        known[message.id] = was
        absent = {
            file: value
            for file, value in decision.files.items()
            if file not in ours and not _holds(tree, cgroup, file, value)
        }
        if absent or decision.writes:
            become = Known(message.linux.cgroups_path, wanted)
            who = f"{pod.namespace}/{pod.name}/{container.name or message.id[:13]}"
            # All of them are about memory.high; what has it already is not warned of.
            warnings = decision.warnings if "memory.high" in absent else ()
            missing.append(
                Missing(
                    container_id=message.id,
                    was=was,
                    known=become,
                    pod=parent,
                    files=absent,
                    writes=decision.writes,
                    idle=bool(decision.cleared),
                    who=who,
                    warnings=warnings,
                )
            )
    return known, missing


_NO_POD = Pod()


def _holds(tree: Tree | None, cgroup: str | None, file: str, value: str) -> bool:
    """Whether a file has its value already; what cannot be seen may not."""
    if tree is None or cgroup is None:
        return False
    there = held(tree, cgroup, file)
    return there is not None and same(file, value, there)
