"""The embedded runtime merges answers of two plugins as the Go library does."""

from __future__ import annotations

import random
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from support.gopeers import NEWEST, GoRuntime, GoRuntimeError
from support.harness import PATIENCE_S, PATIENT, running

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin, session
from nriplugin.nri.testing.runtime import EmbeddedRuntime, RequestRejected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

pytestmark = pytest.mark.needs_go

CASES = 400
POD = nri.PodSandbox(id="p1", name="web", namespace="default", uid="u1")

# Few, so that plugins meet; those with a marker remove.
WORDS = ("", "a", "b", "c", "-a", "-b")

# The library goes through these in no particular order.
UNORDERED = {"mounts", "namespaces"}
MAPS = {"Annotations", "CgroupsUnified", "Sysctl", "LinuxNetDevices"}

CONFLICT = re.compile(
    r'plugins "?([\w-]+)"? and "?([\w-]+)"? both (?:tried to )?set (.*)'
)

Outcome = tuple[str, Any]


class Scripted(Plugin):
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.created = nri.CreateContainerResponse()
        self.updated: list[nri.ContainerUpdate] = []
        self.asked: Message = nri.Empty()

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        self.asked = request
        return self.created

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse:
        self.asked = request
        return nri.UpdateContainerResponse(update=self.updated)

    def stop_container(
        self, request: nri.StopContainerRequest
    ) -> nri.StopContainerResponse:
        self.asked = request
        return nri.StopContainerResponse(update=self.updated)


class Pair:
    """Two scripted plugins on each of the two runtimes."""

    def __init__(self, go: GoRuntime, ours: EmbeddedRuntime) -> None:
        self.go = go
        self.ours = ours
        self.on_go = (Scripted(), Scripted())
        self.on_ours = (Scripted(), Scripted())

    def script(
        self,
        created: tuple[nri.CreateContainerResponse, nri.CreateContainerResponse]
        | None = None,
        updated: tuple[list[nri.ContainerUpdate], list[nri.ContainerUpdate]]
        | None = None,
    ) -> None:
        """Say what the first and the second plugin answer."""
        for plugins in (self.on_go, self.on_ours):
            for i, plugin in enumerate(plugins):
                plugin.asked = nri.Empty()
                if created is not None:
                    plugin.created = created[i]
                if updated is not None:
                    plugin.updated = updated[i]

    def seen(self) -> tuple[list[Any], list[Any]]:
        """Return what the plugins of either runtime were asked."""
        return (
            [plain(plugin.asked) for plugin in self.on_go],
            [plain(plugin.asked) for plugin in self.on_ours],
        )


@pytest.fixture(scope="module")
def pair(go_peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    path = str(tmp_path_factory.mktemp("ours") / "nri.sock")
    with (
        pytest.MonkeyPatch.context() as patch,
        GoRuntime(go_peers, NEWEST) as go,
        EmbeddedRuntime(path, PATIENT) as ours,
        ExitStack() as stack,
    ):
        # The comparison covers what the SDK does not pass on to a plugin, too.
        patch.setattr(session, "drop_harmful", lambda *args: None)
        go.start(request_timeout_ms=int(PATIENCE_S * 1000))
        pair = Pair(go, ours)
        for plugins, socket in ((pair.on_go, go.socket), (pair.on_ours, path)):
            for plugin, name, idx in zip(plugins, "ab", ("10", "20"), strict=True):
                stack.enter_context(running(plugin, socket, name, idx))
        go.wait_sync(2)
        ours.wait_for_plugin(2, timeout_s=PATIENCE_S)
        yield pair


def fill(message: Any, rng: random.Random, density: float) -> None:
    """Set some fields of a message, and of the messages in it, to something."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() >= density:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            target = getattr(message, field.name)
            for _ in range(rng.randint(1, 2)):
                key = rng.choice(WORDS[1:])
                if field.message_type.fields_by_name["value"].message_type:
                    fill(target[key], rng, density)
                else:
                    target[key] = rng.choice(WORDS)
        elif field.is_repeated:
            target = getattr(message, field.name)
            for _ in range(rng.randint(1, 2)):
                if field.message_type:
                    fill(target.add(), rng, 0.7)
                else:
                    target.append(scalar(field, rng))
        elif field.message_type:
            target = getattr(message, field.name)
            target.SetInParent()
            optional = field.message_type.name.startswith("Optional")
            fill(target, rng, 0.7 if optional else max(density, 0.2))
        else:
            setattr(message, field.name, scalar(field, rng))


def scalar(field: Any, rng: random.Random) -> Any:
    """Return a value for a field that is no message."""
    if field.enum_type:
        return rng.choice(field.enum_type.values).number
    if field.type == field.TYPE_STRING:
        return rng.choice(WORDS)
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    return rng.randint(0, 3)


def some_container(rng: random.Random) -> nri.Container:
    container = nri.Container()
    fill(container, rng, 0.3)
    container.id, container.pod_sandbox_id, container.name = "c1", "p1", "app"
    return container


def some_updates(rng: random.Random, density: float) -> list[nri.ContainerUpdate]:
    """Return updates of the container that the request is about, and of others."""
    updates = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        update = nri.ContainerUpdate(container_id=rng.choice(("c1", "c1", "x", "y")))
        if rng.random() < 0.9:
            update.linux.resources.SetInParent()
            fill(update.linux.resources, rng, density)
        update.ignore_failure = rng.random() < 0.3
        if update.ignore_failure:
            # Which of several the library claims before it fails is left to chance.
            for key in sorted(update.linux.resources.unified)[1:]:
                del update.linux.resources.unified[key]
        updates.append(update)
    return updates


def plain(message: Message) -> Any:
    """Return a message as a dictionary, without messages that hold nothing."""
    return _plain(MessageToDict(message, preserving_proto_field_name=True))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, entry in value.items():
        made = _plain(entry)
        if key in UNORDERED:
            made = sorted(made, key=str)
        if made != {} or key in OPTIONAL:
            result[key] = made
    return result


# Fields with a wrapper, in which nothing is a zero.
OPTIONAL = {
    field.name
    for message in nri.DESCRIPTOR.message_types_by_name.values()
    for field in message.fields
    if field.message_type and field.message_type.name.startswith("Optional")
}


def failure(error: Exception) -> Outcome:
    """Return which plugins are in conflict, and over which field."""
    conflict = CONFLICT.search(str(error))
    if conflict is None:
        return "failed", "creation" in str(error)
    *plugins, what = conflict.groups()
    field, _, key = what.strip().partition(" ")
    return "conflict", (sorted(plugins), field, "" if field in MAPS else key)


def go_updates(reply: dict[str, Any]) -> list[nri.ContainerUpdate]:
    return [ParseDict(update, nri.ContainerUpdate()) for update in reply["update"]]


def by_container(updates: list[nri.ContainerUpdate]) -> dict[str, Any]:
    return {update.container_id: plain(update) for update in updates}


def go_create(pair: Pair, container: nri.Container) -> Outcome:
    try:
        reply = pair.go(
            "create", pod=MessageToDict(POD), container=MessageToDict(container)
        )
    except GoRuntimeError as exc:
        return failure(exc)
    adjust = ParseDict(reply["adjust"] or {}, nri.ContainerAdjustment())
    return "created", (plain(adjust), by_container(go_updates(reply)))


def our_create(pair: Pair, container: nri.Container) -> Outcome:
    try:
        created = pair.ours.create_container(POD, container)
    except RequestRejected as exc:
        return failure(exc)
    return "created", (plain(created.adjust), by_container(created.updates))


def go_update(
    pair: Pair, container: nri.Container, asked: nri.LinuxResources
) -> Outcome:
    try:
        reply = pair.go(
            "update",
            pod=MessageToDict(POD),
            container=MessageToDict(container),
            resources=MessageToDict(asked),
        )
    except GoRuntimeError as exc:
        return failure(exc)
    updates = {update.container_id: update for update in go_updates(reply)}
    # A runtime applies the request itself where no plugin has a word to say.
    own = updates.pop("c1", None)
    applied = asked if own is None else own.linux.resources
    return "updated", (plain(applied), by_container(list(updates.values())))


def our_update(
    pair: Pair, container: nri.Container, asked: nri.LinuxResources
) -> Outcome:
    try:
        updated = pair.ours.update_container(POD, container, asked)
    except RequestRejected as exc:
        return failure(exc)
    return "updated", (plain(updated.resources), by_container(updated.updates))


def go_stop(pair: Pair, container: nri.Container) -> Outcome:
    try:
        reply = pair.go(
            "stop", pod=MessageToDict(POD), container=MessageToDict(container)
        )
    except GoRuntimeError as exc:
        return failure(exc)
    return "stopped", by_container(go_updates(reply))


def our_stop(pair: Pair, container: nri.Container) -> Outcome:
    try:
        return "stopped", by_container(pair.ours.stop_container(POD, container))
    except RequestRejected as exc:
        return failure(exc)


def test_creations_merge_alike(pair: Pair) -> None:
    """Whatever two plugins adjust, the result or the conflict is the library's."""
    rng = random.Random(1)
    outcomes = set()
    for case in range(CASES):
        density = rng.choice((0.05, 0.15, 0.3))
        answers = (nri.CreateContainerResponse(), nri.CreateContainerResponse())
        for answer in answers:
            fill(answer.adjust, rng, density)
            if rng.random() < 0.2:
                answer.update.extend(some_updates(rng, density))
        container = some_container(rng)
        pair.script(created=answers)
        expected = go_create(pair, container)
        assert our_create(pair, container) == expected, (case, answers)
        seen_on_go, seen_on_ours = pair.seen()
        assert seen_on_ours == seen_on_go, (case, answers)
        outcomes.add(expected[0])
    assert outcomes == {"created", "conflict", "failed"}


def test_updates_merge_alike(pair: Pair) -> None:
    """Answers are laid over the request as the library does, zeros included."""
    rng = random.Random(2)
    outcomes = set()
    for case in range(CASES):
        density = rng.choice((0.1, 0.3, 0.5))
        updated = (some_updates(rng, density), some_updates(rng, density))
        asked = nri.LinuxResources()
        fill(asked, rng, 0.5)
        container = nri.Container(id="c1", pod_sandbox_id="p1", name="app")
        pair.script(updated=updated)
        expected = go_update(pair, container, asked)
        assert our_update(pair, container, asked) == expected, (case, asked, updated)
        seen_on_go, seen_on_ours = pair.seen()
        assert seen_on_ours == seen_on_go, (case, asked, updated)
        outcomes.add(expected[0])
    assert outcomes == {"updated", "conflict"}


def test_updates_of_a_stop_merge_alike(pair: Pair) -> None:
    """A stopped container's plugins may update any container."""
    rng = random.Random(3)
    container = nri.Container(id="c1", pod_sandbox_id="p1", name="app")
    for case in range(CASES // 4):
        updated = (some_updates(rng, 0.2), some_updates(rng, 0.2))
        pair.script(updated=updated)
        assert our_stop(pair, container) == go_stop(pair, container), (case, updated)
