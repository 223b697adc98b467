"""A runtime that ignores `unified` at updates is found out, and then done without."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from doors.nri.messages import GIB, asking, container_at
from doors.nri.nodes import Node
from support.trees import CONTAINER

from nriplugin.api import nri_pb2 as nri
from nriplugin.state.pending_updates import MAX_DONE, PendingUpdate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

# The node's runtimes follow another curve, so this weight comes by `unified` alone.
CURVE = "curve: kep"
UNKNOWN = ("new-runtime", "v1.0")


def unified(answer: nri.UpdateContainerResponse | None) -> dict[str, str]:
    """Return the files in the answer to an update."""
    return {} if answer is None else dict(answer.update[0].linux.resources.unified)


class Runtime:
    """A runtime that applies `unified` at creations, and perhaps at updates."""

    def __init__(self, node: Node, *, ignores: bool) -> None:
        self.node, self.ignores = node, ignores
        self.connect(*UNKNOWN)
        node.synchronize([])

    def connect(self, name: str, version: str) -> None:
        """Say which runtime this is."""
        request = nri.ConfigureRequest(runtime_name=name, runtime_version=version)
        self.node.plugin.configure(request)

    def create(self) -> None:
        """Create and start the usual container."""
        created = self.node.create(container_at(shares=512))
        assert created is not None
        self._write(created.adjust.linux.resources.unified)
        self.node.start()
        self.node.verify()

    def resize(self, shares: int, native: str) -> dict[str, str]:
        """Resize it; return what nriplugin has answered.

        `native` is the weight that the runtime makes of the shares by itself.
        """
        answer = unified(self.node.update(asking(shares=shares)))
        self._write({"cpu.weight": native})
        if not self.ignores:
            self._write(answer)
        self.node.post_update()
        self.node.background.work()
        return answer

    def _write(self, files: Mapping[str, str]) -> None:
        for file, value in files.items():
            self.node.kernel.files[f"{CONTAINER}/{file}"] = value


def test_a_runtime_that_ignores_values_is_found_out_by_one_update(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """That update's values are written directly, and those of later ones at once."""
    node = Node(CURVE)
    runtime = Runtime(node, ignores=True)
    runtime.create()
    assert runtime.resize(1024, "100") == {"cpu.weight": "39"}
    assert node.of_container("cpu.weight") == "100"
    node.verify()
    assert node.of_container("cpu.weight") == "39"
    node.verify()
    assert node.plugin.lifecycle.inventory.drift_of("c1") == ()
    text = "new-runtime v1.0 ignores cgroup v2 values in the answer to an update"
    assert caplog.text.count(text) == 1
    # Without another comparison.
    assert runtime.resize(2048, "170") == {}
    assert node.of_container("cpu.weight") == "79"


def test_it_is_known_for_this_version_of_the_runtime(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another version is asked again, and the known one is not."""
    node = Node(CURVE)
    runtime = Runtime(node, ignores=True)
    runtime.create()
    runtime.resize(1024, "100")
    node.verify()
    lifecycle = node.plugin.lifecycle
    for version, ignores in (("v1.1", False), ("v1.0", True)):
        runtime.connect("new-runtime", version)
        assert lifecycle.plan.facts.drops_unified is ignores
    assert caplog.text.count("ignores cgroup v2 values") == 1


def test_a_runtime_that_has_applied_values_once_is_trusted() -> None:
    """What another program changes later is drift, and not the runtime's doing."""
    node = Node(CURVE)
    runtime = Runtime(node, ignores=False)
    runtime.create()
    runtime.resize(1024, "100")
    node.verify()
    runtime.ignores = True
    runtime.resize(2048, "170")
    node.verify()
    assert not node.plugin.lifecycle.plan.facts.drops_unified
    assert node.plugin.lifecycle.inventory.drift_of("c1") == ("cpu.weight",)


def test_values_that_the_runtime_makes_itself_show_nothing() -> None:
    """With the node's own curve, another weight is drift alone."""
    node = Node("{}")
    runtime = Runtime(node, ignores=True)
    runtime.create()
    runtime.resize(1024, "77")
    node.verify()
    assert not node.plugin.lifecycle.plan.facts.drops_unified


def test_without_direct_writes_nothing_changes() -> None:
    """Such a runtime would leave nriplugin without a way to set the values."""
    node = Node(CURVE)
    lifecycle = node.plugin.lifecycle
    lifecycle.writer_opening._create = None
    runtime = Runtime(node, ignores=True)
    runtime.create()
    runtime.resize(1024, "100")
    node.verify()
    assert not lifecycle.plan.facts.drops_unified
    assert lifecycle.inventory.drift_of("c1") == ("cpu.weight",)


def test_updates_of_containers_that_end_before_that_are_not_kept() -> None:
    """Where containers come and go fast, nothing grows with their number."""
    node = Node("resources: {enabled: true}")

    def kept() -> int:
        return sum(isinstance(one, PendingUpdate) for one in gc.get_objects())

    before = kept()
    for number in range(4 * MAX_DONE):
        app = container_at(number=number)
        node.create(app)
        node.start(app)
        node.update(asking(limit_bytes=2 * GIB), app)
        node.post_update(app)
        node.remove(app)
        if number % 100 == 0:
            node.verify(1)
    node.verify(1)
    assert kept() - before <= 2 * MAX_DONE
