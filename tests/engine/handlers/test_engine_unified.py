"""Raw cgroup v2 files from annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine.cases import APP, FILES, NODE, POD, SUFFIX, TYPICAL, config, refusals

from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import When
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.kube.annotations import MAX_COUNT

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts

EVERY_FILE = NODE._replace(files=FILES | ALLOWABLE)
ALL = UnifiedAnnotationsSettings(enabled=True, allowed=ALLOWABLE)


def decided(annotations: dict[str, str], facts: NodeFacts = EVERY_FILE) -> Decision:
    pod = POD._replace(annotations=annotations)
    return decide(pod, APP, facts, config(ALL))


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("cpu.weight", "200"),
        ("cpu.max", "50000 100000"),
        ("cpu.max", "max 100000"),
        ("cpu.max.burst", "1000"),
        ("cpu.uclamp.max", "55.50"),
        ("io.weight", "50"),
        ("io.weight", "default 50"),
        ("memory.high", "1048576"),
        ("memory.high", "max"),
        ("memory.min", "0"),
        ("memory.oom.group", "1"),
        ("memory.swap.max", "0"),
        ("memory.zswap.writeback", "0"),
        ("pids.max", "100"),
        ("pids.max", "max"),
    ],
)
def test_a_raw_file(file: str, value: str) -> None:
    """The value is sent as given, and the annotation is its source."""
    decision = decided({f"{file}{SUFFIX}": value})
    assert decision.files[file] == value
    why = decision.why(file)
    assert (why.handler, why.source) == (
        "unifiedAnnotations",
        f"annotation {file}{SUFFIX}",
    )
    assert decision.refused == []


HOSTILE = [
    "",
    " ",
    "1\n2",
    "1\0",
    "½",
    "１００",
    "-1",
    "1e3",
    "99999999999999999999999",
    "9" * 10_000,
    "../../memory.max",
    "/etc/passwd",
    "$(reboot)",
    "0x10",
    "010",
    "00",
    "0100000 100000",
    "100000 0100000",
    "default 0100",
    "+5",
    "1 2 3",
    "nan",
    "\u202e1",
    "1;2",
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("file", sorted(ALLOWABLE))
def test_a_hostile_value_is_never_passed_on(file: str, value: str) -> None:
    """The refusal is counted with a short text, and all other files are sent."""
    decision = decided({f"{file}{SUFFIX}": value})
    expected = decided({})
    assert decision.files == expected.files
    [refusal] = decision.refused
    assert len(refusal.text) < 300
    assert refusal.text.isprintable()


def test_a_leading_zero_is_told_of() -> None:
    """The kernel, unlike some runtimes and all people, reads the number as octal."""
    [refusal] = decided({f"pids.max{SUFFIX}": "0100"}).refused
    assert "'0100'" in refusal.text
    assert "octal" in refusal.text


@pytest.mark.parametrize(
    "key",
    [
        f"cgroup.freeze{SUFFIX}",
        f"cgroup.kill{SUFFIX}",
        f"memory.reclaim{SUFFIX}",
        f"../memory.max{SUFFIX}",
        f"{SUFFIX}",
        f"cpu-burts{SUFFIX}",
        f"memory.high{SUFFIX}/pod",
        f"memory.high{SUFFIX}/container",
        f"memory.high{SUFFIX}x",
        f"{'x' * 5000}.y{SUFFIX}",
    ],
)
def test_a_key_that_is_none_of_ours(key: str) -> None:
    """An unknown key is refused with a message: it may be a typing error."""
    decision = decided({key: "1"})
    assert decision.files == decided({}).files
    [refusal] = decision.refused
    assert len(refusal.text) < 300


def test_only_what_is_allowed() -> None:
    """A file that is not allowed is refused with a reason of its own."""
    chosen = UnifiedAnnotationsSettings(enabled=True, allowed=frozenset({"pids.max"}))
    annotations = {f"pids.max{SUFFIX}": "5", f"memory.high{SUFFIX}": "4096"}
    pod = POD._replace(annotations=annotations)
    decision = decide(pod, APP, EVERY_FILE, config(chosen))
    assert decision.files["pids.max"] == "5"
    assert "memory.high" not in decision.files
    assert refusals(decision) == {("unifiedAnnotations", "not-allowed"): 1}


def test_switched_off_it_says_so() -> None:
    """A note names the handler that would read the annotation."""
    pod = POD._replace(annotations={f"pids.max{SUFFIX}": "5"})
    chosen = config(CPUBurstSettings(enabled=True))
    decision = decide(pod, APP, EVERY_FILE, chosen)
    assert "pids.max" not in decision.files
    assert decision.left == [
        (f"annotation pids.max{SUFFIX}", "unifiedAnnotations: off")
    ]


def test_a_file_that_the_node_lacks() -> None:
    """It is not sent, also if it is allowed."""
    decision = decided({f"memory.zswap.max{SUFFIX}": "0"}, NODE)
    assert "memory.zswap.max" not in decision.files
    assert "no such file" in dict(decision.left)["memory.zswap.max"]


def test_a_containers_annotation_beats_the_pods() -> None:
    """An annotation for another container has no effect."""
    decision = decided(
        {
            f"pids.max{SUFFIX}/container.app": "1",
            f"pids.max{SUFFIX}": "2",
            f"pids.max{SUFFIX}/container.other": "3",
            f"memory.low{SUFFIX}/container.other": "3",
        }
    )
    assert decision.files["pids.max"] == "1"
    assert "memory.low" not in decision.files


def test_an_annotation_beats_every_handler_but_no_explicit_value() -> None:
    """Kubelet's own v2 values win over all."""
    pod = POD._replace(
        annotations={f"memory.high{SUFFIX}": "8192", f"memory.low{SUFFIX}": "4096"}
    )
    app = APP._replace(
        resources=TYPICAL._replace(unified={"memory.high": "4096"}),
        memory_request_bytes=1 << 20,
    )
    chosen = config(MemoryQoSSettings(enabled=True), ALL)
    decision = decide(pod, app, EVERY_FILE, chosen)
    assert "memory.high" not in decision.files
    assert decision.files["memory.low"] == "4096"


@pytest.mark.parametrize(
    ("annotations", "files"),
    [
        ({"cpu.idle": "1", "cpu.weight": "5"}, {"cpu.idle"}),
        ({"cpu.weight": "5", "cpu.idle": "1"}, {"cpu.idle"}),
        ({"cpu.max.burst": "100001"}, {"cpu.weight", "cpu.max"}),
        (
            {"cpu.max": "max 100000", "cpu.max.burst": "5"},
            {"cpu.weight", "cpu.max", "cpu.max.burst"},
        ),
        (
            {"cpu.max": "200000 100000", "cpu.max.burst": "150000"},
            {"cpu.weight", "cpu.max"},
        ),
    ],
)
def test_what_does_not_go_together_is_taken_back(
    annotations: dict[str, str], files: set[str]
) -> None:
    """The kernel accepts the files that are left in every order of writing."""
    decision = decided({f"{k}{SUFFIX}": v for k, v in annotations.items()})
    found = {file for file in decision.files if file.startswith("cpu.")}
    assert found - {"cpu.max"} == files - {"cpu.max"}


def test_idle_by_annotation() -> None:
    """If the runtime takes cpu.idle, it is sent, and no weight beside it."""
    decision = decided({f"cpu.idle{SUFFIX}": "1"})
    assert decision.files["cpu.idle"] == "1"
    assert decision.cleared == ("cpu.shares",)
    assert "cpu.weight" not in decision.files


@pytest.mark.parametrize(
    "order", [("cpu.idle", "cpu.weight"), ("cpu.weight", "cpu.idle")]
)
def test_idle_by_annotation_where_the_runtime_fails_on_it(
    order: tuple[str, str],
) -> None:
    """The executor writes it, without a weight; if it is off, the weight stays."""
    crun = EVERY_FILE._replace(oci_runtime="crun", driver="systemd")
    wishes = {f"{file}{SUFFIX}": "1" for file in order}
    decision = decided(wishes, crun)
    assert not {"cpu.idle", "cpu.weight"} & set(decision.files)
    assert decision.cleared == ()
    [write] = decision.writes
    assert (write.file, write.value, write.when) == ("cpu.idle", "1", When.AFTER)
    decision = decided({f"cpu.idle{SUFFIX}": "1"}, crun._replace(writable=False))
    assert decision.files["cpu.weight"] == "59"
    assert "executor" in dict(decision.left)["cpu.idle"]


def test_very_many_annotations_are_cut_short() -> None:
    """The time that a pod can cost is bounded."""
    many = {f"pids.max{SUFFIX}/container.c{n}": "1" for n in range(5000)}
    decision = decided(many)
    [refusal] = decision.refused
    assert f"more than {MAX_COUNT}" in refusal.text
