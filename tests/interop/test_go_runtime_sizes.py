from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.gopeers import Observed

pytestmark = pytest.mark.needs_go

# A ttRPC header has 10 bytes and Go reads through a buffer of 4096, so messages of
# either side of 4086 and 4096 are framed differently. 4 MiB is the longest there is.
LIMIT = 4 << 20
SIZES = (4085, 4086, 4087, 4096, 4097, 8182, 1 << 20)


@pytest.mark.parametrize("size", [*SIZES, 4_190_000])
def test_a_request_of_any_size_is_answered(observed: Observed, size: int) -> None:
    """The plugin reads requests on either side of every limit of framing."""
    assert observed.runtime.create(request_size=size)
    assert observed.log.calls() == [("CreateContainer", "p900000", "c900000")]


@pytest.mark.parametrize("size", [*SIZES, LIMIT - 1, LIMIT])
def test_an_answer_of_any_size_arrives(observed: Observed, size: int) -> None:
    """The runtime reads answers of the SDK on either side of every limit of framing."""
    pod = {"id": "p1", "annotations": {"reply-bytes": str(size)}}
    adjust = observed.runtime.create(pod=pod)
    padding = adjust["annotations"]["observer/padding"]
    assert size - 64 < len(padding) < size
    assert observed.runtime.create()


def test_an_answer_over_the_limit_is_not_sent(observed: Observed) -> None:
    """An answer that would end the connection is not sent, and the container starts."""
    pod = {"id": "p1", "annotations": {"reply-bytes": str(LIMIT + 1)}}
    assert observed.runtime.create(pod=pod) is None
    assert observed.runtime.create()


def test_large_both_ways(observed: Observed) -> None:
    """A large request and a large answer do not get in each other's way."""
    runtime = observed.runtime
    padding = {"padding": "x" * (2 << 20)}
    pod = {"id": "p1", "annotations": {"reply-bytes": str(3 << 20), **padding}}
    for _ in range(3):
        adjust = runtime.create(pod=pod)
        assert len(adjust["annotations"]["observer/padding"]) > (3 << 20) - 64
