"""Which values of an existing container came from nriplugin.

There are three sources, and the first one that a container has is used:

1. the record in the state directory, or the entry of the previous connection to the
   runtime; both include the values that updates have set;
2. the record in the container's annotations, made when the container was created;
3. a comparison of the container's values with the ones that the engine would set now.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.engine.provenance import conclude_ours, owned_by_record
from nriplugin.kube.managed import Managed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.model import Container, Pod
    from nriplugin.state.plan import Plan


class Ownership(NamedTuple):
    """The sources for one connection to the runtime."""

    # Whether the runtime's release shows the cgroup v2 values that it keeps.
    shown: bool = False
    # By container ID; newer than the record in the container's annotations.
    records: Mapping[str, Managed] = MappingProxyType({})

    def shows(self, container: Container) -> bool:
        """Whether the runtime shows the values that it keeps for a container."""
        return self.shown or bool(container.resources.unified)

    def of(
        self, pod: Pod, container: Container, annotated: Managed | None, plan: Plan
    ) -> Managed:
        """Return which of a container's values came from nriplugin, and which not.

        `annotated` is the record in the container's annotations, if there is one.
        """
        record = self.records.get(container.id)
        if record is not None:
            return record
        if annotated is None:
            return Managed(conclude_ours(pod, container, plan.facts, plan.config))
        unified = container.resources.unified
        ours = owned_by_record(annotated, unified, shown=self.shows(container))
        # A file that the record does not name may come from a later update whose record
        # was lost. It counts as nriplugin's if the engine would set the same value.
        later = (unified.keys() & OWNABLE) - ours.keys() - annotated.others.keys()
        if later:
            concluded = conclude_ours(pod, container, plan.facts, plan.config)
            ours |= {f: v for f, v in concluded.items() if f in later}
        return annotated._replace(files=ours)
