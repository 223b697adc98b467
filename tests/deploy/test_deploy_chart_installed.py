"""The chart on a real control plane whose nodes are objects only.

No kubelet runs, so pods are made and not started: it is seen what the API server takes,
and on which nodes the DaemonSet controller wants pods.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from nodes.control_plane import shared
from support.charts import CHART, helm
from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nodes.control_plane import ControlPlane

# The control plane is built when it is needed first.
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
PATIENCE_S = 120
NAMESPACE = "nodes"
# What each node is labelled with, and the DaemonSet that it gets by pools-values.yaml.
POOL, DISK = "node.example/pool", "node.example/disk"
NODES = {
    "plain": ({}, "nriplugin"),
    "web": ({POOL: "web", DISK: "hdd"}, "nriplugin"),
    "batch": ({POOL: "batch"}, "nriplugin-batch"),
    "batch-ssd": ({POOL: "batch", DISK: "ssd"}, "nriplugin-batch"),
    "web-ssd": ({POOL: "web", DISK: "ssd"}, "nriplugin-fast"),
    "ssd": ({DISK: "ssd"}, "nriplugin-ssd"),
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, because its nodes would disturb others."""
    if os.geteuid() != 0:
        need("vm", "the control plane is started by root")
    if shutil.which("go") is None:
        need("vm", "go is not installed")
    with shared(tmp_path_factory.mktemp("cluster")) as plane:
        for name, (labels, _) in NODES.items():
            make_node(plane, name, labels)
        plane.kubectl("create", "namespace", NAMESPACE)
        yield plane


def make_node(plane: ControlPlane, name: str, labels: dict[str, str]) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", **labels}},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(node))


def install(plane: ControlPlane, *args: str | Path, code: int = 0) -> str:
    """Run helm on the control plane; return all that it printed."""
    where = ("--kubeconfig", plane.kubeconfig, "--namespace", NAMESPACE)
    done = helm(*args, *where)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def placed(plane: ControlPlane) -> dict[str, list[str]]:
    """Return by node which DaemonSets have a pod for it."""
    found: dict[str, list[str]] = {name: [] for name in NODES}
    pods = json.loads(plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))
    for pod in pods["items"]:
        if "deletionTimestamp" not in pod["metadata"]:
            (owner,) = pod["metadata"]["ownerReferences"]
            found[node_of(pod)].append(owner["name"])
    return found


def node_of(pod: Any) -> str:
    """Return for which node the DaemonSet controller has made a pod."""
    required = pod["spec"]["affinity"]["nodeAffinity"]
    terms = required["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [term["matchFields"][0] for term in terms["nodeSelectorTerms"]]
    (name,) = {field["values"][0] for field in fields}
    return str(name)


def eventually(look: Callable[[], Any], wanted: object) -> None:
    """Wait until what is seen is what is wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.5)


def test_each_node_gets_one_pod(plane: ControlPlane) -> None:
    """Installed, upgraded to fewer pools, rolled back and uninstalled."""
    values = CHART / "ci/pools-values.yaml"
    wanted = {name: [daemonset] for name, (_, daemonset) in NODES.items()}
    install(plane, "install", "nriplugin", CHART, "--values", values)
    eventually(lambda: placed(plane), wanted)

    # Nodes of no pool are given up, and taken again.
    only = CHART / "ci/only-pools-values.yaml"
    install(plane, "upgrade", "nriplugin", CHART, "--values", only)
    batch = ["nriplugin-batch"]
    kept = {name: each if each == batch else [] for name, each in wanted.items()}
    eventually(lambda: placed(plane), kept)
    install(plane, "rollback", "nriplugin", "1")
    eventually(lambda: placed(plane), wanted)

    install(plane, "uninstall", "nriplugin")
    eventually(lambda: placed(plane), {name: [] for name in NODES})
    left = plane.kubectl(
        *("get", "daemonsets,configmaps,serviceaccounts", "-n", NAMESPACE),
        *("-l", "app.kubernetes.io/part-of=nriplugin", "-o", "name"),
    )
    assert left == ""


@pytest.mark.parametrize("switch", ["plain", "all"])
def test_the_api_server_takes_what_is_rendered(
    switch: str, plane: ControlPlane
) -> None:
    """Its checks go beyond the schemas, such as those of selectors and volumes."""
    # Custom resources need definitions that this control plane does not have.
    more: tuple[str, ...] = ()
    if switch == "all":
        names = ("podMonitor", "prometheusRule")
        off = ",".join(f"prometheus.{name}.enabled=false" for name in names)
        everything = str(CHART / "ci/everything-values.yaml")
        more = ("--values", everything, "--set", off)
    install(plane, "install", switch, CHART, *more)
    selected = ("-n", NAMESPACE, "-l", f"app.kubernetes.io/instance={switch}")
    found = plane.kubectl("get", "daemonsets", *selected, "-o", "name")
    assert found == f"daemonset.apps/{switch}-nriplugin\n"
    install(plane, "uninstall", switch, "--wait")


def test_a_typo_does_not_reach_the_cluster(plane: ControlPlane) -> None:
    """helm refuses it before it asks the API server anything."""
    told = install(
        *(plane, "install", "typo", CHART),
        *("--set", "config.cpuBrust.enabled=true"),
        code=1,
    )
    assert "cpuBrust" in told
    assert "typo" not in install(plane, "list", "--short")


def test_pools_are_told_apart_by_name(plane: ControlPlane) -> None:
    """Two pools of one name would be two objects of one name."""
    pools = json.dumps(
        [{"name": "a", "nodeSelector": {"x": value}} for value in ("1", "2")]
    )
    told = install(
        *(plane, "install", "twice", CHART), *("--set-json", f"pools={pools}"), code=1
    )
    assert "pools: a is there twice, expected different names" in told
