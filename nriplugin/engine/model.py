"""The inputs of a decision: a pod, a container, the node, and what is in use.

All are named tuples, cheap to make from any door's message. The engine only iterates
over their mappings and calls `get` and `in`, so a protobuf map can stand in for a dict.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert import Curve, Resources
from nriplugin.engine.runtimes import drops_unified_on_update

if TYPE_CHECKING:
    from collections.abc import Mapping

# The files that the conversion sends; every cgroup v2 node has them. The runtime makes
# the other files of the same numbers by itself.
CORE_FILES = frozenset({"cpu.weight", "cpu.max", "memory.max"})

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Pod(NamedTuple):
    """A pod, as far as its door knows about it."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    qos_class: str | None = None  # from its status; None if the door has none
    cgroup_parent: str = ""
    curve: Curve | None = None  # recognised from the weights of its containers
    # The runtime of its handler, from `runtimes.oci_runtime_of`; None if not known.
    oci_runtime: str | None = None


class Container(NamedTuple):
    """A container as it is to be created, or as it is before an update."""

    name: str = ""
    id: str = ""
    resources: Resources = Resources()
    oom_score_adj: int | None = None
    memory_request_bytes: int | None = None  # NRI does not carry it
    # The memory request in kubelet's checkpoint, where that is read and has it.
    allocated_request_bytes: int | None = None
    # Files that nriplugin set, with the values, so that they do not count as explicit.
    # They are needed beside `resources.unified`, as not every runtime shows that. None
    # if it is not known which files nriplugin set.
    ours: Mapping[str, str] | None = None
    # Those files of `ours` that hold a value decided by this process, whatever the
    # runtime keeps for them.
    decided: Mapping[str, str] = _NOTHING
    # Files that another plugin or a user set when the container was made, from the
    # record that was made then: not every runtime shows them in `resources.unified`.
    others: Mapping[str, str] = _NOTHING


class Use(NamedTuple):
    """What a container uses now; None for what was not looked up."""

    memory_bytes: int | None = None


class NodeFacts(NamedTuple):
    """What is known about the node; the defaults hold on every node."""

    cgroup_version: int = 2
    cgroup_evidence: str = ""
    driver: str | None = None  # cgroupfs or systemd
    # Files that the cgroup of a container has on this node. With cgroup v1 only those
    # of `allowed_files.V1_FILES`.
    files: frozenset[str] = CORE_FILES
    page_bytes: int = 4096
    memory_capacity_bytes: int | None = None
    memory_allocatable_bytes: int | None = None
    kernel: tuple[int, int] | None = None
    curve: Curve = Curve.QUADRATIC
    curve_evidence: str = "no container to learn from: what current runtimes do"
    # Whether the curve was recognised from containers that nriplugin did not touch.
    curve_native: bool = False
    runtime: str = ""  # containerd or cri-o, as Configure says
    runtime_version: str = ""
    oci_runtime: str | None = None  # runc or crun
    # Whether nriplugin may write to cgroups itself.
    writable: bool = False
    # Whether files that were read back have shown that the runtime loses `unified` in
    # the answer to an update.
    ignores_unified: bool = False

    @property
    def direct_only(self) -> bool:
        """Whether values can only be written directly, as on a node with cgroup v1.

        A runtime there fails a container that has a `unified` key, and the numbers that
        kubelet sends need no conversion.
        """
        return self.cgroup_version != 2

    @property
    def drops_unified(self) -> bool:
        """Whether the runtime loses `unified` in the answer to an update."""
        return self.ignores_unified or drops_unified_on_update(
            self.runtime, self.runtime_version
        )
