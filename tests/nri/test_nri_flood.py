"""Requests that fail again and again: each is answered, few are told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.harness import Recorder, raw_peer

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import NRIPluginError
from nriplugin.wire.ttrpc import Code

if TYPE_CHECKING:
    from support.harness import RawPeer

# More than are logged at once, and more than a slow machine logs meanwhile.
MANY = 300


class Failing(Recorder):
    """A plugin that fails every creation."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def create_container(self, request: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "payload"),
    [
        (RuntimeError("clumsy"), b""),
        (NRIPluginError("no such value"), b""),
        (RuntimeError("not reached"), b"\xff\xff"),
    ],
    ids=["traceback", "one line", "undecodable"],
)
def test_failed_requests_do_not_flood_the_log(
    error: Exception, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that fail again and again are logged at a limited rate."""
    with raw_peer(Failing(error)) as peer:
        peer.begin()
        for _ in range(MANY):
            peer.ask("CreateContainer", payload, nri.CreateContainerResponse)
    assert peer.stats.failed == MANY
    assert 0 < len(told(caplog)) < MANY


def test_refused_requests_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Requests that are refused before a handler are logged at a limited rate."""
    with raw_peer(Recorder()) as peer:
        peer.begin()
        for _ in range(MANY):
            assert even_stream(peer) == Code.INVALID_ARGUMENT
    assert 0 < len(told(caplog)) < MANY


def even_stream(peer: RawPeer) -> int:
    """Send a request with an even stream id; return the code of the answer."""
    peer.connection.client._next_stream = 2
    peer.send("CreateContainer", b"")
    return peer.answer().code


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines that the session logged."""
    return [one.message for one in caplog.records if one.name.endswith("session")]
