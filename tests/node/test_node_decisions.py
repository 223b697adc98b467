"""The direct writer can write every file and value that the engine decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.strategies import (
    LEVEL_FILES,
    configs,
    containers,
    nodes,
    pods,
    resources,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from node.writing import kernel_with, writer_on
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.writing.updates import Status
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed, When

if TYPE_CHECKING:
    from cgroup.kernels import Kernel

    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig

EVERY_FILE = ALLOWABLE | LEVEL_FILES
BRANCH = ("/kubepods", QOS, POD, CONTAINER)


def big_kernel(quota: int | str) -> Kernel:
    """Return a kernel that has every file which a decision can set."""
    kernel = kernel_with("/system.slice", *BRANCH)
    for cgroup in BRANCH:
        for file in EVERY_FILE:
            kernel.files.setdefault(f"{cgroup}/{file}", "0")
        kernel.files[f"{cgroup}/cpu.max"] = f"{quota} 100000"
    return kernel


def assert_not_refused(outcomes: list[Outcome]) -> None:
    """Only the kernel may refuse a write, except for bytes that no file can hold."""
    for outcome in outcomes:
        content = outcome.content
        too_much = content.isdecimal() and int(content) >= 1 << 63
        assert outcome.ok or outcome.errno or too_much, outcome.reason
        assert outcome.status in (Status.WRITTEN, Status.SKIPPED, Status.FAILED)


def carry_out(decision: Decision, kernel: Kernel, when: When) -> None:
    outcomes = writer_on(kernel).carry_out(decision.writes, when, POD, CONTAINER)
    assert_not_refused(outcomes)


quotas = st.integers(1000, 1 << 40) | st.just("max")


@settings(max_examples=100, deadline=None)
@given(pods, containers, nodes, configs, quotas)
def test_whatever_is_decided_can_be_carried_out(
    pod: Pod,
    container: Container,
    facts: NodeFacts,
    config: EngineConfig,
    quota: int | str,
) -> None:
    """All writes go to the container's own branch of the tree."""
    facts = facts._replace(writable=True)
    decision = decide(pod, container, facts, config)
    kernel = big_kernel(quota)
    for when in When:
        carry_out(decision, kernel, when)
    assert_not_refused(writer_on(kernel).put(decision.files, CONTAINER))
    assert {path.rpartition("/")[0] for path, _ in kernel.writes} <= {*BRANCH}


@settings(max_examples=100, deadline=None)
@given(pods, containers, resources, nodes, configs, quotas)
def test_whatever_an_update_needs_can_be_carried_out(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
    quota: int | str,
) -> None:
    """Also the files that the executor writes because a runtime drops them."""
    facts = facts._replace(writable=True, runtime="cri-o", runtime_version="1.35.2")
    try:
        decision = decide_update(pod, container, asked, facts, config)
    except HandlerFailed:  # nothing changes
        return
    assert decision.files == {}
    kernel = big_kernel(quota)
    for when in When:
        carry_out(decision, kernel, when)
    assert {path.rpartition("/")[0] for path, _ in kernel.writes} <= {*BRANCH}
