"""The support matrix: which test runs on which node, as pytest collects them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache

from nodes.catalog import NODES

from documents.blocks import TOP

BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"

BARE = (
    *("containerd-1.6", "containerd-1.7", "containerd-2", "containerd-2.4"),
    *("systemd", "crio", "v1"),
)
WITH_KUBELET = tuple(name for name, node in NODES.items() if node.kubelet)

# What is shown -> the file below tests/e2e that shows it.
ROWS = {
    BARE: {
        "new containers: the values of `explain`, and those of the runtime alone up to "
        "the curve": "test_e2e_values.py",
        "updates of containers": "test_e2e_updates.py",
        "`memoryQoS`, `cpuBurst`, `cpuQoS`, rules, with runc and crun": (
            "test_e2e_handlers.py"
        ),
        "values that no kubelet sends": "test_e2e_odd.py",
        "restarts and kills of plugin and runtime, an upgrade": "test_e2e_restarts.py",
        "resizes in the plugin's absence, a handler that was turned off": (
            "test_e2e_ownership.py"
        ),
        "kills at random moments": "test_e2e_faults.py",
        "a full or read-only disk, a damaged journal, a stopped plugin, clock jumps": (
            "test_e2e_fault_kinds.py"
        ),
        "`status`, `why`, `events`, `doctor`": "test_e2e_operating.py",
        "page cache of protected Guaranteed containers": "test_e2e_guaranteed.py",
        "`quotaBurst`": "test_e2e_policies.py",
        "`startupBoost`": "test_e2e_startup_boost.py",
        "`memoryGuard`": "test_e2e_memory_policies.py",
        "`proactiveReclaim`": "test_e2e_reclaim.py",
        "what `top` and `why` say holds a container back": "test_e2e_verdicts.py",
        "a job of Volcano: rules by task, `status --by group`": "test_e2e_groups.py",
        "beside memory-qos of nri-plugins": "test_e2e_beside.py",
        "between two other NRI plugins": "test_e2e_observers.py",
        "a resize in conflict with another NRI plugin": "test_e2e_conflicts.py",
        "containerd's own tests of updates and NRI": "test_e2e_conformance.py",
        "CRI proxy: answers, values, a kill under load": "test_e2e_cri.py",
        "CRI proxy: critest, with it and without": "test_e2e_cri_conformance.py",
        "CRI proxy: the runtime's events": "test_e2e_cri_events.py",
        "the same values by CRI proxy and by NRI": "test_e2e_cri_nri.py",
        "OCI hook: CRI-O without NRI": "test_e2e_hook.py",
        "OCI hook: podman": "test_e2e_hook_podman.py",
        "OCI hook: bundles of runc and crun": "test_e2e_hook_bundle.py",
        "cgroup v1: direct writes only": "test_e2e_v1.py",
        "what kernels accept, as `convert` and the executor expect it": (
            "test_e2e_cgroup_types.py"
        ),
        "direct writes through systemd": "test_e2e_cgroup_systemd.py",
        "the journal: every file is back after a kill": "test_e2e_cgroup_journal.py",
        "`detect`, `cgroup`, `load`": "test_e2e_cgroup_pods.py",
    },
    WITH_KUBELET: {
        "Deployments, Jobs, init containers, sidecars: four levels of cgroups": (
            "kubernetes/test_kubernetes_values.py"
        ),
        "resizes in place": "kubernetes/test_kubernetes_resize.py",
        "kubelet's MemoryQoS": "kubernetes/test_kubernetes_memory_qos.py",
        "`nriplugin capacity`": "kubernetes/test_kubernetes_capacity.py",
        "PodGroup objects of the API server": "kubernetes/test_kubernetes_podgroups.py",
        "image and Helm chart, from the import to the removal": (
            "kubernetes/test_kubernetes_helm.py"
        ),
        "pods come and go while systemd reloads": "kubernetes/test_kubernetes_churn.py",
    },
}


@cache
def collected() -> frozenset[tuple[str, str, bool]]:
    """Return file, node and whether only hack/conformance runs it, of every test."""
    names = "|".join(map(re.escape, sorted(NODES, key=len, reverse=True)))
    test = re.compile(rf"^tests/e2e/(.+?)::.*?[\[-]({names})[\]-]", re.MULTILINE)
    return frozenset(
        (file, node, long)
        for long in (False, True)
        for file, node in test.findall(_collect("long" if long else "not long"))
    )


def _collect(marks: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks),
            *("-p", "no:cacheprovider", "tests/e2e"),
        ],
        cwd=TOP,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def text() -> str:
    """Return the tables: a mark for each node on which a file of tests runs."""
    made = []
    for nodes, rows in ROWS.items():
        made += [
            f"| what is shown | {' | '.join(map(_column, nodes))} |",
            "|---" * (1 + len(nodes)) + "|",
            *(
                f"| [{what}](../tests/e2e/{file}) | "
                f"{' | '.join(_cell(file, node) for node in nodes)} |"
                for what, file in rows.items()
            ),
            "",
        ]
    return "\n".join(made)


def _column(node: str) -> str:
    """Return a short name: seven long ones would not fit beside each other."""
    return node.removeprefix("containerd-")


def _cell(file: str, node: str) -> str:
    if (file, node, False) in collected():
        return "yes"
    return "long" if (file, node, True) in collected() else ""
