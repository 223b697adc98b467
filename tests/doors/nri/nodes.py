"""A node in memory: a model of a kernel, and a plugin that may write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgroup.kernels import Kernel
from doors.nri.messages import (
    container_at,
    creation,
    existing,
    pod_at,
    seen,
    updating,
)
from engine.cases import NODE
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.cgroup.journal.journal import Journal
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.model import NodeFacts
    from nriplugin.node.ownership_records import OwnershipRecords

    Job = Callable[[], None]

FACTS = NODE._replace(writable=False)
LOOKS = 5


class ByHand:
    """A scheduler without a thread: a test runs its jobs by hand."""

    def __init__(self) -> None:
        self.now: list[Job] = []
        self.later: list[Job] = []
        self.pace = 0
        self.periodic: dict[str, Job | None] = {}
        self.timed: list[Job] = []
        self.stopped = False

    def soon(self, job: Job) -> None:
        self.now.append(job)

    def paced(self, jobs: Iterable[Job], per_second: int) -> None:
        self.later, self.pace = list(jobs), per_second

    def after(self, seconds: float, job: Job) -> None:
        self.timed.append(job)

    def every(self, seconds: float, job: Job | None, name: str) -> None:
        self.periodic[name] = job

    def stop(self) -> bool:
        self.stopped = True
        return True

    def work(self) -> None:
        """Run the jobs that are to run soon."""
        jobs, self.now = self.now, []
        for job in jobs:
            job()

    def work_when_time_is_up(self) -> None:
        """Run the jobs that wait for a time."""
        jobs, self.timed = self.timed, []
        for job in jobs:
            job()

    def work_later(self) -> None:
        """Run the paced jobs."""
        jobs, self.later = self.later, []
        for job in jobs:
            job()


def plugin_on(
    facts: NodeFacts | None = None,
    tree: Tree | None = None,
    *,
    background: ByHand | None = None,
    unreadable_because: str = "",
    **parts: Any,
) -> NodePlugin:
    """Return a plugin on a node; `parts` are further arguments of the life-cycle."""
    background = background or ByHand()
    lifecycle = Lifecycle(background, facts, tree, render=adjustment, **parts)
    return NodePlugin(lifecycle, unreadable_because)


def background_of(plugin: NodePlugin) -> ByHand:
    """Return the scheduler of a plugin that `plugin_on` made."""
    background = plugin.lifecycle.scheduler
    assert isinstance(background, ByHand)
    return background


def configure(plugin: NodePlugin, config: str) -> None:
    """Apply a configuration to a plugin."""
    plugin.apply(parse_config(config, "test"))


def repair_all(plugin: NodePlugin) -> None:
    """Have all containers compared and repaired, whatever the configuration says."""
    verifier = plugin.lifecycle.verifier
    verifier.repairs.enabled = True
    verifier.compare_all_soon()
    for _ in range(LOOKS):
        verifier.look()


class Node:
    """A kernel, and a plugin whose background work is done by hand.

    Its methods are what a runtime says. What a runtime does to cgroups is for the test.
    """

    def __init__(
        self,
        config: str,
        facts: NodeFacts = FACTS,
        kernel: Kernel | None = None,
        journal: Journal | None = None,
        records: OwnershipRecords | None = None,
    ) -> None:
        self.kernel = Kernel(2) if kernel is None else kernel
        tree = self.kernel.tree
        self.opened = 0

        def open_writer() -> DirectWriter:
            self.opened += 1
            executor = Executor(tree, journal=journal, refresh_s=0.0)
            return DirectWriter(tree, executor, journal)

        self.background = ByHand()
        self.plugin = plugin_on(
            facts,
            tree,
            background=self.background,
            open_writer=open_writer,
            records=records,
        )
        self.now = 0.0
        self.plugin.lifecycle.verifier.clock = lambda: self.now
        configure(self.plugin, config)

    def verify(self, seconds: float = 60.0, looks: int = LOOKS) -> None:
        """Let time pass, and have the files of all containers compared.

        At the first look containers that have just changed wait, and the results of
        repairs are seen two looks after these.
        """
        self.now += seconds
        for _ in range(looks):
            look = self.background.periodic["verify"]
            if look is not None:
                look()

    def file(self, path: str) -> str:
        """Return the content of a file in the model of the kernel."""
        return self.kernel.files[path]

    def of_container(self, file: str) -> str:
        """Return the content of a file of the usual container."""
        return self.file(f"{CONTAINER}/{file}")

    def written(self) -> dict[str, str]:
        """Return the writes since the last call, by file below the pod."""
        writes, self.kernel.writes = self.kernel.writes, []
        return {path.removeprefix(POD).lstrip("/"): value for path, value in writes}

    def create(
        self, app: nri.Container | None = None, pod: nri.PodSandbox | None = None
    ) -> nri.CreateContainerResponse | None:
        return self.plugin.create_container(
            creation(pod or pod_at(), app or container_at())
        )

    def update(
        self,
        asked: nri.LinuxResources,
        app: nri.Container | None = None,
        pod: nri.PodSandbox | None = None,
    ) -> nri.UpdateContainerResponse | None:
        return self.plugin.update_container(
            updating(pod or pod_at(), app or container_at(), asked)
        )

    def start(self, app: nri.Container | None = None) -> None:
        self.plugin.start_container(b"", _seen(app))

    def post_update(self, app: nri.Container | None = None) -> None:
        self.plugin.post_update_container(b"", _seen(app))

    def remove(self, app: nri.Container | None = None) -> None:
        self.plugin.remove_container(b"", _seen(app))

    def remove_pod(self, pod: nri.PodSandbox | None = None) -> None:
        self.plugin.remove_pod_sandbox(pod or pod_at())

    def synchronize(
        self,
        containers: Iterable[nri.Container],
        pods: Iterable[nri.PodSandbox] | None = None,
    ) -> list[nri.ContainerUpdate] | None:
        return self.plugin.synchronize(*existing(pods or [pod_at()], containers))


def _seen(app: nri.Container | None) -> view.Container:
    return seen(view.Container, app or container_at())
