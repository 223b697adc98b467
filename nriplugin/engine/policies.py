"""What a policy at run time is: a sample and a state in, the values to hold out.

A handler decides once, when a container is created or updated. A handler with a
`RunTimePolicy` is also asked every few seconds while the container runs. The policy
gets what was measured, and answers with all values that it wants files to hold now. A
file that its answer does not name any more goes back to its original value, so a policy
has nothing to undo and cannot forget to.

A `Trigger` is different: a write that has its effect once, such as one to
memory.reclaim. The file holds no value, so there is nothing to put back.

Policies are pure. state/policies.py keeps their states and calls them, node/ reads the
samples and writes the values.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.engine.decision import Level
    from nriplugin.kube.annotations import Annotations

S = TypeVar("S")

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Measure(StrEnum):
    """A group of fields of a sample; only those are read that a policy needs."""

    CPU = "cpu"  # use, periods and throttling
    QUOTA = "quota"  # of the container and of its pod
    MEMORY = "memory"  # what is used, the limits and the events
    PROTECTION = "protection"  # of memory
    SWAP = "swap"  # of the container and of the node
    PRESSURE = "pressure"  # on cpu, memory and io
    REFAULTS = "refaults"
    CACHE = "cache"  # of files
    NODE_CPU = "node cpu"
    # Since the start, if this process has seen it. A policy that needs this is asked
    # directly after a container's start, and not only at the next interval.
    AGE = "age"


class Quota(NamedTuple):
    """A quota of CPU time per period, in microseconds; None for no limit."""

    quota_us: int | None
    period_us: int


class MemoryCounts(NamedTuple):
    """How often memory ran short; None for what the node does not count."""

    high: int | None
    max: int
    oom: int | None
    oom_kill: int


class StallTime(NamedTuple):
    """For how long tasks have waited for a resource, in microseconds, since the start.

    `some`: at least one task waited. `full`: no task could run.
    """

    some_us: int
    full_us: int


class Triggered(NamedTuple):
    """What came of a trigger."""

    errno: int  # 0: all that was asked for was done
    cpu_s: float  # CPU time that the kernel spent on it
    value: str


_NO_TRIGGERS: Mapping[str, Triggered] = MappingProxyType({})


class ContainerSample(NamedTuple):
    """One container at one moment; None for what was not measured.

    Counters begin with the cgroup, so a policy compares two samples. A limit is None
    both if it was not measured and, in `Quota`, if there is none.
    """

    at_s: float  # on a clock that only goes forward
    # The values that the container's files have without any policy, by the name of the
    # cgroup v2 file: those that were decided, else those that follow from kubelet's
    # numbers. A file without a value is not among them.
    original: Mapping[str, str] = _NOTHING
    cpu_usage_ns: int | None = None
    periods: int | None = None
    throttled: int | None = None
    throttled_ns: int | None = None
    quota: Quota | None = None
    pod_quota: Quota | None = None
    memory_bytes: int | None = None
    memory_high_bytes: int | None = None  # -1: no limit
    memory_max_bytes: int | None = None  # -1: no limit
    memory_counts: MemoryCounts | None = None
    protected_bytes: int | None = None  # the greater of memory.min and memory.low
    swap_bytes: int | None = None
    swap_max_bytes: int | None = None  # -1: no limit
    cpu_stall: StallTime | None = None
    memory_stall: StallTime | None = None
    io_stall: StallTime | None = None
    refaults: int | None = None  # in pages
    cache_bytes: int | None = None  # of files, without shared memory
    running_tasks: int | None = None
    # For how long the container has been running; None if this process has not seen the
    # start, and after a resize.
    age_s: float | None = None
    # By file: the triggers since the previous sample.
    triggered: Mapping[str, Triggered] = _NO_TRIGGERS


class NodeSample(NamedTuple):
    """The node over the time since the previous sample."""

    cpu_share: float | None = None  # of all CPUs, from 0 to 1
    cpus: int | None = None
    swap_bytes: int | None = None  # the size of all swap areas


class PolicyAction(NamedTuple):
    """A value that a policy wants a file to hold.

    Where a file of the pod and one of the container change together, their order is
    that of every write to a branch of the tree: the pod first where values grow, the
    container first where they shrink.
    """

    file: str  # the name of the cgroup v2 file, also on a v1 node
    # Of the pod: the amount by which its value grows for this container's sake. Growths
    # for several containers of the pod are added up.
    value: str
    level: Level


class Trigger(NamedTuple):
    """A write to a file of the container that has its effect once."""

    file: str
    value: str


class PolicyAnswer(NamedTuple):
    """What a policy makes of a sample."""

    state: Any  # for the next call
    actions: tuple[PolicyAction, ...] = ()
    reason: str = ""  # why the actions are the last ones that changed
    # Done after the actions. A trigger that fails is not repeated by the loop.
    triggers: tuple[Trigger, ...] = ()
    # Why the policy can do nothing for this container on this node; logged once.
    unable: str = ""


class RunTimePolicy(NamedTuple, Generic[S]):
    """The part of a handler that is asked while containers run."""

    # What has to be measured.
    needs: frozenset[Measure]
    # Returns a container's own settings: those that were configured, changed by its
    # annotations. None if an annotation switches the policy off. The function in the
    # arguments is called with the text of a mistake in an annotation.
    settings_of: Callable[[S, Annotations, Callable[[str], None]], S | None]
    # Returns the values to hold, by the settings, the state, the previous sample, the
    # sample and the node. The state and the previous sample are None at first, after an
    # update of the container, and after a reload that changes its settings.
    decide: Callable[
        [S, Any, ContainerSample | None, ContainerSample, NodeSample], PolicyAnswer
    ]
