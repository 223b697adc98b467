"""Ownership of values: after any sequence of events the kernel holds the right ones.

Each of the first tests is a sequence that once ended with an old value in force.
"""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import GIB, existing, pod_at
from doors.nri.nodes import repair_all
from doors.nri.runtimes import ModelRuntime, UpdateFailed
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import CONTAINER

from nriplugin.kube.managed import Managed
from nriplugin.node.ownership_records import OwnershipRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

APP = {"shares": 512, "quota_us": 100_000, "limit_bytes": GIB}
DOUBLE = {"shares": 1024, "quota_us": 200_000, "limit_bytes": 2 * GIB}
HALF = {"shares": 256, "quota_us": 50_000, "limit_bytes": GIB // 2}

OFF = "resources: {enabled: false}"
BURST = "cpuBurst: {enabled: true, percent: 90}"
MEMORY = "memoryQoS: {enabled: true}"
THROTTLED = "memoryQoSLevel: {enabled: true, level: BE}"
IDLE = "cpuQoS: {enabled: true, level: BE}"
LIGHT = "cpuQoS: {enabled: true, level: BE, equivalent: weight}"
DIFFERENT = "resources: {send: different}"


def fresh(
    config: str,
    numbers: dict[str, int],
    unified: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the files of a new container with these numbers and configuration."""
    with tempfile.TemporaryDirectory() as state:
        runtime = ModelRuntime(state, annotations=annotations)
        runtime.connect(config)
        runtime.create(numbers, unified)
        return runtime.files()


@pytest.fixture(params=[True, False], ids=["shown", "hidden"])
def runtime(request: pytest.FixtureRequest, tmp_path: Any) -> ModelRuntime:
    """A runtime that shows plugins the values that it keeps, or one that does not."""
    return ModelRuntime(str(tmp_path), shows_unified=request.param)


def test_a_container_made_before_a_reload_is_not_forgotten(
    runtime: ModelRuntime,
) -> None:
    """An update that changes nothing does not change which values are nriplugin's."""
    runtime.connect("")
    runtime.create(APP)
    runtime.reload(MEMORY)
    runtime.update({})
    runtime.update(DOUBLE)
    assert runtime.files() == fresh(MEMORY, DOUBLE)


@pytest.mark.parametrize("handler", [MEMORY, BURST, THROTTLED, LIGHT, IDLE])
@pytest.mark.parametrize("to", [DOUBLE, HALF])
def test_a_handler_turned_off_with_a_restart_leaves_nothing_behind(
    runtime: ModelRuntime, handler: str, to: dict[str, int]
) -> None:
    """nriplugin's values are removed under any configuration."""
    runtime.connect(handler)
    runtime.create(APP)
    runtime.connect("")
    runtime.update(to)
    assert runtime.files() == fresh("", to)


@pytest.mark.parametrize("systemd_idles", [True, False])
@pytest.mark.parametrize("shown", [True, False])
def test_idle_ends_also_if_the_runtime_keeps_that_the_container_is_not_idle(
    tmp_path: Any, shown: bool, systemd_idles: bool
) -> None:
    """Under systemd it is sent 0 at a resize; the kernel has 1 after that."""
    runtime = ModelRuntime(
        str(tmp_path),
        shows_unified=shown,
        driver="systemd",
        systemd_idles=systemd_idles,
    )
    runtime.connect(IDLE)
    runtime.create(APP)
    runtime.update(APP)
    assert runtime.spec.unified["cpu.idle"] == "0"
    assert runtime.spec.numbers["shares"] == APP["shares"]
    assert runtime.files()["cpu.idle"] == "1"
    runtime.connect("")
    runtime.update(DOUBLE)
    assert runtime.files() == fresh("", DOUBLE)


@pytest.mark.parametrize("handler", [MEMORY, BURST, THROTTLED])
def test_a_handler_turned_on_by_a_reload_leaves_nothing_behind_either(
    runtime: ModelRuntime, handler: str
) -> None:
    """Values set by an update are removed like those set at the creation."""
    runtime.connect("")
    runtime.create(APP)
    runtime.reload(handler)
    runtime.update(DOUBLE)
    assert runtime.files() == fresh(handler, DOUBLE)
    runtime.connect("")
    runtime.update(HALF)
    assert runtime.files() == fresh("", HALF)


@pytest.mark.parametrize("restart", [True, False])
def test_the_conversion_turned_off_leaves_no_old_value_in_force(
    runtime: ModelRuntime, restart: bool
) -> None:
    """The runtime writes kept values after those of kubelet's new numbers."""
    runtime.connect("")
    runtime.create(APP)
    if restart:
        runtime.connect(OFF)
    else:
        runtime.reload(OFF)
    runtime.update(DOUBLE)
    runtime.update({"quota_us": 50_000})
    assert runtime.files() == fresh("", {**DOUBLE, "quota_us": 50_000})


@pytest.mark.parametrize("file", ["cpu.weight", "cpu.max", "memory.max"])
@pytest.mark.parametrize("config", ["", "adopt: {enabled: true}", BURST])
@pytest.mark.parametrize("away", [True, False])
def test_values_of_another_plugin_stay_theirs(
    tmp_path: Any,
    file: str,
    config: str,
    away: bool,
) -> None:
    """At an update, after a restart, and if nriplugin missed the creation."""
    theirs = {"cpu.weight": "7", "cpu.max": "70000 100000", "memory.max": "7340032"}
    runtime = ModelRuntime(str(tmp_path))
    if not away:
        runtime.connect(config)
    runtime.create(APP, {file: theirs[file]})
    runtime.connect(config)
    assert runtime.files()[file] == theirs[file]
    runtime.update(DOUBLE)
    assert runtime.files()[file] == theirs[file]
    for other, value in fresh(config, DOUBLE, {file: theirs[file]}).items():
        assert runtime.files()[other] == value


@pytest.mark.parametrize("config", ["", OFF, DIFFERENT, MEMORY, BURST])
@pytest.mark.parametrize("to", [DOUBLE, HALF])
def test_a_resize_while_the_plugin_was_away_is_corrected(
    runtime: ModelRuntime, config: str, to: dict[str, int]
) -> None:
    """Synchronize corrects the values, without another request."""
    runtime.connect("")
    runtime.create(APP)
    runtime.disconnect()
    runtime.update(to)
    assert runtime.files()["memory.max"] == str(GIB)  # which is what there is to mend
    runtime.connect(config)
    held = runtime.files()
    for file in ("cpu.weight", "cpu.max", "memory.max"):
        assert held[file] == fresh("", to)[file]
    runtime.update({})
    assert runtime.files() == held


def test_right_values_are_not_written_again_at_synchronize(
    runtime: ModelRuntime,
) -> None:
    """Neither after a restart nor under another configuration."""
    runtime.connect(f"{BURST}\ncurve: kep")
    runtime.create(APP)
    before = runtime.files()
    runtime.kernel.writes.clear()
    runtime.connect("curve: proportional")
    assert runtime.kernel.writes == []
    assert runtime.files() == before


def test_with_send_different_the_spec_has_nothing_from_nriplugin(
    runtime: ModelRuntime,
) -> None:
    """So no value of nriplugin's can stay in force without the plugin."""
    runtime.connect(DIFFERENT)
    runtime.create(APP)
    runtime.update(DOUBLE)
    assert (runtime.spec.unified, runtime.spec.annotations) == ({}, {})
    runtime.disconnect()
    runtime.update(HALF)
    assert runtime.files() == fresh("", HALF)


def test_values_of_another_plugin_stay_if_the_runtime_hides_them(
    tmp_path: Any,
) -> None:
    """They are in the record that was made at the creation."""
    runtime = ModelRuntime(str(tmp_path), shows_unified=False)
    runtime.connect("")
    runtime.create(APP, {"memory.high": "734003200"})
    for config in (MEMORY, f"{MEMORY}\nadopt: {{enabled: true}}"):
        runtime.connect(config)
        runtime.update(DOUBLE)
        assert runtime.files()["memory.high"] == "734003200"
        assert runtime.files()["memory.max"] == str(2 * GIB)


def test_a_record_in_the_pods_annotations_is_not_trusted(tmp_path: Any) -> None:
    """Runtimes copy a pod's annotations to its containers."""
    forged = {"managed.cgroup2.nri.io": "cpu.weight=7"}
    runtime = ModelRuntime(str(tmp_path), annotations=forged)
    runtime.create(APP, {"cpu.weight": "7"})
    runtime.spec.annotations.update(forged)
    runtime.connect("")
    runtime.update(DOUBLE)
    assert runtime.files()["cpu.weight"] == "7"


@pytest.mark.parametrize("config", ["", MEMORY, "repair: {enabled: true}"])
def test_an_update_that_was_answered_without_handlers_lasts(
    runtime: ModelRuntime, config: str
) -> None:
    """Neither the next update nor repair restores the values before it."""
    runtime.connect(config)
    runtime.create(APP)
    runtime.update(HALF)
    runtime.update(DOUBLE, by_handlers=False)
    for _ in range(2):
        assert runtime.files() == fresh(config, DOUBLE)
        repair(runtime)
        runtime.update({})


@pytest.mark.parametrize("file", ["memory.high", "memory.low", "cpu.max.burst"])
def test_values_that_another_plugin_sets_later_stay_theirs(
    tmp_path: Any, file: str
) -> None:
    """nriplugin does not see such updates, and would not set these files."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect("")
    runtime.create(APP)
    runtime.spec.unified[file] = "8192"
    runtime.connect("")
    runtime.update(DOUBLE)
    assert runtime.files()[file] == "8192"


@pytest.mark.parametrize("config", ["", MEMORY])
@pytest.mark.parametrize("away", [True, False])
def test_a_runtime_that_drops_files_from_updates_loses_no_resize(
    tmp_path: Any, config: str, away: bool
) -> None:
    """With CRI-O before 1.36, direct writes are on under every configuration."""
    runtime = ModelRuntime(str(tmp_path), runtime="cri-o", version="1.35.2")
    runtime.connect(config)
    runtime.create(APP)
    if away:
        runtime.disconnect()
    runtime.update(DOUBLE)
    if away:
        runtime.connect()
    assert runtime.files() == fresh(config, DOUBLE)


def test_a_failed_update_is_not_taken_for_done(tmp_path: Any) -> None:
    """The next update starts from the entry before it, also without direct writes."""
    runtime = ModelRuntime(str(tmp_path), read_only=True)
    runtime.connect(MEMORY)
    runtime.create(APP)
    runtime.kernel.unwilling.add(f"{CONTAINER}/memory.max")
    with pytest.raises(UpdateFailed):
        runtime.update(DOUBLE)
    runtime.kernel.unwilling.clear()
    runtime.update({})
    assert runtime.files() == fresh(MEMORY, APP)


def test_a_record_that_cannot_be_written_does_not_leave_an_older_one(
    tmp_path: Any,
) -> None:
    """A record that is no longer true is worse than none."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect("")
    runtime.create(APP)
    runtime.reload(THROTTLED)
    runtime.update(HALF)
    records = OwnershipRecords(str(tmp_path))
    assert "memory.high" in records.load()["c1"].files
    (tmp_path / "managed" / "c1.new").mkdir()  # where the next one is to be written
    runtime.update(DOUBLE)
    assert records.load() == {}


def test_a_new_connection_knows_records_that_are_not_stored_yet(
    tmp_path: Any,
) -> None:
    """The entries of the same process are newer than the state directory."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect(MEMORY)
    runtime.create(APP)
    plugin = runtime.plugin
    assert plugin is not None
    runtime.update(DOUBLE)
    known = plugin.lifecycle.inventory.get("c1")
    assert known is not None
    OwnershipRecords(str(tmp_path)).put("c1", Managed({"cpu.weight": "1"}))
    plugin.synchronize(*existing([runtime.pod], [runtime.shown()]))
    again = plugin.lifecycle.inventory.get("c1")
    assert again is not None
    assert again.ours == known.ours


# Any story

REPAIR = "repair: {enabled: true}"
ADOPT = "adopt: {enabled: true}"
RAW = "unifiedAnnotations: {enabled: true, allowed: [memory.high, cpu.max.burst]}"
parts = st.sets(st.sampled_from([MEMORY, BURST, IDLE, REPAIR, ADOPT, RAW]))
handlers = parts.map(lambda names: "\n".join(sorted(names)))
configs = st.one_of(
    st.sampled_from(["", OFF, DIFFERENT, LIGHT, THROTTLED]),
    handlers,
    handlers.map(lambda text: f"{DIFFERENT}\n{text}"),
)
amounts = st.fixed_dictionaries(
    {},
    optional={
        "shares": st.sampled_from([256, 512, 1024, 2048]),
        "quota_us": st.sampled_from([20_000, 50_000, 100_000, 300_000]),
        "limit_bytes": st.sampled_from([GIB // 2, GIB, 2 * GIB]),
    },
)
# A pod's annotations: none, some of handlers', or a raw file.
RAW_NOTES = {
    "cpu.max.burst.cgroup2.nri.io": "7000",
    "memory.high.cgroup2.nri.io": "314572800",
}
of_handlers = st.sampled_from(
    [
        {},
        {"cpu-burst.cgroup2.nri.io": "30%", "memory-request.cgroup2.nri.io": "64Mi"},
        {"memory-qos.cgroup2.nri.io": "off"},
    ]
)
notes = of_handlers | st.sampled_from([{k: v} for k, v in RAW_NOTES.items()])
steps = st.one_of(
    st.tuples(st.just("update"), amounts),
    st.tuples(st.just("reload"), configs),
    st.tuples(st.just("restart"), configs),
    st.tuples(st.just("away"), amounts),
    st.tuples(st.just("without handlers"), amounts),
    st.tuples(st.just("annotate"), of_handlers),
)
# Files that a plugin before nriplugin may set.
theirs_of = st.sampled_from(
    [
        *({}, {}, {"cpu.weight": "7"}, {"memory.max": "734003200"}),
        *({"memory.high": "700448768"}, {"cpu.max": "30000 100000"}),
    ]
)
# The files that an update of each number has to bring up to date.
FOLLOW = {
    "shares": ("cpu.weight", "cpu.idle"),
    "quota_us": ("cpu.max", "cpu.max.burst"),
    "limit_bytes": ("memory.max", "memory.high", "memory.low", "memory.min"),
}


def shuffled(seed: int) -> Callable[[Sequence[str]], list[str]]:
    """Return the files in a random order, which is how runc writes them."""
    chance = random.Random(seed)
    return lambda names: chance.sample(list(names), len(names))


def happen(runtime: ModelRuntime, what: str, detail: Any) -> None:
    """Do one step of a story."""
    if what == "reload":
        runtime.reload(detail)
    elif what == "restart":
        runtime.connect(detail)
    elif what == "annotate":
        runtime.pod = pod_at(runtime.place.parent, annotations=detail)
    elif what == "update":
        runtime.update(detail)
    else:
        try:
            if what == "away":
                runtime.disconnect()
            runtime.update(detail, by_handlers=False)
        except UpdateFailed:
            # Without direct writes before the runtime's, the kernel refuses a weight of
            # an idle container and a quota below the burst; kubelet tries again.
            runtime.connect()
            runtime.update(detail)
        runtime.connect()
    repair(runtime)


def repair(runtime: ModelRuntime) -> None:
    """Write changed values again, as the periodic repair does."""
    assert runtime.plugin is not None
    repair_all(runtime.plugin)


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd", "old systemd"])
@settings(max_examples=100)
@given(
    st.booleans(),
    theirs_of,
    notes,
    configs,
    st.lists(steps, max_size=6),
    st.sampled_from([APP, DOUBLE, HALF]),
    st.integers(0, 1000),
)
def test_whatever_happens_the_kernel_holds_what_was_asked_for(
    driver: str,
    shown: bool,
    theirs: dict[str, str],
    annotations: dict[str, str],
    config: str,
    story: list[tuple[str, Any]],
    last: dict[str, int],
    seed: int,
) -> None:
    """After any story the files follow kubelet's numbers and today's handlers."""
    if not shown and (config == OFF or DIFFERENT in config):
        theirs = {}  # a plugin that has nothing to send leaves no record of it, either
    # A raw file is set when a container is made, and at no other time.
    fixed = any(key in RAW_NOTES for key in annotations)
    story = [step for step in story if not (fixed and step[0] == "annotate")]
    numbers = dict(APP)
    with tempfile.TemporaryDirectory() as state:
        runtime = ModelRuntime(
            state,
            shows_unified=shown,
            order=shuffled(seed),
            annotations=annotations,
            driver=driver.removeprefix("old "),
            systemd_idles=not driver.startswith("old "),
        )
        runtime.connect(config)
        runtime.create(numbers, theirs)
        for what, detail in story:
            happen(runtime, what, detail)
            if what in ("update", "away", "without handlers"):
                numbers |= detail
            held, bare = runtime.files(), fresh("", numbers, theirs)
            for file in ("cpu.max", "memory.max"):
                assert held[file] == bare[file], (what, detail)
            if what == "update" and not fixed:
                now = dict(runtime.pod.annotations)
                wanted = fresh(runtime.config, numbers, theirs, now)
                for file in {f for name in detail for f in FOLLOW[name]}:
                    assert held[file] == wanted[file], (what, detail, file)
        runtime.update(last)
        held = runtime.files()
        wanted = fresh(runtime.config, last, theirs, dict(runtime.pod.annotations))
        if any(what == "without handlers" for what, _ in story):
            # The fallback's answer cannot lower the pod's burst. Without a container's
            # burst, that of the pod has no effect.
            del held["pod's cpu.max.burst"], wanted["pod's cpu.max.burst"]
        assert fixed or held == wanted
