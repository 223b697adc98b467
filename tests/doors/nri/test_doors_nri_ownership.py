"""Whose value is it: whatever comes and goes, the kernel holds what kubelet asked for.

Each of the first tests is a story that once ended with an old value in force.
"""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import GIB, existing, pod_at
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
    """Return what the kernel holds for a container that is made like this."""
    with tempfile.TemporaryDirectory() as state:
        runtime = ModelRuntime(state, annotations=annotations)
        runtime.connect(config)
        runtime.create(numbers, unified)
        return runtime.files()


@pytest.fixture(params=[True, False], ids=["shown", "hidden"])
def runtime(request: pytest.FixtureRequest, tmp_path: Any) -> ModelRuntime:
    """A runtime that shows plugins what it keeps, and one that does not."""
    return ModelRuntime(str(tmp_path), shows_unified=request.param)


def test_a_container_made_before_a_reload_is_not_forgotten(
    runtime: ModelRuntime,
) -> None:
    """An update that changes nothing does not make us forget what is ours."""
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
    """Its values came from us, whatever is configured now."""
    runtime.connect(handler)
    runtime.create(APP)
    runtime.connect("")
    runtime.update(to)
    assert runtime.files() == fresh("", to)


@pytest.mark.parametrize("handler", [MEMORY, BURST, THROTTLED])
def test_nor_does_one_that_was_turned_on_by_a_reload(
    runtime: ModelRuntime, handler: str
) -> None:
    """What an update has set is no less ours than what came with the container."""
    runtime.connect("")
    runtime.create(APP)
    runtime.reload(handler)
    runtime.update(DOUBLE)
    assert runtime.files() == fresh(handler, DOUBLE)
    runtime.connect("")
    runtime.update(HALF)
    assert runtime.files() == fresh("", HALF)


@pytest.mark.parametrize("restart", [True, False])
def test_the_conversion_turned_off_pins_nothing(
    runtime: ModelRuntime, restart: bool
) -> None:
    """The runtime writes what we once sent after what kubelet asks for now."""
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
def test_what_another_plugin_set_is_not_ours(
    tmp_path: Any,
    file: str,
    config: str,
    away: bool,
) -> None:
    """Neither at an update, nor after a restart, nor if it was made without us."""
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
def test_a_resize_in_our_absence_is_put_right(
    runtime: ModelRuntime, config: str, to: dict[str, int]
) -> None:
    """When we are back, without anything being asked for once more."""
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


def test_what_is_right_is_not_touched_when_we_are_back(runtime: ModelRuntime) -> None:
    """Neither a restart nor another configuration is a reason to write anything."""
    runtime.connect(f"{BURST}\ncurve: kep")
    runtime.create(APP)
    before = runtime.files()
    runtime.kernel.writes.clear()
    runtime.connect("curve: proportional")
    assert runtime.kernel.writes == []
    assert runtime.files() == before


def test_a_node_that_sends_what_differs_has_nothing_of_us_in_its_specifications(
    runtime: ModelRuntime,
) -> None:
    """Then nothing of ours can outlive us."""
    runtime.connect(DIFFERENT)
    runtime.create(APP)
    runtime.update(DOUBLE)
    assert (runtime.spec.unified, runtime.spec.annotations) == ({}, {})
    runtime.disconnect()
    runtime.update(HALF)
    assert runtime.files() == fresh("", HALF)


def test_what_another_plugin_set_is_left_where_the_runtime_does_not_show_it(
    tmp_path: Any,
) -> None:
    """It was seen when the container was made, and is remembered with it."""
    runtime = ModelRuntime(str(tmp_path), shows_unified=False)
    runtime.connect("")
    runtime.create(APP, {"memory.high": "734003200"})
    for config in (MEMORY, f"{MEMORY}\nadopt: {{enabled: true}}"):
        runtime.connect(config)
        runtime.update(DOUBLE)
        assert runtime.files()["memory.high"] == "734003200"
        assert runtime.files()["memory.max"] == str(2 * GIB)


def test_a_record_that_is_the_pods_is_nobodys_word(tmp_path: Any) -> None:
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
    """Neither the next update nor repair goes back to the values before it."""
    runtime.connect(config)
    runtime.create(APP)
    runtime.update(HALF)
    runtime.update(DOUBLE, by_handlers=False)
    for _ in range(2):
        assert runtime.files() == fresh(config, DOUBLE)
        repair(runtime)
        runtime.update({})


@pytest.mark.parametrize("file", ["memory.high", "memory.low", "cpu.max.burst"])
def test_what_another_plugin_sets_later_by_itself_is_not_ours(
    tmp_path: Any, file: str
) -> None:
    """Updates of its own go past us; no handler of ours would set these files."""
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
    """CRI-O before 1.36: we write them ourselves, also with nothing but defaults."""
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
    """Also not by a plugin that may not write; the next one starts from before it."""
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


def test_what_is_not_stored_yet_is_known_when_the_runtime_is_back(
    tmp_path: Any,
) -> None:
    """A new connection of the same process does not read what is older."""
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
# What a plugin before us may set.
theirs_of = st.sampled_from(
    [
        *({}, {}, {"cpu.weight": "7"}, {"memory.max": "734003200"}),
        *({"memory.high": "700448768"}, {"cpu.max": "30000 100000"}),
    ]
)
# What an update of each number has to bring up to date.
FOLLOW = {
    "shares": ("cpu.weight", "cpu.idle"),
    "quota_us": ("cpu.max", "cpu.max.burst"),
    "limit_bytes": ("memory.max", "memory.high", "memory.low", "memory.min"),
}


def shuffled(seed: int) -> Callable[[Sequence[str]], list[str]]:
    """Return runc's order: none."""
    chance = random.Random(seed)
    return lambda names: chance.sample(list(names), len(names))


def happen(runtime: ModelRuntime, what: str, detail: Any) -> None:
    """Have one step of a story happen."""
    if what == "reload":
        runtime.reload(detail)
    elif what == "restart":
        runtime.connect(detail)
    elif what == "annotate":
        runtime.pod = pod_at(annotations=detail)
    elif what == "update":
        runtime.update(detail)
    else:
        try:
            if what == "away":
                runtime.disconnect()
            runtime.update(detail, by_handlers=False)
        except UpdateFailed:
            # An idle container takes no weight, and a burst no lower quota, if nobody
            # writes something before the runtime does; kubelet tries again.
            runtime.connect()
            runtime.update(detail)
        runtime.connect()
    repair(runtime)


def repair(runtime: ModelRuntime) -> None:
    """Have what differs put right, as it is from time to time."""
    assert runtime.plugin is not None
    runtime.plugin.lifecycle.corrections.repair()


@settings(max_examples=200)
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
    shown: bool,
    theirs: dict[str, str],
    annotations: dict[str, str],
    config: str,
    story: list[tuple[str, Any]],
    last: dict[str, int],
    seed: int,
) -> None:
    """Kubelet's numbers, plus what the handlers of today add, and nothing older."""
    if not shown and (config == OFF or DIFFERENT in config):
        theirs = {}  # a plugin that has nothing to send leaves no record of it, either
    # A raw file is set when a container is made, and at no other time.
    fixed = any(key in RAW_NOTES for key in annotations)
    story = [step for step in story if not (fixed and step[0] == "annotate")]
    numbers = dict(APP)
    with tempfile.TemporaryDirectory() as state:
        runtime = ModelRuntime(
            state, shows_unified=shown, order=shuffled(seed), annotations=annotations
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
            # An answer without handlers cannot lower it; alone it lets nobody burst.
            del held["pod's cpu.max.burst"], wanted["pod's cpu.max.burst"]
        assert fixed or held == wanted
