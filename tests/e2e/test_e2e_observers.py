"""nriplugin between two plugins that write down every call and change nothing.

Both are tests/interop/go/stubplugin: what differs between their logs is what nriplugin,
which is asked between them, has changed.
"""

from __future__ import annotations

import copy
import json
import re
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.kubelet import OPTIONS
from support.looking import PATIENCE_S
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

    Line = dict[str, Any]

pytestmark = [on_nodes("containerd-2.4"), pytest.mark.timeout(1800)]

EARLY, OURS, LATE = "01", "50", "99"


class Size(NamedTuple):
    """Kubelet's numbers for a container, and the weight of its shares."""

    shares: int
    weight: int
    quota: int
    limit: int

    @property
    def created(self) -> dict[str, int]:
        """The numbers as CRI has them when a container is created."""
        return {
            "cpu_shares": self.shares,
            "cpu_quota": self.quota,
            "cpu_period": 100_000,
            "memory_limit_in_bytes": self.limit,
        }

    @property
    def resized(self) -> dict[str, int]:
        """The numbers as `Kubelet.update` takes them."""
        return {option: self.created[field] for option, field in OPTIONS.items()}

    @property
    def shown(self) -> dict[str, Any]:
        """The numbers as NRI shows them, in protojson: 64 bits are text."""
        return {
            "cpu": {
                "shares": {"value": str(self.shares)},
                "quota": {"value": str(self.quota)},
                "period": {"value": "100000"},
            },
            "memory": {"limit": {"value": str(self.limit)}},
        }

    @property
    def files(self) -> dict[str, str]:
        """What nriplugin makes of the numbers."""
        return {
            "cpu.weight": str(self.weight),
            "cpu.max": f"{self.quota} 100000",
            "memory.max": str(self.limit),
        }


SMALL = Size(512, 59, 50_000, 64 << 20)
LARGE = Size(2048, 174, 80_000, 128 << 20)
MIDDLE = Size(1024, 100, 60_000, 96 << 20)

CREATION = [
    *("CreateContainer", "ValidateContainerAdjustment", "PostCreateContainer"),
    *("StartContainer", "PostStartContainer"),
]
RESIZE = ["UpdateContainer", "PostUpdateContainer"]
END = ["StopContainer", "RemoveContainer"]


class Seen(NamedTuple):
    """The life of a pod between observers, and the beginning of one without them."""

    first: str  # the container that was there before and after nriplugin's restart
    second: str  # the container that was made after it
    # What the kernel had of a container that was created and resized with nriplugin
    # alone, and of the first one; of the first one, resized after nriplugin's restart,
    # and of the second one.
    alone: list[dict[str, str]]
    between: list[dict[str, str]]
    restarted: list[dict[str, str]]
    # What nriplugin had logged before the observers came, with them, and restarted.
    logs: list[str]
    # The calls that concern this pod or none, and the observers' exit codes, which are
    # None while they run.
    early: list[Line]
    late: list[Line]
    ended: list[int | None]


@contextmanager
def observer(machine: Machine, idx: str) -> Iterator[int]:
    """Run a plugin that writes down its calls, registered; its pid."""
    said = f"/var/log/observer-{idx}.err"
    machine.write(log_of(idx), "")
    pid = machine.spawn(
        *("/node/bin/stubplugin", "-name", "observer", "-idx", idx),
        *("-all-events", "-only-watch", "-events-log", log_of(idx)),
        log=said,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while "Synchronize" not in [line["method"] for line in lines(machine, idx)]:
            assert machine.poll(pid) is None, machine.read([said])
            assert time.monotonic() < deadline, f"observer {idx} does not register"
            time.sleep(0.2)
        yield pid
    finally:
        if machine.poll(pid) is None:
            machine.stop(pid)


def log_of(idx: str) -> str:
    return f"/var/log/observer-{idx}.jsonl"


def lines(machine: Machine, idx: str) -> list[Line]:
    """Return what an observer has written down, without a line that is not whole."""
    text = machine.read([log_of(idx)])[log_of(idx)] or ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def create_and_resize(
    kubelet: Kubelet, pod: Pod
) -> tuple[Container, list[dict[str, str]]]:
    container = kubelet.start(pod, "first", SMALL.created)
    created = kubelet.settings(container)
    return container, [created, resize(kubelet, container, LARGE)]


def resize(kubelet: Kubelet, container: Container, to: Size) -> dict[str, str]:
    updated = kubelet.update(container, **to.resized)
    assert updated.code == 0, updated.stderr
    return kubelet.settings(container)


@pytest.fixture(scope="module")
def seen(node: Machine, kubelet: Kubelet) -> Seen:
    """Observers come to nriplugin and stay connected when nriplugin is restarted."""
    with ExitStack() as observers, ExitStack() as pods:
        with running(node, "--idx", OURS, "-v") as plugin:
            with kubelet.sandbox(handler="crun") as pod:
                _, alone = create_and_resize(kubelet, pod)
            logs = [plugin.log()]
            pids = [
                observers.enter_context(observer(node, idx)) for idx in (EARLY, LATE)
            ]
            pod = pods.enter_context(kubelet.sandbox(handler="crun", remove=True))
            first, between = create_and_resize(kubelet, pod)
        logs.append(plugin.log())
        with running(node, "--idx", OURS, "-v") as plugin:
            restarted = [resize(kubelet, first, MIDDLE)]
            second = kubelet.start(pod, "second", SMALL.created)
            restarted.append(kubelet.settings(second))
            pods.close()
        logs.append(plugin.log())
        early, late = (
            [line for line in lines(node, idx) if line["pod"] in ("", pod.id)]
            for idx in (EARLY, LATE)
        )
        ended = [node.poll(pid) for pid in pids]
    return Seen(
        *(first.id, second.id, alone, between, restarted),
        *(logs, early, late, ended),
    )


def test_both_observers_get_every_call(seen: Seen) -> None:
    """Each gets each call once and in order, and nriplugin's restart is not seen."""
    expected = [
        *(("Configure", ""), ("Synchronize", ""), ("RunPodSandbox", "")),
        *((method, seen.first) for method in CREATION + RESIZE + RESIZE),
        *((method, seen.second) for method in CREATION),
        *((method, seen.first) for method in END),
        *((method, seen.second) for method in END),
        *(("StopPodSandbox", ""), ("RemovePodSandbox", "")),
    ]
    for log in (seen.early, seen.late):
        assert [(line["method"], line["container"]) for line in log] == expected
    assert seen.ended == [None, None]


def test_the_late_observer_sees_our_files_and_the_early_one_does_not(
    seen: Seen,
) -> None:
    """Both see kubelet's numbers, and the logs differ in nothing but nriplugin's files.

    At a creation they are files of the container, at a resize files of the request.
    """
    expected = [
        ("CreateContainer", seen.first, "resources", SMALL),
        ("UpdateContainer", seen.first, "change", LARGE),
        ("UpdateContainer", seen.first, "change", MIDDLE),
        ("CreateContainer", seen.second, "resources", SMALL),
    ]
    pairs = zip(seen.early, seen.late, strict=True)
    differing = [(early, late) for early, late in pairs if early != late]
    assert len(differing) == len(expected)
    for (early, late), (method, container, field, of) in zip(
        differing, expected, strict=True
    ):
        assert (early["method"], early["container"]) == (method, container)
        assert {name: early[field].get(name) for name in of.shown} == of.shown
        without = copy.deepcopy(late)
        assert without[field].pop("unified") == of.files
        assert without == early


def test_after_the_change_both_observers_see_our_files(seen: Seen) -> None:
    """Who validates sees the files of all answers, and then the container has them.

    A resize shows the files that the container had before it. The late observer sees
    the same, but for the differences that the test above knows.
    """
    shown = [
        (
            line["method"],
            line["resources"].get("unified"),
            line.get("change", {}).get("unified"),
        )
        for line in seen.early
        if line["container"]
    ]
    creation = [
        ("CreateContainer", None, None),
        ("ValidateContainerAdjustment", None, SMALL.files),
        ("PostCreateContainer", SMALL.files, None),
        ("StartContainer", SMALL.files, None),
        ("PostStartContainer", SMALL.files, None),
    ]
    assert shown == [
        *creation,
        ("UpdateContainer", SMALL.files, None),
        ("PostUpdateContainer", LARGE.files, None),
        ("UpdateContainer", LARGE.files, None),
        ("PostUpdateContainer", MIDDLE.files, None),
        *creation,
        *((method, MIDDLE.files, None) for method in END),
        *((method, SMALL.files, None) for method in END),
    ]


def test_the_kernels_files_are_those_of_nriplugin_alone(seen: Seen) -> None:
    """Observers change no setting of a container."""
    created, resized = seen.alone
    assert seen.between == [created, resized]
    resized_again, second = seen.restarted
    assert second == created
    for settings, of in ((created, SMALL), (resized, LARGE), (resized_again, MIDDLE)):
        assert {file: settings[file] for file in of.files} == of.files


def test_nriplugin_logs_what_it_logs_alone(seen: Seen) -> None:
    """With observers no line is lost or added, before the restart and after it."""
    # Without times, numbers of pods, what the curve was learned from, and decisions,
    # which a thread logs a moment later and with the names of pods.
    alone, between, restarted = (
        [
            re.sub(r"\d+|\(.*\)", "", line)
            for line in log.splitlines()
            if " DEBUG " not in line
        ]
        for log in seen.logs
    )
    # `alone` was read while nriplugin was running, the others after its end.
    end = "-- ::, INFO disconnected: stopped"
    assert between[: between.index(end)] == alone
    assert restarted[: restarted.index(end)] == alone
