"""Which values nriplugin set, in the CRI door: the record outlives the process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from doors.cri.fakes import Client, serving

from nriplugin.api import cri_pb2 as cri
from nriplugin.config import parse_config
from nriplugin.doors.cri.messages import container_of_status
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.model import NodeFacts
from nriplugin.node.ownership_records import OwnershipRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from doors.cri.fakes import FakeRuntime

GIB = 1 << 30
APP: dict[str, Any] = {
    "cpu_shares": 512,
    "cpu_quota": 100_000,
    "memory_limit_in_bytes": GIB,
}
BIGGER: dict[str, Any] = {
    "cpu_shares": 1024,
    "cpu_quota": 200_000,
    "memory_limit_in_bytes": 2 * GIB,
}
CONVERTED = {
    "cpu.weight": "100",
    "cpu.max": "200000 100000",
    "memory.max": str(2 * GIB),
}
THROTTLED = "memoryQoSLevel: {enabled: true, level: BE}"
FACTS = NodeFacts(files=ALLOWABLE, kernel=(6, 1))


def kept(fake: FakeRuntime, container_id: str) -> dict[str, str]:
    """Return the values that the runtime keeps and writes at every update."""
    return dict(fake.containers[container_id].config.linux.resources.unified)


@contextmanager
def kubelet_of(fake: FakeRuntime, tmp_path: Path, config: str) -> Iterator[Client]:
    """A client of a new proxy with a configuration and the same state directory."""
    path = str(tmp_path / "proxy.sock")
    records = OwnershipRecords(str(tmp_path / "state"))
    with serving(fake, path, FACTS, records=records) as door:
        door.apply(parse_config(config, "test"))
        with Client(path) as kubelet:
            yield kubelet


@pytest.mark.parametrize("by_update", [True, False])
@pytest.mark.parametrize("repeats", [True, False])
def test_a_handler_turned_off_with_a_restart_leaves_nothing_behind(
    fake: FakeRuntime, tmp_path: Path, by_update: bool, repeats: bool
) -> None:
    """Its values are removed, from the creation as well as from an update."""
    fake.repeats_resources = repeats
    with kubelet_of(fake, tmp_path, "" if by_update else THROTTLED) as kubelet:
        container_id = kubelet.create(kubelet.run_pod(), **APP)
    if by_update:
        with kubelet_of(fake, tmp_path, THROTTLED) as kubelet:
            kubelet.update(container_id, memory_limit_in_bytes=GIB // 2)
    assert kept(fake, container_id)["memory.high"] != "max"
    with kubelet_of(fake, tmp_path, "") as kubelet:
        kubelet.update(container_id, **BIGGER)
    assert kept(fake, container_id) == {**CONVERTED, "memory.high": "max"}


def test_values_of_others_stay_theirs_after_a_restart(
    fake: FakeRuntime, tmp_path: Path
) -> None:
    """kubelet's value stays, also if it equals one that nriplugin would set."""
    with kubelet_of(fake, tmp_path, "") as kubelet:
        unified = {"cpu.weight": "59"}
        container_id = kubelet.create(kubelet.run_pod(), **APP, unified=unified)
    with kubelet_of(fake, tmp_path, "") as kubelet:
        kubelet.update(container_id, **BIGGER)
    assert kept(fake, container_id) == {**CONVERTED, "cpu.weight": "59"}


def test_the_record_alone_tells_the_values_of_others() -> None:
    """Not every runtime shows the OCI spec."""
    response = cri.ContainerStatusResponse()
    response.status.annotations["managed.cgroup2.nri.io"] = "memory.max=1;cpu.weight~7"
    record = container_of_status(response).record
    assert record is not None
    assert record.others == {"cpu.weight": "7"}
    assert "cpu.weight" not in record.files
