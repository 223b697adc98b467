"""What a manifest says that Kubernetes or nriplugin takes for something else. Pure.

The API server drops a misspelt key with a warning, or refuses it, depending on the
client; a memory amount in thousandths of a byte and an annotation at the wrong place
are valid. None of them does what it seems to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nriplugin.engine.handlers import table
from nriplugin.errors import ConfigError
from nriplugin.kube.annotations import OF_CONTAINER, SUFFIX
from nriplugin.kube.quantity import parse
from nriplugin.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.engine.settings import Settings
    from nriplugin.kube.manifests import ManifestPod

PAGE_BYTES = 4096

_LISTS = ("initContainers", "containers", "ephemeralContainers")
_REQUIREMENTS = ("requests", "limits", "claims")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
# A list in a manifest may be an alias of itself; nobody reads more warnings than this.
_MAX = 20


def warnings_about_pod(
    pod: ManifestPod, settings: Mapping[str, Settings]
) -> tuple[str, ...]:
    """Return what is worth a second look in a pod's manifest.

    Args:
        pod: as the manifest has it.
        settings: those of each container, by its name.
    """
    found = []
    for one in (*_all(pod), *_about_unread(pod, settings)):
        if one not in found:
            found.append(one)
        if len(found) == _MAX:
            break
    return tuple(found)


def _all(pod: ManifestPod) -> Iterator[str]:
    spec = _mapping(pod.template.get("spec"))
    names = []
    for key in _LISTS:
        entries = spec.get(key)
        for entry in entries if isinstance(entries, list) else ():
            name = str(_mapping(entry).get("name"))
            names.append(name)
            yield from _about_container(f"container {name}", _mapping(entry))
    if "resources" in spec:
        yield from _about_resources("spec.resources", _mapping(spec["resources"]))
    yield from _about_annotations(pod, names)


def _about_container(where: str, container: Mapping[str, Any]) -> Iterator[str]:
    for key in container:
        # Near enough that no key of a container is: `restartPolicy` is not.
        if key != "resources" and (
            advice := suggestion(key, ["resources"], cutoff=0.8)
        ):
            yield f"{where}: {key}: not a key of a container{advice}"
    for key in _REQUIREMENTS[:2]:
        if key in container:
            yield (
                f"{where}: {key}: not a key of a container; did you mean "
                f"'resources.{key}'?"
            )
    yield from _about_resources(
        f"{where}: resources", _mapping(container.get("resources"))
    )


def _about_resources(where: str, resources: Mapping[str, Any]) -> Iterator[str]:
    for key in resources:
        if key not in _REQUIREMENTS:
            expected = ", ".join(_REQUIREMENTS)
            advice = suggestion(key, _REQUIREMENTS)
            yield f"{where}.{key}: has no effect, expected {expected}{advice}"
    for key in ("requests", "limits"):
        for name, amount in _mapping(resources.get(key)).items():
            yield from _about_amount(f"{where}.{key}.{name}", str(name), amount)


def _about_amount(where: str, name: str, amount: object) -> Iterator[str]:
    if "/" not in name and not name.startswith("hugepages-"):
        advice = suggestion(name, _RESOURCES)
        if name not in _RESOURCES:
            yield f"{where}: not a resource of Kubernetes{advice}"
    if name != "memory":
        return
    try:
        number = parse(amount)
    except ConfigError:  # which is told elsewhere
        return
    if 0 < number < PAGE_BYTES:
        text = str(amount)
        advice = ""
        if text.endswith("m"):
            advice = f"; did you mean '{text[:-1]}Mi'?"
        elif text.isdigit():
            advice = f"; did you mean '{text}Mi'?"
        yield (
            f"{where}: {text} is {float(number):g} bytes, "
            f"less than a page of {PAGE_BYTES}{advice}"
        )


def _about_annotations(pod: ManifestPod, names: list[str]) -> Iterator[str]:
    known = {key for handler in table.HANDLERS for key in handler.annotations}
    for key in sorted(pod.annotations):
        name, found, rest = key.partition(SUFFIX)
        if found and name not in known and (advice := suggestion(name, known)):
            yield f"annotation {key:.120}: not one of nriplugin{advice}"
        if not found:
            name, _, domain = key.partition("/")[0].partition(".")
            if name in known and suggestion(domain, [SUFFIX[1:]], cutoff=0.8):
                meant = name + SUFFIX
                yield (
                    f"annotation {key:.120}: not one of nriplugin; did you mean "
                    f"{meant!r}?"
                )
        container = rest.removeprefix(OF_CONTAINER)
        if found and container != rest and container not in names:
            yield (
                f"annotation {key:.120}: the pod has no container {container!r:.80}, "
                f"expected one of {', '.join(names)}{suggestion(container, names)}"
            )
    if pod.path:
        for key in sorted(pod.owner_annotations):
            if SUFFIX in key and key not in pod.annotations:
                yield (
                    f"annotation {key:.120}: has no effect on the {pod.kind}; pods get "
                    f"the annotations of {pod.path}.metadata"
                )


def _about_unread(pod: ManifestPod, settings: Mapping[str, Settings]) -> Iterator[str]:
    """Return the annotations whose handlers are off for all containers concerned."""
    for key in sorted(pod.annotations):
        name, found, rest = key.partition(SUFFIX)
        if not found:
            continue
        readers = {handler.name for handler in table.HANDLERS if handler.reads(name)}
        container = rest.removeprefix(OF_CONTAINER)
        concerned = [
            one for own, one in settings.items() if not rest or own == container
        ]
        if (
            readers
            and concerned
            and all(readers.isdisjoint(one.active) for one in concerned)
        ):
            off = " and ".join(sorted(readers))
            verb = "is" if len(readers) == 1 else "are"
            yield f"annotation {key:.120}: has no effect, because {off} {verb} off"


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}
