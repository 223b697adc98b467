"""An update whose handler failed or is late: an empty answer is not harmless."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, Recorder, be_late, container, pod, raw_peer

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import RequestFails
from nriplugin.nri import FailurePolicy
from nriplugin.wire.ttrpc import Code

if TYPE_CHECKING:
    from support.harness import RawPeer

UPDATE = nri.UpdateContainerRequest(pod=pod(), container=container())


def holding(value: str) -> nri.UpdateContainerResponse:
    response = nri.UpdateContainerResponse()
    update = response.update.add(container_id="c1")
    update.linux.resources.unified["memory.max"] = value
    return response


class Undecided(Recorder):
    """A plugin whose update handler hangs until it is released, or fails at once."""

    def __init__(self, fallback: str | None, *, fails: bool) -> None:
        super().__init__()
        self.fallback = fallback
        self.fails = fails
        self.entered = threading.Event()
        self.release = threading.Event()

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse:
        if self.fails:
            raise ZeroDivisionError
        self.entered.set()
        assert self.release.wait(PATIENCE_S)
        return holding("late")

    def fallback_update(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        if self.fallback == "refuse":
            raise RequestFails("try again")
        if self.fallback == "break":
            raise KeyError(request.container.id)
        return None if self.fallback is None else holding(self.fallback)


def answered(plugin: Undecided, peer: RawPeer) -> tuple[int, str, dict[str, str]]:
    """Return what an update is answered, whose time is over if the plugin hangs."""
    peer.send("UpdateContainer", UPDATE)
    if not plugin.fails:
        assert plugin.entered.wait(PATIENCE_S)
        be_late(peer.session)
    answer = peer.answer()
    response = nri.UpdateContainerResponse.FromString(answer.payload)
    files = {
        f: v for u in response.update for f, v in u.linux.resources.unified.items()
    }
    return answer.code, answer.reason, files


@pytest.mark.parametrize("fails", [True, False])
def test_the_plugin_is_asked_for_something_better(fails: bool) -> None:
    """`fallback_update` answers an update whose handler has failed or is late."""
    plugin = Undecided("4096", fails=fails)
    with raw_peer(plugin) as peer:
        peer.begin()
        assert answered(plugin, peer) == (0, "", {"memory.max": "4096"})
        plugin.release.set()


@pytest.mark.parametrize("fails", [True, False])
def test_it_may_have_the_update_fail(fails: bool) -> None:
    """If `fallback_update` raises RequestFails, the update fails."""
    plugin = Undecided("refuse", fails=fails)
    with raw_peer(plugin) as peer:
        peer.begin()
        code, reason, files = answered(plugin, peer)
        plugin.release.set()
    assert code == (Code.UNKNOWN if fails else Code.DEADLINE_EXCEEDED)
    assert reason.endswith("try again")
    assert files == {}


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("fallback", [None, "break"])
def test_without_anything_better_the_answer_is_empty(
    fallback: str | None, fails: bool
) -> None:
    """If `fallback_update` returns None or has an error, the answer is empty."""
    plugin = Undecided(fallback, fails=fails)
    with raw_peer(plugin) as peer:
        peer.begin()
        assert answered(plugin, peer) == (0, "", {})
        plugin.release.set()


def test_a_plugin_that_is_to_fail_is_not_asked() -> None:
    """With the policy `fail`, `fallback_update` is not called."""
    plugin = Undecided("4096", fails=True)
    plugin.failure_policy = FailurePolicy.FAIL
    with raw_peer(plugin) as peer:
        peer.begin()
        code, _, files = answered(plugin, peer)
    assert (code, files) == (Code.UNKNOWN, {})
