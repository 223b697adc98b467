"""The templates of pods that any object may have in it, whatever its kind. Pure.

Operators put templates at places of their own: `spec.template` of a Rollout,
`spec.pytorchReplicaSpecs.Worker.template` of a PyTorchJob. Such a place is recognised
by its key, which has the word template in it, and by `spec.containers` in its value.
The key is needed: a Prometheus object has `spec.containers`, too, which only amend the
containers of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError

# The deepest place that is known is `spec.template.spec.replicatedJobs[0].template.spec
# .template` of a TrainingRuntime, of eight steps.
MAX_DEPTH = 16
MAX_TEMPLATES = 64
# A YAML alias can make a small text very large, and even put a value into itself.
MAX_VALUES = 100_000

# The parts of an object that its user does not write.
_NOT_SEARCHED = ("apiVersion", "kind", "metadata", "status")


class Template(NamedTuple):
    """A pod's template, where it is, and how many pods are made of it, if that is said.

    The content has `metadata` and `spec`, as a pod.
    """

    path: str
    content: Mapping[str, Any]
    replicas: int | None


def find_templates(content: Mapping[str, Any], where: str) -> list[Template]:
    """Return the templates in an object, in the order of its text.

    Raises:
        ConfigError: there are too many templates, or too many values to look at.
    """
    search = _Search(where)
    for key, value in content.items():
        if key not in _NOT_SEARCHED:
            search.visit(value, str(key), str(key), content)
    return search.found


def stated_replicas(holder: Mapping[str, Any]) -> int | None:
    """Return `replicas` beside a template; None if there is no such number."""
    replicas = holder.get("replicas")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        return None
    return replicas


class _Search:
    """A walk through an object, depth first."""

    def __init__(self, where: str) -> None:
        self.found: list[Template] = []
        self._where = where
        self._values = 0
        # The identities of the collections that the walk is in: a value that contains
        # itself is not entered twice.
        self._inside: set[int] = set()

    def visit(
        self, value: object, path: str, key: str, holder: Mapping[str, Any]
    ) -> None:
        """Note a value that is a template, else look into it."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise ConfigError(
                f"{self._where}: {path}: expected at most {MAX_VALUES} values"
            )
        if not isinstance(value, Mapping | list) or id(value) in self._inside:
            return
        if isinstance(value, Mapping) and _is_template(key, value):
            self._add(Template(path, value, stated_replicas(holder)))
        elif len(self._inside) < MAX_DEPTH:
            self._inside.add(id(value))
            self._enter(value, path, key, holder)
            self._inside.discard(id(value))

    def _enter(
        self,
        value: Mapping[str, Any] | list[Any],
        path: str,
        key: str,
        holder: Mapping[str, Any],
    ) -> None:
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.visit(item, f"{path}[{index}]", key, holder)
        else:
            for name, item in value.items():
                self.visit(item, f"{path}.{name}", str(name), value)

    def _add(self, template: Template) -> None:
        if len(self.found) == MAX_TEMPLATES:
            raise ConfigError(
                f"{self._where}: {template.path}: "
                f"expected at most {MAX_TEMPLATES} templates of pods"
            )
        self.found.append(template)


def _is_template(key: str, value: Mapping[str, Any]) -> bool:
    if "template" not in key.lower():
        return False
    spec = value.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return isinstance(containers, list) and bool(containers)
