"""What the pods of a node use, as rates between two samples of their cgroups.

A `UsageSampler` reads the counters of all pods and containers each time it is asked and
keeps them until the next time. Counters of the kernel only grow, so CPU use and
throttling are differences between two samples, each divided by the time between the two
readings of that same cgroup. Memory, pressure and tasks are those of the later sample.
Verdicts follow from two samples, too; those about a pod are those of its containers.

A cgroup may vanish at any moment. It is then left out; a file that is missing because
its controller is off makes one value None.
"""

from __future__ import annotations

from errno import EOPNOTSUPP
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from nriplugin.cgroup.locate.walk import walk
from nriplugin.cgroup.tasks.states import GONE, tasks_below
from nriplugin.cgroup.types.reader import Reader
from nriplugin.engine.verdicts import Judgement, Moment, judge, of_pod
from nriplugin.errors import CgroupError
from nriplugin.node.policy_samples import PolicySampler
from nriplugin.node.verdict_samples import MomentSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.cgroup.locate.walk import FoundCgroup
    from nriplugin.cgroup.tasks.states import StatesReader, TaskStates
    from nriplugin.cgroup.types.formats import Pressure
    from nriplugin.cgroup.types.reader import CpuStat
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.policies import ContainerSample

RESOURCES = ("cpu", "memory", "io")

_NS_PER_S = 1_000_000_000
_NANOCORES = 1_000_000_000

_Read = TypeVar("_Read")


class CpuCounters(NamedTuple):
    """The counters of one cgroup, and when they were read."""

    at_ns: int
    usage_ns: int | None
    stat: CpuStat | None


class CgroupUsage(NamedTuple):
    """What one cgroup with all below it uses; None is "not measured here"."""

    cgroup: str
    window_s: float
    cpu_nanocores: int | None
    # Within the window: periods of the quota, how many of them were cut short, and for
    # how long tasks waited. `throttled_total` counts since the cgroup was made.
    periods: int | None
    throttled: int | None
    throttled_ns: int | None
    throttled_total: int | None
    memory_bytes: int | None
    # What kubelet calls the working set: memory without the file cache that the kernel
    # can drop first. Eviction and `kubectl top` go by it.
    working_set_bytes: int | None
    oom_kills: int | None
    pressure: Mapping[str, Pressure | None]
    tasks: TaskStates | None
    judgement: Judgement = Judgement()


class ContainerUsage(NamedTuple):
    """A container's use, and its ID."""

    container_id: str
    use: CgroupUsage


class PodUsage(NamedTuple):
    """A pod's use with everything in it, and that of its containers."""

    uid: str
    qos_class: str
    use: CgroupUsage
    containers: tuple[ContainerUsage, ...]


class NodeUsage(NamedTuple):
    """The pods in the order of the cgroups, and the tasks that cannot be seen."""

    pods: tuple[PodUsage, ...]
    unseen_tasks: int


class UsageSampler:
    """Samples the pods below one cgroup; each answer is about the time since the last.

    One thread uses it.
    """

    def __init__(
        self,
        tree: Tree,
        kubepods: str,
        states: StatesReader,
        clock_ns: Callable[[], int] = monotonic_ns,
        host_root: str = "/",
    ) -> None:
        self._tree = tree
        self._reader = Reader(tree)
        self._kubepods = kubepods
        self._states = states
        self._clock_ns = clock_ns
        self._earlier: dict[str, CpuCounters] = {}
        self._moments: dict[str, Moment] = {}
        policy_sampler = PolicySampler(tree, host_root, lambda: clock_ns() / _NS_PER_S)
        self._moment_sampler = MomentSampler(tree, policy_sampler)

    def begin(self) -> None:
        """Read the counters from which the first rates are counted.

        Raises:
            CgroupError: there is no cgroup for pods.
        """
        found = self._found()
        self._earlier = {one.cgroup: self._counters(one.cgroup) for one in found}
        self._moments = self._moments_of(found, {})

    def next(self) -> NodeUsage:
        """Return the use since the last call, or since `begin`.

        A cgroup that was not there then has no rates yet.

        Raises:
            CgroupError: there is no cgroup for pods.
        """
        found = self._found()
        tasks = {
            one.cgroup: one.states
            for one in tasks_below(self._tree.children, self._states, self._kubepods)
        }
        uses: dict[str, CgroupUsage] = {}
        counters: dict[str, CpuCounters] = {}
        for one in found:
            counters[one.cgroup] = self._counters(one.cgroup)
            uses[one.cgroup] = self._use(
                one.cgroup, counters[one.cgroup], tasks.get(one.cgroup)
            )
        self._earlier = counters
        earlier, self._moments = self._moments, self._moments_of(found, tasks)
        for cgroup, moment in self._moments.items():
            judgement = judge(earlier.get(cgroup), moment)
            uses[cgroup] = uses[cgroup]._replace(judgement=judgement)
        whole = tasks.get(self._kubepods)
        return NodeUsage(_by_pod(found, uses), whole.unseen if whole else 0)

    def _found(self) -> list[FoundCgroup]:
        return [
            one
            for one in walk(self._tree, self._kubepods)
            if one.identity.pod_uid and not one.identity.inner
        ]

    def _moments_of(
        self, found: list[FoundCgroup], tasks: Mapping[str, TaskStates]
    ) -> dict[str, Moment]:
        """Measure for the verdicts about containers."""
        moments: dict[str, Moment] = {}
        pods: ContainerSample | None = None
        for one in found:
            if one.identity.level == "pod":  # its containers come directly after it
                pods = self._moment_sampler.sample_of_pod(one.cgroup)
                continue
            sample = self._moment_sampler.sample(one.cgroup)
            if sample is not None:
                states = tasks.get(one.cgroup)
                if states is not None and not states.unseen:
                    sample = sample._replace(running_tasks=states.running)
                busy_s = self._moment_sampler.node_busy_s()
                moments[one.cgroup] = Moment(sample, pods, busy_s)
        return moments

    def _counters(self, cgroup: str) -> CpuCounters:
        usage = _if_measured(lambda: self._reader.cpu_usage(cgroup).total_ns)
        at_ns = self._clock_ns()
        stat = _if_measured(lambda: self._reader.cpu_stat(cgroup))
        return CpuCounters(at_ns, usage, stat)

    def _use(
        self, cgroup: str, now: CpuCounters, tasks: TaskStates | None
    ) -> CgroupUsage:
        reader, earlier = self._reader, self._earlier.get(cgroup)
        window_ns = 0 if earlier is None else now.at_ns - earlier.at_ns
        cpu = periods = throttled = throttled_ns = None
        if earlier is not None and window_ns > 0:
            if now.usage_ns is not None and earlier.usage_ns is not None:
                used_ns = max(now.usage_ns - earlier.usage_ns, 0)
                cpu = used_ns * _NANOCORES // window_ns
            if now.stat is not None and earlier.stat is not None:
                periods = max(now.stat.periods - earlier.stat.periods, 0)
                throttled = max(now.stat.throttled - earlier.stat.throttled, 0)
                throttled_ns = max(now.stat.throttled_ns - earlier.stat.throttled_ns, 0)
        memory = _if_measured(lambda: reader.memory_usage(cgroup))
        cache = _if_measured(lambda: reader.memory_stat(cgroup).inactive_file)
        events = _if_measured(lambda: reader.memory_events(cgroup))
        return CgroupUsage(
            cgroup=cgroup,
            window_s=window_ns / _NS_PER_S,
            cpu_nanocores=cpu,
            periods=periods,
            throttled=throttled,
            throttled_ns=throttled_ns,
            throttled_total=None if now.stat is None else now.stat.throttled,
            memory_bytes=memory,
            working_set_bytes=None if memory is None else max(memory - (cache or 0), 0),
            oom_kills=None if events is None else events.oom_kill,
            pressure=self._pressure(cgroup),
            tasks=tasks,
        )

    def _pressure(self, cgroup: str) -> dict[str, Pressure | None]:
        """Return the pressure on each resource; v1 has no files for it."""
        if self._tree.version == 1:
            return {}
        pressure = self._reader.pressure
        return {n: _if_measured(partial(pressure, cgroup, n)) for n in RESOURCES}


def _if_measured(read: Callable[[], _Read]) -> _Read | None:
    """Return a value, or None if its file or its cgroup is not there.

    Raises:
        CgroupError: another failure, such as a permission that is missing.
    """
    try:
        return read()
    except CgroupError as exc:
        if exc.errno in (*GONE, EOPNOTSUPP):
            return None
        raise


def _by_pod(
    found: list[FoundCgroup], uses: Mapping[str, CgroupUsage]
) -> tuple[PodUsage, ...]:
    pods: list[PodUsage] = []
    for one in found:
        identity, use = one.identity, uses[one.cgroup]
        if use.cpu_nanocores is None and use.memory_bytes is None:
            continue  # it has ended since the walk, or neither controller is on
        if identity.level == "pod":
            qos_class = identity.qos_class or ""
            pods.append(PodUsage(identity.pod_uid or "", qos_class, use, ()))
        elif not identity.conmon and pods and pods[-1].uid == identity.pod_uid:
            container = ContainerUsage(identity.container_id or "", use)
            pod = pods[-1]
            pods[-1] = pod._replace(containers=(*pod.containers, container))
    return tuple(_judged(pod) for pod in pods)


def _judged(pod: PodUsage) -> PodUsage:
    judgement = of_pod(tuple(one.use.judgement for one in pod.containers))
    return pod._replace(use=pod.use._replace(judgement=judgement))
