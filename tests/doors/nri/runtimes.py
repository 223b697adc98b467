"""A model of a runtime beside the model of a kernel: what it keeps, and what it writes.

As containerd with runc: an answer is merged into the container's stored numbers and
`unified`; at every creation and update the files that follow from the numbers are
written first, and everything in `unified` after them, in any order. With the systemd
driver, runc has systemd set the unit's weight before all of that: a cpu.idle of 1 in
`unified` is the weight "idle", and any other weight ends idle. systemd before 252 does
not know this weight.
"""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cgroup.kernels import Kernel
from doors.nri.messages import creation, existing, pod_at, seen, updating
from doors.nri.nodes import FACTS, background_of, configure, plugin_on
from support.harness import container
from support.trees import CONTAINER, CONTAINER_ID, POD, UID

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.convert import convert
from nriplugin.convert.readers import core_from_nri
from nriplugin.errors import CgroupError, RequestFails
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.ownership_records import OwnershipRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nriplugin.doors.nri.plugin import NodePlugin

    Order = Callable[[Sequence[str]], Sequence[str]]

NUMBERS = ("shares", "quota_us", "limit_bytes")


class Place(NamedTuple):
    """Where a driver puts the pod and the container."""

    pod: str
    container: str
    parent: str  # as kubelet names the pod's cgroup
    path: str  # as the runtime names the container's


_SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
_POD = f"/kubepods.slice/kubepods-burstable.slice/{_SLICE}"
PLACES = {
    "cgroupfs": Place(POD, CONTAINER, POD, CONTAINER),
    "systemd": Place(
        _POD,
        f"{_POD}/cri-containerd-{CONTAINER_ID}.scope",
        _SLICE,
        f"{_SLICE}:cri-containerd:{CONTAINER_ID}",
    ),
}


class UpdateFailed(Exception):
    """The update failed, so that kubelet would try again."""


@dataclass
class Spec:
    """The resources that a runtime keeps for a container."""

    numbers: dict[str, int]
    unified: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class ModelRuntime:
    """A runtime with one container in one pod, and a plugin that can be restarted."""

    def __init__(
        self,
        state: str,
        *,
        shows_unified: bool = True,
        annotations: Mapping[str, str] | None = None,
        oom_score: int = 998,
        order: Order = sorted,
        runtime: str = "containerd",
        version: str = "",
        read_only: bool = False,
        driver: str = "cgroupfs",
        systemd_idles: bool = True,
    ) -> None:
        self.facts = FACTS._replace(driver=driver)
        self.systemd_idles = systemd_idles and driver == "systemd"
        self.place = place = PLACES[driver]
        above = itertools.accumulate(place.container[1:].split("/"), "{}/{}".format)
        self.kernel = Kernel(2, [f"/{path}" for path in above])
        self.kernel.files[f"{place.pod}/cpu.max"] = "400000 100000"
        self.state = state
        self.shows_unified = shows_unified
        self.pod = pod_at(place.parent, annotations)
        self.oom_score = oom_score
        self.order = order
        self.name, self.version = runtime, version
        self.read_only = read_only
        self.spec = Spec({})
        self.plugin: NodePlugin | None = None
        self.config = ""

    # The plugin

    def connect(self, config: str | None = None) -> None:
        """Start a plugin in place of the earlier one, and synchronize it."""
        self.config = self.config if config is None else config
        tree = self.kernel.tree
        records = OwnershipRecords(self.state)
        if self.read_only:
            plugin = plugin_on(self.facts, tree, records=records)
        else:
            plugin = plugin_on(
                self.facts,
                tree,
                open_writer=lambda: DirectWriter(tree, Executor(tree, refresh_s=0.0)),
                records=records,
                written_before=lambda: bool(self.spec.numbers),
            )
        configure(plugin, self.config)
        known = "2.4.2" if self.shows_unified else "2.1.0"
        nri_version = "0.12.5" if self.shows_unified and not self.version else ""
        plugin.configure(
            nri.ConfigureRequest(
                runtime_name=self.name,
                runtime_version=self.version or known,
                NRI_version=nri_version,
            )
        )
        self.plugin = plugin
        there = [self.shown()] if self.spec.numbers else []
        updates = plugin.synchronize(*existing([self.pod], there))
        for update in updates or ():
            self.spec.unified.update(update.linux.resources.unified)
            self._write()
        self._settle()

    def disconnect(self) -> None:
        """Kill the plugin."""
        self.plugin = None

    def reload(self, config: str) -> None:
        """Apply another configuration to the plugin, if it is connected."""
        self.config = config
        if self.plugin is not None:
            configure(self.plugin, config)

    # The container

    def create(
        self, numbers: dict[str, int], unified: Mapping[str, str] | None = None
    ) -> None:
        """Make the container, and start it.

        `unified` is what a plugin before ours has set: with the creation, every runtime
        shows that.
        """
        self.spec = Spec(dict(numbers), dict(unified or {}))
        if self.plugin is not None:
            shown = self.shown()
            shown.linux.resources.unified.update(unified or {})
            answer = self.plugin.create_container(creation(self.pod, shown))
            if answer is not None:
                adjusted = answer.adjust.linux.resources
                if adjusted.cpu.HasField("shares") and not adjusted.cpu.shares.value:
                    del self.spec.numbers["shares"]
                self._merge(adjusted)
                self.spec.annotations.update(answer.adjust.annotations)
        self._write()
        if self.plugin is not None:
            self.plugin.start_container(b"", seen(view.Container, self.shown()))
        self._settle()

    def update(self, numbers: Mapping[str, int], *, by_handlers: bool = True) -> None:
        """Have kubelet ask for numbers; none is an update of the cpuset alone.

        If not `by_handlers`, then they fail, and the plugin answers without them.
        """
        asked = container(**numbers).linux.resources
        merged = nri.LinuxResources()
        merged.CopyFrom(asked)
        if self.plugin is not None:
            request = updating(self.pod, self.shown(), asked)
            plugin = self.plugin
            ask = plugin.update_container if by_handlers else plugin.fallback_update
            try:
                answer = ask(request)
            except RequestFails as exc:
                raise UpdateFailed(exc) from exc
            for update in () if answer is None else answer.update:
                self._lay_over(merged, update.linux.resources)
        before = deepcopy(self.spec)
        if self.name == "cri-o":  # before 1.36
            merged.ClearField("unified")
        self._merge(merged)
        try:
            self._write()
        except UpdateFailed:
            self.spec = before
            raise
        if self.plugin is not None:
            shown = seen(view.Container, self.shown())
            self.plugin.post_update_container(b"", shown)
            self._settle()

    def files(self) -> dict[str, str]:
        """Return the container's files in the kernel, and the burst of its pod."""
        names = (
            *("cpu.weight", "cpu.idle", "cpu.max", "cpu.max.burst"),
            *("memory.max", "memory.high", "memory.low", "memory.min"),
        )
        pod, own = self.place.pod, self.place.container
        held = {name: self.kernel.files[f"{own}/{name}"] for name in names}
        held["pod's cpu.max.burst"] = self.kernel.files[f"{pod}/cpu.max.burst"]
        return held

    # Parts of the above

    def shown(self) -> nri.Container:
        """Return the container as the runtime shows it to plugins."""
        shown = container(1, **self.spec.numbers)
        shown.pod_sandbox_id = self.pod.id
        shown.linux.cgroups_path = self.place.path
        shown.linux.oom_score_adj.value = self.oom_score
        shown.state = nri.CONTAINER_RUNNING
        shown.annotations.update(self.spec.annotations)
        if self.shows_unified:
            shown.linux.resources.unified.update(self.spec.unified)
        return shown

    def _lay_over(self, merged: nri.LinuxResources, answer: nri.LinuxResources) -> None:
        merged.unified.update(answer.unified)
        if answer.cpu.HasField("shares"):
            merged.cpu.shares.value = answer.cpu.shares.value

    def _merge(self, resources: nri.LinuxResources) -> None:
        given = {
            "shares": resources.cpu.shares.value,
            "quota_us": resources.cpu.quota.value,
            "limit_bytes": resources.memory.limit.value,
        }
        # At an update 0 is "not given", and the earlier number stays.
        self.spec.numbers |= {name: value for name, value in given.items() if value}
        self.spec.unified.update(resources.unified)

    def _write(self) -> None:
        numbers = container(**self.spec.numbers).linux.resources
        made = convert(core_from_nri(numbers)).files
        unified, own = self.spec.unified, self.place.container
        try:
            if self.systemd_idles:
                idle = unified.get("cpu.idle")
                if idle == "1" or "cpu.weight" in {**made, **unified}:
                    self.kernel.write(f"{own}/cpu.idle", idle or "0")
            for file, value in made.items():
                self.kernel.write(f"{own}/{file}", value)
            for file in self.order(list(unified)):
                self.kernel.write(f"{own}/{file}", unified[file])
        except CgroupError as exc:
            raise UpdateFailed(exc) from exc

    def _settle(self) -> None:
        if self.plugin is None:
            return
        background = background_of(self.plugin)
        while (
            background.now or background.later or background.timed
        ):  # jobs may lead to others
            background.work()
            background.work_later()
            background.work_when_time_is_up()
