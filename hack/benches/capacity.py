"""`nriplugin capacity` on a node with many pods: how long the command takes.

node    without options: by kubelet's checkpoint, and a runtime of the tests
check   the same, compared with all cgroups, which are directories of ordinary files
json    pods from a file, as `kubectl get pods -o json` prints them, with a drawing
yaml    the same from YAML

Each is a process of its own. `ms` is its time and `cpu_ms` the processor time that it
used; every figure is a median.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import yaml
from benches.tables import add_output_options, print_result
from support.capacity_trees import fill, machine
from support.runtime_of_pods import checkpoint_of, runtime_with

PODS = 500
TURNS = 5
TITLES = {"capacity": f"nriplugin capacity with {PODS} pods"}
NODE = {
    "kind": "Node",
    "metadata": {"name": "bench"},
    "status": {"capacity": {"cpu": "256", "memory": "1Ti", "pods": "500"}},
}
_APP = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "400Mi"}}
_ALL = {"limits": {"cpu": "1", "memory": "128Mi"}}
# Burstable with a sidecar and an init container that has ended, Guaranteed with two
# containers, and BestEffort.
SHAPES: tuple[dict[str, Any], ...] = (
    {
        "initContainers": [
            {"name": "proxy", "resources": _APP, "restartPolicy": "Always"},
            {"name": "prepare", "resources": _APP},
        ],
        "containers": [{"name": "app", "resources": _APP}],
    },
    {
        "containers": [
            {"name": "app", "resources": _ALL},
            {"name": "side", "resources": _ALL},
        ]
    },
    {"containers": [{"name": "app"}]},
)


def pod(number: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod that runs, as `kubectl get -o yaml` prints it."""
    init = spec.get("initContainers", [])
    statuses = [
        {
            "name": one["name"],
            "containerID": f"containerd://{number:032x}{which:032x}",
            "state": {"terminated" if _has_ended(one, init) else "running": {}},
        }
        for which, one in enumerate([*init, *spec["containers"]])
    ]
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "bench",
            "uid": f"7b0f0a2e-5d6c-4c1f-9c39-{number:012x}",
            # A pod of the API server has thousands of bytes that do not count here.
            "annotations": {"note": "x" * 4000},
        },
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


def _has_ended(one: dict[str, Any], init: list[dict[str, Any]]) -> bool:
    return one in init and one.get("restartPolicy") != "Always"


def command(top: Path, *options: str) -> list[str]:
    """Return the command about the made-up node."""
    places = ["--host-root", str(top), "--cgroup-root", str(top / "cgroup")]
    return [sys.executable, "-m", "nriplugin", "capacity", *places, *options]


def run(words: list[str]) -> tuple[float, float]:
    """Return how long a command took, and its processor time, in milliseconds."""
    began = perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    took = perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{words[3:]}: exit code {child.returncode}")
    return took * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def measured(words: list[str]) -> dict[str, float]:
    """Return the medians of several runs."""
    took, used = zip(*(run(words) for _ in range(TURNS)), strict=True)
    return {"ms": median(took), "cpu_ms": median(used)}


def make(top: Path, pods: list[dict[str, Any]]) -> tuple[str, str, str]:
    """Make the files of the node; return those of the node and of its pods."""
    machine(top)
    node, as_json, as_yaml = (top / name for name in ("node", "json", "yaml"))
    node.write_text(json.dumps(NODE))
    document = {"kind": "List", "items": pods}
    as_json.write_text(json.dumps(document, indent=4))
    as_yaml.write_text(
        yaml.dump(document, Dumper=getattr(yaml, "CDumper", yaml.Dumper))
    )
    (top / "cgroup").mkdir()
    checkpoint = top / "var/lib/kubelet/allocated_pods_state"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(checkpoint_of(pods))
    # The cgroups hold what this machine's kubelet would write.
    words = command(top, "--pods", str(as_json), "-o", "json")
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    fill(2, top / "cgroup", json.loads(done.stdout)["tree"])
    return str(node), str(as_json), str(as_yaml)


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="hack/bench capacity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_output_options(parser)
    args = parser.parse_args()
    os.environ |= {"NRIPLUGIN_CGROUP_VERSION": "2", "CGROUP_DRIVER": "systemd"}
    pods = [
        pod(number, spec) for number, spec in enumerate(islice(cycle(SHAPES), PODS))
    ]
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        node, as_json, as_yaml = make(top, pods)
        drawing = ("--svg", str(top / "drawing"))
        with runtime_with(top, pods):
            rows = {
                "node": measured(command(top)),
                "check": measured(command(top, "--check")),
            }
        for name, file in (("json", as_json), ("yaml", as_yaml)):
            words = command(top, "--node", node, "--pods", file, *drawing)
            rows[name] = measured(words)
    print_result({"capacity": rows}, TITLES, args.output, (8, 12))


if __name__ == "__main__":
    main()
