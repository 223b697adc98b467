"""The suites there are: what each runs, where, in which ways, and known differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from conformances import adaptation, containerd, e2e_node, own
from conformances.e2e_node import Specs
from conformances.versions import runtime_versions
from conformances.ways import INSTEAD, WITH, WITHOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from nodes.catalog import Node
    from nodes.machine import Machine

    from conformances.outcomes import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where suites run: a node that is booted and prepared for them."""

    node: Node
    machine: Callable[[], AbstractContextManager[Machine]]
    versions: Callable[[Machine], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of another project, run once in each of `ways`, or of this one.

    `place` is None for a suite that runs on this machine, or boots nodes by itself;
    then `versions` says what takes part. `explained` has the reason of each known
    difference, by a regular expression for the test's name. A suite that is `long` is
    run only if the user names it.
    """

    name: str
    about: str
    run: Callable[..., Run]
    place: Place | None = None
    versions: Callable[[], dict[str, str]] = dict
    ways: tuple[str, ...] = (WITHOUT, WITH)
    explained: Mapping[str, str] = field(default_factory=dict)
    long: bool = False


OF_CONTAINERD = Place(
    node=containerd.NODE, machine=containerd.machine, versions=runtime_versions
)
OF_KUBERNETES = Place(
    node=e2e_node.NODE, machine=e2e_node.machine, versions=e2e_node.versions
)


RESIZE = "Pod InPlace Resize Container"


def _own(
    name: str,
    about: str,
    files: str,
    directory: str = own.DIRECTORY,
    **environment: str,
) -> Suite:
    return Suite(
        name=name,
        about=about,
        run=partial(
            own.run_tests, files=files, directory=directory, environment=environment
        ),
        versions=own.versions,
        ways=(WITH,),
        long=True,
    )


def _specs(
    name: str,
    about: str,
    specs: Specs,
    ways: tuple[str, ...] = (WITHOUT, WITH),
    *,
    long: bool = True,
) -> Suite:
    return Suite(
        name=name,
        about=about,
        place=OF_KUBERNETES,
        run=partial(e2e_node.run_specs, specs=specs),
        ways=ways,
        long=long,
    )


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            name="adaptation",
            about="NRI's own tests of its runtime side, nriplugin among the plugins",
            run=adaptation.run_tests,
            versions=adaptation.versions,
            explained=adaptation.EXPLAINED,
        ),
        Suite(
            name="containerd-updates",
            about="containerd's tests of UpdateContainerResources",
            place=OF_CONTAINERD,
            run=partial(containerd.run_tests, focus=containerd.UPDATES),
        ),
        Suite(
            name="containerd-nri",
            about="containerd's tests of NRI plugins",
            place=OF_CONTAINERD,
            run=partial(
                containerd.run_tests, focus=containerd.NRI, skip=containerd.RESTARTING
            ),
        ),
        Suite(
            name="containerd-restarts",
            about="containerd's tests of NRI plugins and pods over its own restart",
            place=OF_CONTAINERD,
            run=partial(containerd.run_tests, focus=containerd.RESTARTING),
        ),
        _specs(
            "kubelet",
            "some specs of each of the long suites but resize and reconciliation",
            Specs(
                focus=(
                    "MemoryQoS.*should set memory.low = requests.memory for Burstable",
                    "MemoryQoS.*should set memory.min for Guaranteed pod containers",
                    "MemoryQoS.*should set memory.high for Burstable pod using formula",
                    "MemoryQoS.*should NOT set memory.high for Guaranteed pod",
                    "Kubelet Cgroup Manager.*Top level QoS containers",
                    r"Swap.*NodeSwap\] +with configuration QOS Burstable \[",
                )
            ),
            long=False,
        ),
        _specs(
            "memory-qos",
            "kubelet's MemoryQoS",
            Specs(focus=("MemoryQoS",), limit_s=3 * 3600),
        ),
        _specs(
            "memory-qos-instead",
            "the same values by nriplugin's memoryQoS, kubelet's feature being off",
            Specs(
                focus=(
                    "MemoryQoS.*should set memory.high for Burstable pod using formula",
                    "MemoryQoS.*should NOT set memory.high for Guaranteed pod",
                )
            ),
            ways=(WITHOUT, INSTEAD),
        ),
        _specs(
            "reconciliation",
            "who resets which file of kubepods.slice, and when",
            Specs(focus=("Cgroup reconciliation",)),
        ),
        _specs(
            "cgroups",
            "the cgroups of QoS classes and pods, and OOM scores",
            Specs(
                focus=("Kubelet Cgroup Manager", "Validate OOM score adjustments"),
                # These run images other than busybox.
                skip=("burstable container's oom", "guaranteed container's oom"),
            ),
        ),
        _specs(
            "allocatable",
            "kubelet's own reservations, and how it makes the cgroups of a node",
            Specs(focus=("Node Container Manager",)),
        ),
        _specs(
            "swap",
            "swap of pods of each QoS class",
            Specs(focus=("Swap.*with configuration", "Swap.*with a critical pod")),
        ),
        _specs(
            "resize",
            "in-place resizes of pods",
            Specs(
                focus=(
                    f"{RESIZE} guaranteed qos - 1 container.*no restart resizing",
                    f"{RESIZE} burstable pods - 1 container.*no restart resizing",
                    f"{RESIZE} guaranteed pods with multiple",
                )
            ),
        ),
        _own(
            "own-values",
            "this project's tests of workloads on all nodes with a kubelet",
            "test_kubernetes_values.py",
        ),
        _own(
            "own-resizes",
            "this project's tests of resizes on all nodes with a kubelet",
            "test_kubernetes_resize.py",
        ),
        _own(
            "own-memory-qos",
            "kubelet's MemoryQoS with both policies and off, beside nriplugin's",
            "test_kubernetes_memory_qos.py",
        ),
        _own(
            "own-capacity",
            "`nriplugin capacity` on nodes with a kubelet, with both drivers",
            "test_kubernetes_capacity.py",
        ),
        _own(
            "own-podgroups",
            "PodGroup objects of a real API server, and the pods of one",
            "test_kubernetes_podgroups.py",
        ),
        _own(
            "own-churn",
            "a hundred pods come and go, beside 50 daemon-reloads and restarts",
            "test_kubernetes_churn.py",
            NRIPLUGIN_CHURN="100",
        ),
        _own(
            "own-chart",
            "the Helm chart on a real control plane whose nodes are objects only",
            "test_deploy_chart_installed.py",
            "tests/deploy",
        ),
        _own(
            "own-helm",
            "the image and the Helm chart, from the import to the removal",
            "test_kubernetes_helm.py",
        ),
        _own(
            "own-faults",
            "plugin and runtime killed for ten minutes under a stream of containers, "
            "and each other kind of fault once",
            "test_e2e_fault*.py",
            "tests/e2e",
            NRIPLUGIN_FAULT_MINUTES="10",
        ),
    )
}
