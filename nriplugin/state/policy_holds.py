"""What policies hold: per container the state of each policy and the files it changed.

The background thread alone changes these. `status`, `why` and metrics read them from
other threads, so a mapping that may be read is replaced as a whole, never changed.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.convert import convert
from nriplugin.engine.policy_settings import ContainerPolicies
from nriplugin.engine.stale import resources_of_numbers
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.model import NodeFacts
    from nriplugin.engine.policies import ContainerSample, Trigger, Triggered
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.plan import Plan


class HeldFile(NamedTuple):
    """A file that holds a policy's value."""

    policy: str
    asked: str  # the value that the policy wants
    value: str  # what the file holds since; systemd rounds a quota
    original: str  # what it goes back to
    since: float  # seconds since 1970
    reason: str  # of the last change
    changes: int = 1
    # Of a pod: the original before kubelet wrote another one while the file was held.
    # It tells whether a resize is in the original already.
    first: str = ""
    # Whether a part of the write was refused, as that to crun's inner cgroup. It is
    # tried again.
    partly: bool = False


class Wanted(NamedTuple):
    """A value that a policy wants a file of a container to hold."""

    policy: str
    value: str
    reason: str


NO_HOLDS: Mapping[str, HeldFile] = MappingProxyType({})


class PolicyState:
    """All that is kept about one container while policies are on for it."""

    __slots__ = (
        "cgroup",
        "entry",
        "growths",
        "held",
        "original",
        "plan",
        "policies",
        "reasons",
        "sample",
        "shown",
        "states",
        "triggered",
        "triggers",
        "unmeasured",
        "wanted",
    )

    def __init__(self, entry: ContainerEntry) -> None:
        self.entry = entry
        # The plan by which `policies` were found.
        self.plan: Plan | None = None
        self.policies = ContainerPolicies()
        self.cgroup = ""
        # By the name of the policy; the reason is that of its last answer.
        self.states: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.sample: ContainerSample | None = None
        self.unmeasured = 0  # how many looks in a row could not measure it
        # By file: what it would hold without policies; what policies want it to hold;
        # what it holds because of one; by how much the pod's file has to grow.
        self.original: Mapping[str, str] = {}
        self.wanted: Mapping[str, Wanted] = {}
        self.held: Mapping[str, HeldFile] = NO_HOLDS
        self.growths: Mapping[str, Wanted] = {}
        # Writes that have their effect once: those to do after this look, by policy;
        # and what came of the last ones, by file.
        self.triggers: tuple[tuple[str, Trigger], ...] = ()
        self.triggered: Mapping[str, Triggered] = {}
        # Where nothing is written: the values that the policies would hold.
        self.shown: Mapping[str, Wanted] = {}

    def begin_anew(self, reason: str = "") -> None:
        """Forget what policies remember and want; files that are held stay held."""
        self.states = {}
        self.reasons = {one.name: reason for one in self.policies.on if reason}
        self.sample = None
        self.triggered = {}
        self.want_nothing()

    def want_nothing(self) -> None:
        """Have every file go back to its original."""
        self.wanted = self.growths = self.shown = {}
        self.triggers = ()


class PolicyCounts:
    """What policies have done; the background thread counts, others read."""

    def __init__(self) -> None:
        self.interval_s = 0.0  # 0 while no policy is on
        # Why no policy is asked at present; empty if they are.
        self.waits_because = ""
        # By policy: the containers for which it is on, and those it holds a value for.
        self.containers: Mapping[str, int] = {}
        self.holding: Mapping[str, int] = {}
        # By policy and outcome; see `Outcome`.
        self.actions: Counter[tuple[str, str]] = Counter()
        self.last_at: float | None = None  # seconds since 1970
        self.looks = 0  # how often containers were measured
        self.cpu_s = 0.0  # time that the background thread spent on policies


# What became of an action; a small fixed set, as it labels a metric.
SET = "set"
RESTORED = "restored"
FAILED = "failed"
SHOWN = "shown"  # decided, and not written: shadow mode, or direct writes are off
LEFT = "left"  # the file holds another program's value, which stays
TRIGGERED = "triggered"  # a write that has its effect once
PARTLY = "partly"  # ... of which the kernel did less than was asked for
OUTCOMES = (SET, RESTORED, FAILED, SHOWN, LEFT, TRIGGERED, PARTLY)


def originals_of(entry: ContainerEntry, facts: NodeFacts) -> Mapping[str, str]:
    """Return what a container's files hold without policies, as far as it is known.

    A value that was decided about, or that others set explicitly, comes before those
    that the runtime makes of kubelet's numbers. systemd may have rounded such a quota.
    """
    given = resources_of_numbers(entry.numbers) if entry.numbers else None
    made: Mapping[str, str] = {}
    if given is not None:
        try:
            made = convert(given, facts.curve).files
        except ConversionError:
            made = {}
    return {**made, **entry.others, **entry.ours}
