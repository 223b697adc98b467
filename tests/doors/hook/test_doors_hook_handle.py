from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
from doors.hook.bundles import (
    CGROUP,
    CRIO,
    CRIO_ANNOTATIONS,
    ID,
    POD,
    RESOURCES,
    WRITTEN,
    Bundle,
)
from support.checkpoints import checkpoint_text
from support.trees import UID

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.journal.journal import DATABASE, Journal
from nriplugin.config import parse_config
from nriplugin.doors.hook.bundle import HookError
from nriplugin.doors.hook.handle import HookResult
from nriplugin.engine.decision import HandlerFailed
from nriplugin.errors import CgroupError, ConversionError, JournalError

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.engine.settings import EngineConfig

SHARED = "/machine.slice"
LIBPOD = f"{SHARED}/libpod-{ID}.scope"


def config(text: str) -> EngineConfig:
    return parse_config(text, "test").engine


NOTHING = HookResult([], [])

ALL = """
memoryQoS: {enabled: true, protection: false}
cpuBurst: {enabled: true, percent: 20}
"""
# Stated, so that nothing is estimated from this machine's memory.
REQUEST = {**CRIO_ANNOTATIONS, "memory-request.cgroup2.nri.io": "64Mi"}
# By hand: 64 MiB + 9/10 of what is left up to 128 MiB, down to whole pages.
HIGH = {"memory.high": "127504384"}
IDLE = "cpuQoS: {enabled: true, level: BE}"


def test_with_defaults_a_container_has_everything_already(tmp_path: Path) -> None:
    """The runtime wrote every value, so no file is written and no journal made."""
    bundle = Bundle(tmp_path)
    before = bundle.contents()
    assert bundle.handle() == NOTHING
    assert bundle.contents() == before
    assert not bundle.state_dir.exists()


def test_what_the_runtime_left_out_is_written(tmp_path: Path) -> None:
    """The value is converted from config.json, and the original is journalled."""
    bundle = Bundle(tmp_path)
    bundle.write("cpu.max", "max 100000")
    assert bundle.handle() == NOTHING
    assert bundle.read("cpu.max") == {"cpu.max": "50000 100000"}
    with Journal(str(bundle.state_dir)) as journal:
        (row,) = journal.rows()
    assert (row.path, row.original) == (f"{CGROUP}/cpu.max", "max 100000")


@pytest.mark.parametrize("weight", ["20", "59", "77"])
def test_auto_is_what_the_runtime_did(tmp_path: Path, weight: str) -> None:
    """Without a configured curve, the weight that the runtime wrote is kept."""
    bundle = Bundle(tmp_path)
    bundle.write("cpu.weight", weight)
    assert bundle.handle() == NOTHING
    assert bundle.read("cpu.weight") == {"cpu.weight": weight}


def test_a_curve_that_is_set_is_followed(tmp_path: Path) -> None:
    """512 shares are weight 20 on the curve of the KEP."""
    bundle = Bundle(tmp_path)
    assert bundle.handle(config("curve: kep")) == NOTHING
    assert bundle.read("cpu.weight") == {"cpu.weight": "20"}


def test_a_weight_that_a_handler_wants_is_written(tmp_path: Path) -> None:
    """A handler's weight is written also if no curve is configured."""
    bundle = Bundle(tmp_path)
    least = "cpuQoS: {enabled: true, level: BE, equivalent: weight}"
    assert bundle.handle(config(least)) == NOTHING
    assert bundle.read("cpu.weight") == {"cpu.weight": "1"}


def test_handlers_write_to_container_and_pod(tmp_path: Path) -> None:
    """The pod's burst is the sum of its containers' bursts, up to its quota."""
    bundle = Bundle(tmp_path, annotations=REQUEST)
    sibling = f"{POD}/crio-{'9' * 64}"
    bundle.add_cgroup(sibling)
    bundle.write("cpu.max.burst", "5000", cgroup=sibling)
    bundle.write("cpu.max", "100000 100000", cgroup=POD)
    assert bundle.handle(config(ALL)) == NOTHING
    assert bundle.read("cpu.max.burst") == {"cpu.max.burst": "10000"}
    assert bundle.read("cpu.max.burst", cgroup=POD) == {"cpu.max.burst": "15000"}
    assert bundle.read("memory.high") == HIGH


def test_protection_without_effect_is_told(tmp_path: Path) -> None:
    """The protection is written, and a remark names the setting that is missing."""
    bundle = Bundle(tmp_path, annotations=REQUEST)
    text = "memoryQoS: {enabled: true, throttlingFactor: null, raiseAncestors: %s}"
    done = bundle.handle(config(text % "false"))
    low = bundle.read("memory.low")["memory.low"]
    (line,) = done.remarks
    assert line == (
        f"memory.low of containers has no effect: /kubepods has memory.low=0, "
        f"expected {low}; set memoryQoS.raiseAncestors: true"
    )
    assert done.failures == []
    bundle.write("memory.low", "0")
    assert bundle.handle(config(text % "true")) == NOTHING
    assert bundle.read("memory.low", cgroup=POD) == {"memory.low": low}


def test_idle_is_written_to_the_cgroup_that_is_there(tmp_path: Path) -> None:
    """cpu.idle is written directly, so shares need not be cleared first."""
    bundle = Bundle(tmp_path)
    assert bundle.handle(config(IDLE)) == NOTHING
    assert bundle.read("cpu.idle", "cpu.weight") == {
        "cpu.idle": "1",
        "cpu.weight": WRITTEN["cpu.weight"],
    }


def test_explicit_values_win(tmp_path: Path) -> None:
    """A value in `unified` of the spec is kept."""
    unified = {"unified": {"memory.high": "1M"}}
    bundle = Bundle(tmp_path, resources={**RESOURCES, **unified}, annotations=REQUEST)
    bundle.write("memory.high", "1048576")
    assert bundle.handle(config(ALL)) == NOTHING
    assert bundle.read("memory.high") == {"memory.high": "1048576"}


def test_a_file_that_the_kernel_lacks_is_left(tmp_path: Path) -> None:
    """Kernels before 5.14 have no burst file, which is no failure."""
    bundle = Bundle(tmp_path)
    (bundle.root / CGROUP.strip("/") / "cpu.max.burst").unlink()
    assert bundle.handle(config("cpuBurst: {enabled: true, percent: 20}")) == NOTHING


def test_a_sandbox_is_left_alone(tmp_path: Path) -> None:
    """The sandbox of a pod runs no workload and gets nothing."""
    bundle = Bundle(
        tmp_path, annotations={**CRIO_ANNOTATIONS, f"{CRIO}ContainerType": "sandbox"}
    )
    before = bundle.contents()
    assert bundle.handle(config(IDLE)) == NOTHING
    assert bundle.contents() == before


def test_a_pods_annotations_count(tmp_path: Path) -> None:
    """CRI-O copies them into the spec; one for the container beats the pod's."""
    bundle = Bundle(
        tmp_path,
        annotations={
            **CRIO_ANNOTATIONS,
            "cpu-burst.cgroup2.nri.io": "10%",
            "cpu-burst.cgroup2.nri.io/container.web": "40%",
        },
    )
    assert bundle.handle(config("cpuBurst: {enabled: true}")) == NOTHING
    assert bundle.read("cpu.max.burst") == {"cpu.max.burst": "20000"}


def test_a_mistake_in_an_annotation_is_told(tmp_path: Path) -> None:
    """A user's mistake is a remark, not a failure of the hook."""
    annotations = {**CRIO_ANNOTATIONS, "cpu-burst.cgroup2.nri.io": "lots"}
    bundle = Bundle(tmp_path, annotations=annotations)
    done = bundle.handle(config("cpuBurst: {enabled: true}"))
    assert done.failures == []
    assert len(done.remarks) == 1
    assert "expected 1% to 100%" in done.remarks[0]


RULE = """
rules:
  - match: {%s}
    cpuQoS: {enabled: true, level: BE}
"""


@pytest.mark.parametrize(
    ("match", "idle"),
    [
        ("labels: {app: shop}", "1"),
        ("labels: {app: other}", "0"),
        ("namespace: prod", "1"),
        ("namespace: kube-system", "0"),
        ("container: web", "1"),
        ("qosClass: Burstable", "1"),
        ("qosClass: BestEffort", "0"),
        ("podGroup: training", "1"),
        ("podGroup: other", "0"),
    ],
)
def test_rules_match_as_at_the_other_doors(
    tmp_path: Path, match: str, idle: str
) -> None:
    """Rules match by names, QoS class, labels and pod group."""
    group = {"scheduling.k8s.io/group-name": "training"}
    bundle = Bundle(tmp_path, annotations={**CRIO_ANNOTATIONS, **group})
    bundle.add_sandbox(Labels=json.dumps({"app": "shop"}))
    # A critical pod's, whatever its class: only the cgroup tells.
    bundle.spec["process"]["oomScoreAdj"] = -997
    bundle.save()
    assert bundle.handle(config(RULE % match)) == NOTHING
    assert bundle.read("cpu.idle") == {"cpu.idle": idle}


def test_a_container_of_podman_gets_its_files(tmp_path: Path) -> None:
    """Only the container's own cgroup is written, none above it."""
    bundle = Bundle(
        tmp_path,
        cgroup=LIBPOD,
        process=f"{LIBPOD}/container",
        cgroups_path=f"machine.slice:libpod:{ID}",
        annotations={"memory-request.cgroup2.nri.io": "64Mi"},
    )
    before = bundle.contents()
    assert bundle.handle(config(f"{ALL}\n{IDLE}")) == NOTHING
    changed = {path for path, text in bundle.contents().items() if text != before[path]}
    own = LIBPOD.strip("/")
    assert changed == {f"{own}/cpu.max.burst", f"{own}/cpu.idle", f"{own}/memory.high"}
    with Journal(str(bundle.state_dir)) as journal:
        assert {row.cgroup for row in journal.rows()} == {LIBPOD}


@pytest.mark.parametrize(("cgroup", "estimated"), [(CGROUP, True), (LIBPOD, False)])
def test_only_a_pods_score_tells_a_request(
    tmp_path: Path, cgroup: str, estimated: bool
) -> None:
    """kubelet computes oom_score_adj from the request; outside of pods it means
    nothing.
    """
    bundle = Bundle(
        tmp_path,
        cgroup=cgroup,
        process=cgroup,
        cgroups_path=cgroup,
        resources={"memory": {"limit": 1 << 40}},
    )
    bundle.spec["process"]["oomScoreAdj"] = 999
    bundle.save()
    bundle.handle(config("memoryQoS: {enabled: true, protection: false}"))
    high = bundle.read("memory.high")["memory.high"]
    assert high.isdecimal() is estimated


def test_a_cgroup_that_others_share_is_not_written(tmp_path: Path) -> None:
    """Without a cgroup of its own, a container runs in its runtime's."""
    shared = "/system.slice/runner.service"
    bundle = Bundle(
        tmp_path, cgroup=shared, process=shared, cgroups_path=None, annotations={}
    )
    before = bundle.contents()
    with pytest.raises(HookError, match="expected one of the container's own"):
        bundle.handle(config(IDLE))
    assert bundle.contents() == before


def test_numbers_without_a_meaning_are_raised(tmp_path: Path) -> None:
    """A spec that no runtime accepts is an error."""
    bundle = Bundle(tmp_path, resources={"cpu": {"shares": "many"}})
    with pytest.raises(ConversionError, match=r"cpu\.shares"):
        bundle.handle()


def test_numbers_without_a_value_are_a_failure(tmp_path: Path) -> None:
    """The failure is reported, and the other handlers do their work."""
    bundle = Bundle(tmp_path, resources={"memory": {"limit": 1 << 20, "swap": 1}})
    done = bundle.handle(config(IDLE))
    assert len(done.failures) == 1
    assert done.failures[0].startswith("resources: ")
    assert bundle.read("cpu.idle") == {"cpu.idle": "1"}


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_a_write_that_fails_is_its_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """With `ignore` the other files are written; with `fail` the hook fails."""
    write = LocalFiles.write

    def refusing(self: LocalFiles, path: str, value: str) -> None:
        if path.endswith("memory.high"):
            raise CgroupError("write", path, value, 22)
        write(self, path, value)

    monkeypatch.setattr(LocalFiles, "write", refusing)
    bundle = Bundle(tmp_path, annotations=REQUEST)
    text = (
        f"memoryQoS: {{enabled: true, failurePolicy: {policy}}}\n"
        "cpuBurst: {enabled: true, percent: 20}"
    )
    if policy == "fail":
        with pytest.raises(HandlerFailed, match=r"^memoryQoS: write .*memory\.high"):
            bundle.handle(config(text))
    else:
        done = bundle.handle(config(text))
        assert len(done.failures) == 1
        assert done.failures[0].startswith("memoryQoS: write ")
    assert bundle.read("cpu.max.burst") == {"cpu.max.burst": "10000"}


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_without_a_journal_nothing_is_written(tmp_path: Path, policy: str) -> None:
    """A value that could not be restored later is not changed."""
    bundle = Bundle(tmp_path)
    bundle.state_dir.write_text("not a directory")
    before = bundle.contents()
    text = f"cpuQoS: {{enabled: true, level: BE, failurePolicy: {policy}}}"
    expected = JournalError if policy == "ignore" else HandlerFailed
    with pytest.raises(expected, match="journal"):
        bundle.handle(config(text))
    assert bundle.contents() == before


def test_a_journal_that_has_grown_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook sees no container end, so it removes rows of cgroups that are gone."""
    bundle = Bundle(tmp_path)
    assert bundle.handle(config(IDLE)) == NOTHING
    database = bundle.state_dir / DATABASE
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO journal SELECT '/gone/cpu.idle', '/gone', type, original, "
            "ours, before, time, boot, identity FROM journal LIMIT 1"
        )
    connection.close()
    bundle.write("cpu.idle", "0")
    assert bundle.handle(config(IDLE)) == NOTHING
    with Journal(str(bundle.state_dir)) as journal:
        assert "/gone" in {row.cgroup for row in journal.rows()}
    monkeypatch.setattr("nriplugin.doors.hook.apply_files._SWEEP_BYTES", 1)
    bundle.write("cpu.idle", "0")
    assert bundle.handle(config(IDLE)) == NOTHING
    with Journal(str(bundle.state_dir)) as journal:
        assert {row.cgroup for row in journal.rows()} == {CGROUP}


@pytest.mark.parametrize(
    ("content", "low"),
    [
        (checkpoint_text({UID: {"web": "32Mi"}}), "33554432"),
        (checkpoint_text({UID: {"other": "32Mi"}}), None),
        (b"garbage", None),
        (None, None),
    ],
)
def test_the_request_is_in_kubelets_checkpoint(
    tmp_path: Path, content: bytes | None, low: str | None
) -> None:
    """Where the file does not have it, it is estimated as without the file."""
    text = "memoryQoS: {enabled: true, throttlingFactor: null}"
    for name in ("plain", "read"):
        (tmp_path / name).mkdir()
    plain = Bundle(tmp_path / "plain")
    plain.handle(config(text))
    bundle = Bundle(tmp_path / "read")
    if content is not None:
        (tmp_path / "read/host/state").write_bytes(content)
    bundle.handle(config(text), checkpoint="/state")
    expected = {"memory.low": low} if low else plain.read("memory.low")
    assert bundle.read("memory.low") == expected
