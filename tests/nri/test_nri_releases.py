from __future__ import annotations

import pytest

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.methods import METHODS
from nriplugin.nri.misspelt import HANDLERS
from nriplugin.nri.plugin import Plugin
from nriplugin.nri.releases import release_of, valid_mask


@pytest.mark.parametrize(
    ("name", "version", "nri_version", "release"),
    [
        ("containerd", "v1.7.24", "", (0, 2, 0)),
        ("containerd", "2.1.9", "", (0, 2, 0)),
        ("v2", "v2.0.2", "", (0, 2, 0)),
        ("containerd", "2.2.0", "", (0, 10, 0)),
        ("containerd", "v2.2.1", "", (0, 11, 0)),
        ("containerd", "2.3.0-rc.1", "", (0, 12, 0)),
        ("containerd", "2.3.7", "", (0, 12, 0)),
        ("containerd", "2.4.0", "", (0, 12, 1)),
        ("containerd", "1.7.24~ds1", "", (0, 2, 0)),
        ("cri-o", "1.33.4", "", (0, 2, 0)),
        ("cri-o", "1.34.0", "", (0, 10, 0)),
        ("cri-o", "1.35.1-dev", "", (0, 11, 0)),
        ("containerd", "", "", (0, 2, 0)),
        ("containerd", "garbage", "", (0, 2, 0)),
        ("unknown", "99.0.0", "", (0, 2, 0)),
        ("containerd", "2.3.0", "v0.12.0", (0, 12, 0)),
        ("containerd", "2.3.0", "v0.12.1", (0, 12, 1)),
        ("containerd", "2.9.0", "0.13.0", (0, 13, 0)),
        ("containerd", "2.9.0", "0.13", (0, 13, 0)),
        ("containerd", "2.4.0", "v0.12.5+dirty", (0, 12, 5)),
        ("containerd", "2.4.0", "v0.12.1-0.20260101000000-8ec8b28", (0, 12, 0)),
        ("containerd", "2.4.0", "(devel)", (0, 12, 0)),
        ("containerd", "2.4.0", "0.0.0-unknown", (0, 12, 0)),
    ],
)
def test_release_follows_from_what_the_runtime_says(
    name: str, version: str, nri_version: str, release: tuple[int, int, int]
) -> None:
    """The release is announced or looked up; an unknown runtime has the oldest."""
    request = nri.ConfigureRequest(
        runtime_name=name, runtime_version=version, NRI_version=nri_version
    )
    assert release_of(request) == release


@pytest.mark.parametrize(
    ("release", "mask"),
    [
        ((0, 2, 0), 0x07FF),
        ((0, 9, 0), 0x07FF),
        ((0, 9, 9), 0x07FF),
        ((0, 10, 0), 0x3FFF),
        ((0, 13, 0), 0x3FFF),
    ],
)
def test_masks_are_those_of_the_go_library(
    release: tuple[int, int, int], mask: int
) -> None:
    """A mask has exactly the bits that the Go library of that release accepts."""
    assert valid_mask(release) == mask


def test_the_table_has_every_event_and_every_handler_once() -> None:
    """Every event has one row, and every row has a handler of `Plugin`."""
    events = {event for event in nri.Event.values() if event != nri.UNKNOWN}
    assert {method.event for method in METHODS} == events
    assert len({method.handler for method in METHODS}) == len(METHODS)
    others = {"stop", "enqueue_update", "attach", "attach_runner"}
    public = {name for name in vars(Plugin) if not name.startswith("_")}
    assert public - others - {"failure_policy", "views"} == set(HANDLERS)
