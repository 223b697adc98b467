"""Which values of an existing container came from nriplugin.

Three sources, the best first: the record in the state directory or of the connection
before (it also has what updates set), the record that travels with the container as an
annotation, and, for a container without either, a comparison of its values with those
that the engine would set.
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
    """Where it says which values are nriplugin's."""

    # Whether the runtime's release shows the cgroup v2 values that it keeps.
    shown: bool = False
    # By container ID; newer than the record that travels with the container.
    records: Mapping[str, Managed] = MappingProxyType({})

    def shows(self, container: Container) -> bool:
        """Whether the runtime shows the values that it keeps for a container."""
        return self.shown or bool(container.resources.unified)

    def of(
        self, pod: Pod, container: Container, annotated: Managed | None, plan: Plan
    ) -> Managed:
        """Return which of a container's values came from nriplugin, and which not.

        `annotated` is the record that travels with the container, if it has one.
        """
        record = self.records.get(container.id)
        if record is not None:
            return record
        if annotated is None:
            return Managed(conclude_ours(pod, container, plan.facts, plan.config))
        unified = container.resources.unified
        ours = owned_by_record(annotated, unified, shown=self.shows(container))
        # A file in neither list may have come with an update of which there is no
        # record; whether nriplugin would set such a value tells.
        later = (unified.keys() & OWNABLE) - ours.keys() - annotated.others.keys()
        if later:
            concluded = conclude_ours(pod, container, plan.facts, plan.config)
            ours |= {f: v for f, v in concluded.items() if f in later}
        return annotated._replace(files=ours)
