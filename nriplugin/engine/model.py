"""What a decision is made from: a pod, a container, the node, what is in use.

Plain values, cheap to make from any door's message. Mappings are only iterated and
asked with `get` and `in`, so a protobuf map can stand in for a dict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert import Curve, Resources
from nriplugin.engine.runtimes import drops_unified_on_update

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the resources handler sends: files that every cgroup v2 node has. The others that
# a conversion gives are left to the runtime, which derives them from the same numbers.
CORE_FILES = frozenset({"cpu.weight", "cpu.max", "memory.max"})

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Pod(NamedTuple):
    """A pod, as far as its door knows it."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    qos_class: str | None = None  # as in its status; else concluded
    cgroup_parent: str = ""
    curve: Curve | None = None  # recognised from its own containers
    oci_runtime: str | None = None  # runc or crun, where the pod has one of its own


class Container(NamedTuple):
    """A container as it is about to be, or as it is when an update is asked for."""

    name: str = ""
    id: str = ""
    resources: Resources = Resources()
    oom_score_adj: int | None = None
    memory_request_bytes: int | None = None  # from a door that knows it; NRI does not
    # Files that came from us, so that nobody's wish is in them, with what we set them
    # to: not every runtime shows its own in `resources.unified`. None is "not known".
    ours: Mapping[str, str] | None = None
    # Of those, the ones that hold a value of this process's decision by now, whatever
    # the runtime keeps for them.
    decided: Mapping[str, str] = _NOTHING
    # Files that another plugin or a user set when the container was made. Not every
    # runtime shows them later in `resources.unified`.
    others: Mapping[str, str] = _NOTHING


class Use(NamedTuple):
    """What a container uses now, where somebody has looked."""

    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known about the node. The defaults are what is true everywhere."""

    cgroup_version: int = 2
    cgroup_evidence: str = ""
    driver: str | None = None  # cgroupfs or systemd
    # Files that the cgroup of a container has on this node.
    files: frozenset[str] = CORE_FILES
    page_bytes: int = 4096
    memory_capacity_bytes: int | None = None
    memory_allocatable_bytes: int | None = None
    kernel: tuple[int, int] | None = None
    curve: Curve = Curve.QUADRATIC
    curve_evidence: str = "no container to learn from: what current runtimes do"
    # Whether containers that the runtime made without us have shown that curve.
    curve_native: bool = False
    runtime: str = ""  # containerd or cri-o, as Configure says
    runtime_version: str = ""
    oci_runtime: str | None = None  # runc or crun
    # Whether the executor may write what no door carries.
    writable: bool = False
    # Which of the core files can be sent; follows from `files`.
    core: frozenset[str] = field(init=False)
    # Whether `unified` in the answer to an update is lost; follows from the runtime.
    drops_unified: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", CORE_FILES & self.files)
        drops = drops_unified_on_update(self.runtime, self.runtime_version)
        object.__setattr__(self, "drops_unified", drops)
