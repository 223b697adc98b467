"""Writes to slices and scopes, over a real message bus to a stand-in for systemd."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cgroup.buses import FakeSystemd, MessageBus
from hypothesis import given
from hypothesis import strategies as st
from support.harness import PATIENCE_S
from support.trees import CONTAINER_ID, UID, make_v1, make_v2

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.systemd.dbus import Bus, BusError
from nriplugin.cgroup.systemd.properties import INFINITY
from nriplugin.cgroup.systemd.units import SystemdWriter, unit_of
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.cgroup.types.tree import Tree

ROOT = "/kubepods.slice"
QOS = f"{ROOT}/kubepods-burstable.slice"
POD_UNIT = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
POD = f"{QOS}/{POD_UNIT}"
UNIT = f"cri-containerd-{CONTAINER_ID}.scope"
SCOPE = f"{POD}/{UNIT}"
INNER = f"{SCOPE}/container"

# Property -> the file that systemd writes for it, and what it writes without it.
FILES = {
    "CPUWeight": ("cpu.weight", "100"),
    "MemoryMin": ("memory.min", "0"),
    "MemoryLow": ("memory.low", "0"),
    "MemoryHigh": ("memory.high", "max"),
    "MemoryMax": ("memory.max", "max"),
    "MemorySwapMax": ("memory.swap.max", "max"),
    "TasksMax": ("pids.max", "max"),
}


class Node:
    """A tree, and a systemd that writes all files of a controller at a time."""

    def __init__(self, root: Path, bus_path: str) -> None:
        self.root = root
        self.tree: Tree = make_v2(root, (ROOT, QOS, POD, SCOPE, INNER))
        self.known: dict[str, dict[str, Any]] = {}
        self.deaf = False
        # File -> a text that the kernel does not take.
        self.refused: dict[str, str] = {}
        self.bus_path = bus_path
        self.systemd = FakeSystemd(bus_path, self.realise)
        self.bus = Bus(bus_path, timeout_s=PATIENCE_S)
        self.writer = SystemdWriter(self.bus)

    def close(self) -> None:
        self.systemd.stop()
        self.bus.close()
        assert isinstance(self.tree.files, LocalFiles)
        self.tree.files.close()

    def realise(self, unit: str, properties: dict[str, Any]) -> None:
        """Write what systemd knows of a unit, and its defaults for the rest."""
        known = self.known.setdefault(unit, {})
        known.update(properties)
        if self.deaf:
            return
        (directory,) = self.root.rglob(unit)
        controllers = {self.file_of(name).partition(".")[0] for name in properties}
        for name, (file, default) in FILES.items():
            if file.partition(".")[0] in controllers:
                value = known.get(name, default)
                text = default if value == INFINITY else str(value)
                self.put(directory / file, text)
        (directory / "memory.oom.group").write_text("0\n")
        if "cpu" in controllers:
            idle = int(known.get("CPUWeight") == 0)
            self.put(directory / "cpu.idle", str(idle))
            quota, period = (
                known.get(f"CPUQuotaPer{word}USec", default)
                for word, default in (("Sec", INFINITY), ("iod", 100_000))
            )
            shown = "max" if quota == INFINITY else quota * period // 1_000_000
            self.put(directory / "cpu.max", f"{shown} {period}")

    def put(self, path: Path, text: str) -> None:
        """Write a file, if the kernel takes that."""
        if self.refused.get(path.name) != text:
            path.write_text(f"{text}\n")

    def reload(self) -> None:
        """Do as a `daemon-reload` does; then the kernel may take what it did not."""
        self.refused.clear()
        for unit in self.known:
            self.realise(unit, dict(self.known[unit]))

    @staticmethod
    def file_of(name: str) -> str:
        return FILES[name][0] if name in FILES else "cpu.max"

    def write(self, file: str, cgroup: str, content: str) -> bool | str:
        resource = next(r for r in self.tree.registry if r.file == file)
        return self.writer.write(self.tree, resource, cgroup, content)

    def set_directly(self, file: str, content: str, cgroup: str = SCOPE) -> None:
        (self.root / cgroup[1:] / file).write_text(f"{content}\n")

    def holds(self, file: str, cgroup: str = SCOPE) -> str:
        return (self.root / cgroup[1:] / file).read_text().strip()


@pytest.fixture
def message_bus(tmp_path: Path) -> Iterator[MessageBus]:
    with MessageBus(tmp_path) as running:
        yield running


@pytest.fixture
def node(tmp_path: Path, message_bus: MessageBus) -> Iterator[Node]:
    running = Node(tmp_path / "cgroup", message_bus.path)
    yield running
    running.close()


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        (ROOT, "kubepods.slice"),
        (QOS, "kubepods-burstable.slice"),
        (POD, POD_UNIT),
        (SCOPE, UNIT),
    ],
)
def test_the_property_of_a_unit_is_set_for_as_long_as_it_lives(
    node: Node, cgroup: str, unit: str
) -> None:
    """The property is set at run time only, and the file holds it after the write."""
    assert node.write("cpu.weight", cgroup, "79") is True
    assert node.systemd.calls == [(unit, True, {"CPUWeight": 79})]
    assert node.holds("cpu.weight", cgroup) == "79"


def test_a_quota_lands_rounded(node: Node) -> None:
    """A quota that systemd rounded, as a daemon-reload would, counts as set."""
    for _ in range(2):
        assert node.write("cpu.max", SCOPE, "12345 100000") is True
        assert node.holds("cpu.max") == "13000 100000"


@pytest.mark.parametrize(
    ("file", "content", "properties"),
    [
        ("cpuset.cpus", "0,9", {"AllowedCPUs": b"\x01\x02"}),
        ("cpuset.mems", "", {"AllowedMemoryNodes": b""}),
        ("memory.max", "max", {"MemoryMax": INFINITY}),
        ("io.max", "8:0 rbps=1", {"IOReadBandwidthMax": [("/dev/block/8:0", 1)]}),
        ("io.weight", "8:0 5", {"IODeviceWeight": [("/dev/block/8:0", 5)]}),
    ],
)
def test_every_kind_of_value_crosses_the_bus(
    node: Node, file: str, content: str, properties: dict[str, Any]
) -> None:
    """Numbers, masks and lists of devices."""
    node.deaf = True
    node.write(file, SCOPE, content)
    assert node.systemd.calls[0] == (UNIT, True, properties)


def test_a_limit_that_the_kernel_did_not_take_is_withdrawn(node: Node) -> None:
    """The unit does not keep a limit for a device that does not exist."""
    node.set_directly("io.max", "8:0 rbps=7 wbps=max riops=max wiops=max")
    node.deaf = True
    assert isinstance(node.write("io.max", SCOPE, "9:9 rbps=1"), str)
    _, (_, _, withdrawn) = node.systemd.calls
    rates = [("/dev/block/8:0", 7), ("/dev/block/9:9", INFINITY)]
    assert withdrawn["IOReadBandwidthMax"] == rates


@pytest.mark.parametrize(
    ("file", "held", "content"),
    [
        ("cpu.weight", "250", "500"),
        ("cpu.idle", "0", "1"),
        ("cpu.max", "max 100000", "50000 100000"),
        ("cpu.max", "12345 100000", "50000 100000"),
        ("memory.high", "max", "4096"),
        ("memory.max", "1048576", "4096"),
        ("pids.max", "100", "7"),
    ],
)
def test_what_the_kernel_refuses_does_not_come_with_the_next_reload(
    node: Node, file: str, held: str, content: str
) -> None:
    """The unit is given what the file holds, and what the runtime wrote stays."""
    node.set_directly("cpu.weight", "250")
    node.set_directly(file, held)
    node.set_directly("memory.swap.max", "0")
    node.refused[file] = content
    reason = node.write(file, SCOPE, content)
    assert (
        reason == f"systemd, {UNIT}: it took {content!r}, but {file} is {held!r} still"
    )
    assert node.holds(file) == held
    assert node.holds("cpu.weight") == "250"
    assert node.holds("memory.swap.max") == "0"
    node.reload()
    if held.startswith("12345"):
        held = "13000 100000"  # in steps of 1 %, as systemd has it
    assert node.holds(file) == held
    if file.startswith("cpu.") and file != "cpu.max":
        assert node.holds("cpu.weight") == "250"


def test_an_idle_cgroup_whose_weight_is_refused_stays_idle(node: Node) -> None:
    """The unit is given idle again, which is a weight to systemd."""
    node.set_directly("cpu.idle", "1")
    node.set_directly("cpu.weight", "1")
    node.refused.update({"cpu.weight": "500", "cpu.idle": "0"})
    assert isinstance(node.write("cpu.weight", SCOPE, "500"), str)
    assert node.known[UNIT]["CPUWeight"] == 0
    node.reload()
    assert node.holds("cpu.idle") == "1"


def test_a_refused_value_that_cannot_be_taken_back_is_told(node: Node) -> None:
    """If no property can express what the file holds, the reason says so."""
    node.set_directly("memory.max", "0")
    node.refused["memory.max"] = "4096"
    reason = node.write("memory.max", SCOPE, "4096")
    assert reason == (
        f"systemd, {UNIT}: it took '4096', but memory.max is '0' still; "
        "the unit keeps it, because no property says '0'"
    )


def test_a_bus_that_falls_silent_before_a_refused_value_is_taken_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason says that the unit still has the refused value."""
    node.refused["memory.max"] = "4096"
    call = node.bus.call

    def once(*arguments: Any, **named: Any) -> Any:
        if node.systemd.calls and arguments[3] == "SetUnitProperties":
            raise BusError("no answer")
        return call(*arguments, **named)

    monkeypatch.setattr(node.bus, "call", once)
    reason = node.write("memory.max", SCOPE, "4096")
    assert isinstance(reason, str)
    assert reason.endswith("; the unit keeps it: no answer")


def test_what_systemd_undoes_is_put_back(node: Node) -> None:
    """Files that the runtime wrote directly hold the same after any property is set."""
    node.set_directly("memory.oom.group", "1")
    node.set_directly("memory.swap.max", "0")
    node.set_directly("cpu.max", "50000 100000")
    assert node.write("memory.high", SCOPE, "1048576") is True
    assert node.holds("memory.high") == "1048576"
    assert node.holds("memory.oom.group") == "1"
    assert node.holds("memory.swap.max") == "0"
    assert node.write("cpu.weight", SCOPE, "200") is True
    assert node.holds("cpu.max") == "50000 100000"
    assert node.holds("memory.oom.group") == "1"


def test_it_is_put_back_even_if_systemd_falls_silent(tmp_path: Path) -> None:
    """systemd may have written the files before it stopped answering."""

    class Silent:
        def call(
            self, destination: str, path: str, interface: str, method: str, *_: Any
        ) -> tuple[Any, ...]:
            if method == "Ping":
                raise BusError("no answer")
            for file, content in (("memory.oom.group", "0"), ("memory.high", "4096")):
                (tmp_path / "v2" / SCOPE[1:] / file).write_text(f"{content}\n")
            return ()

    with opened(make_v2(tmp_path / "v2", (SCOPE,))) as tree:
        tree.set(Type.MEMORY_OOM_GROUP, SCOPE, 1)
        resource = tree.registry.get(Type.MEMORY_HIGH)
        reason = SystemdWriter(Silent()).write(tree, resource, SCOPE, "4096")
        assert reason == f"systemd, {UNIT}: no answer"
        assert tree.get(Type.MEMORY_OOM_GROUP, SCOPE) == 1


def test_what_systemd_was_told_by_somebody_else_stays(node: Node) -> None:
    """A value that is not systemd's default was set by another program, and stays."""
    node.set_directly("memory.low", "4096")
    node.known[UNIT] = {"MemoryLow": 8192, "MemoryMax": 1 << 30}
    assert node.write("memory.high", SCOPE, "1048576") is True
    assert node.holds("memory.low") == "8192"
    assert node.holds("memory.max") == str(1 << 30)


def test_a_value_that_is_systemds_default_is_not_undone(node: Node) -> None:
    """An update that lifts a limit is not taken for systemd's default."""
    assert node.write("memory.high", SCOPE, "4096") is True
    assert node.write("memory.high", SCOPE, "max") is True
    assert node.holds("memory.high") == "max"


def test_what_cannot_be_put_back_is_told(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write counts, and the reason names the file that was not put back."""
    node.set_directly("memory.oom.group", "1")

    def refuse(path: str, value: str) -> None:
        raise CgroupError("write", path, value, 16)

    monkeypatch.setattr(node.tree.files, "write", refuse)
    reason = node.write("memory.high", SCOPE, "1048576")
    assert isinstance(reason, str)
    assert "systemd undid memory.oom.group = '1'" in reason
    assert "EBUSY" in reason
    assert node.holds("memory.high") == "1048576"


def test_leaving_idle_takes_the_default_weight(node: Node) -> None:
    """A cgroup that is not idle keeps its weight: systemd is not called."""
    assert node.write("cpu.idle", SCOPE, "0") is False
    assert node.systemd.calls == []
    node.set_directly("cpu.idle", "1")
    node.set_directly("cpu.weight", "0")
    node.write("cpu.idle", SCOPE, "0")
    assert node.systemd.calls == [(UNIT, True, {"CPUWeight": INFINITY})]


def test_a_weight_ends_idleness_and_the_other_way_round(node: Node) -> None:
    """Weight and idle are one property, so neither is put back after the other."""
    assert node.write("cpu.idle", SCOPE, "1") is True
    assert (node.holds("cpu.idle"), node.holds("cpu.weight")) == ("1", "0")
    assert node.write("cpu.weight", SCOPE, "79") is True
    assert (node.holds("cpu.idle"), node.holds("cpu.weight")) == ("0", "79")


def test_an_idle_cgroup_is_idle_again_after_another_property(node: Node) -> None:
    """Only cpu.idle is put back, because the kernel refuses the weight."""
    node.set_directly("cpu.idle", "1")
    node.set_directly("cpu.weight", "0")
    assert node.write("cpu.max", SCOPE, "50000 100000") is True
    assert node.holds("cpu.weight") == "100"
    assert node.holds("cpu.idle") == "1"


def test_a_property_that_does_not_reach_the_file_is_told(node: Node) -> None:
    """If the file does not change, the reason says so: systemd only logs it."""
    node.deaf = True
    reason = node.write("memory.max", SCOPE, "4096")
    assert isinstance(reason, str)
    assert reason.startswith(
        f"systemd, {UNIT}: it took '4096', but memory.max is 'max'"
    )
    # Nothing to change is no failure.
    assert node.write("memory.max", SCOPE, "max") is True


def test_a_refusal_is_a_reason(node: Node) -> None:
    """systemd's error becomes one line that names the unit."""
    node.systemd.refusals[UNIT] = (
        "org.freedesktop.systemd1.NoSuchUnit",
        f"Unit {UNIT} not loaded.",
    )
    assert node.write("cpu.weight", SCOPE, "79") == (
        f"systemd, {UNIT}: Unit {UNIT} not loaded."
    )
    assert node.holds("cpu.weight") == "100"


def test_no_bus_is_a_reason(node: Node, message_bus: MessageBus) -> None:
    """Without a bus there is a reason; with it, properties are set again."""
    message_bus.stop()
    reason = node.write("cpu.weight", SCOPE, "79")
    assert isinstance(reason, str)
    assert reason.startswith(f"systemd, {UNIT}: {message_bus.path}: ")
    message_bus.start()
    node.systemd.stop()
    node.systemd = FakeSystemd(message_bus.path, node.realise)
    assert node.write("cpu.weight", SCOPE, "80") is True


def test_without_a_bus_the_executor_writes_the_file(
    node: Node, message_bus: MessageBus
) -> None:
    """The outcome has the reason why systemd did not set the value."""
    executor = Executor(node.tree, writer=node.writer)
    outcome = executor.update(Update(Type.CPU_WEIGHT, SCOPE, 79))
    assert (outcome.status, outcome.by_writer) == (Status.WRITTEN, True)
    message_bus.stop()
    outcome = executor.update(Update(Type.CPU_WEIGHT, SCOPE, 80))
    assert (outcome.status, outcome.by_writer) == (Status.WRITTEN, False)
    assert outcome.reason.startswith(f"systemd, {UNIT}: ")
    assert node.holds("cpu.weight") == "80"
    assert len(node.systemd.calls) == 1


@pytest.mark.parametrize(
    ("file", "cgroup"),
    [
        ("cpu.max.burst", SCOPE),  # no property
        ("memory.oom.group", SCOPE),
        ("cpu.weight", INNER),  # crun's inner cgroup is no unit
        ("cpu.weight", "/kubepods/burstable"),
    ],
)
def test_the_rest_is_not_for_systemd(node: Node, file: str, cgroup: str) -> None:
    """Files without a property cause no call."""
    assert node.write(file, cgroup, "1") is False
    assert node.systemd.calls == []


def test_a_cgroup_that_is_gone_is_for_the_direct_write_to_report(node: Node) -> None:
    """If the file has to be read first and is gone, the executor's write reports it."""
    assert node.write("cpu.max", f"{POD}/crio-gone.scope", "1000") is False


def test_version_1_is_not_for_systemd(tmp_path: Path, node: Node) -> None:
    """On cgroup v1 there is no call."""
    with opened(make_v1(tmp_path / "v1", (SCOPE,))) as tree:
        resource = tree.registry.get("pids.max")
        assert node.writer.write(tree, resource, SCOPE, "10") is False
    assert node.systemd.calls == []


@contextmanager
def opened(tree: Tree) -> Iterator[Tree]:
    assert isinstance(tree.files, LocalFiles)
    with tree.files:
        yield tree


@pytest.mark.parametrize(
    "cgroup",
    [
        "",
        "/",
        "/system.slice",
        "/system.slice/sshd.service",
        "/kubepods.slicer/a.scope",
        f"{ROOT}/",
        f"{ROOT}/kubepods-pod1.slice/app.service",
        f"{ROOT}/a.slice",  # not where systemd has that slice
        f"{ROOT}/-.slice",
        f"{QOS}/kubepods-pod1.slice",
        # Made by a container inside its own scope, to be taken for a unit of the node.
        f"{SCOPE}/kubepods.slice",
        f"{SCOPE}/system.slice",
        f"{SCOPE}/sshd.scope",
        f"{INNER}/{UNIT}",
        f"{SCOPE}{ROOT}",
        f"{SCOPE}{POD}/{UNIT}",
        f"{ROOT}/../system.slice",
        f"{POD}/../../../init.scope",
        f"{POD}/a b.scope",
        f"{POD}/$(id).scope",
        f"{POD}/a'\".scope",
        f"{POD}/a\n.scope",
        f"{POD}/a\0.scope",
        f"{POD}/é.scope",
        f"{POD}/{'a' * 300}.scope",
    ],
)
def test_only_the_kubelets_units_where_systemd_has_them(cgroup: str) -> None:
    """A cgroup is a unit only if its whole path is the unit's."""
    assert unit_of(cgroup) is None


def test_the_kubelets_own_root_is_respected() -> None:
    """Its cgroupRoot comes before kubepods, in the path and in the names."""
    root = "/kubelet.slice/kubelet-kubepods.slice"
    pod = f"{root}/kubelet-kubepods-pod1.slice"
    assert unit_of(pod, root) == "kubelet-kubepods-pod1.slice"
    assert unit_of(f"{pod}/crio-1.scope", root) == "crio-1.scope"
    assert unit_of("/kubelet.slice", root) is None
    assert unit_of(pod) is None


def test_an_escaped_directory_is_the_unit_without_the_escape() -> None:
    """systemd puts `_` before names that look like files of the kernel."""
    assert unit_of(f"{POD}/_cpu.scope") == "cpu.scope"


@given(st.text(alphabet="ak./-_:@\\ \n\0é$'\"", max_size=40))
def test_whatever_the_name_a_unit_is_one_word_of_the_path(name: str) -> None:
    """No path gives a unit outside of the kubelet's slice."""
    for parent in (ROOT, POD, ""):
        unit = unit_of(f"{parent}/{name}")
        if unit is not None:
            assert f"{parent}/{name}".endswith(unit)
            assert "/" not in unit
            assert unit.isprintable()
