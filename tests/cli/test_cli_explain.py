"""`nriplugin explain` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      initContainers:
      - name: proxy
        restartPolicy: Always
        resources: {limits: {cpu: 0.1, memory: 64Mi}}
      containers:
      - name: app
        resources:
          requests: {cpu: 500m}
          limits: {memory: 1Gi}
---
# Only a comment.
---
apiVersion: v1
kind: Service
metadata: {name: web}
"""

LISTING = """\
Deployment shop/web (Burstable)
  container proxy (sidecar)
    as without nriplugin: cpu.weight = 17, cpu.max = 10000 100000, \
memory.max = 67108864
  container app
    as without nriplugin: cpu.weight = 59, cpu.max = max 100000, memory.max = 1073741824

skipped, no pods: Service web
"""

DETAILS = """\
Deployment shop/web (Burstable)
  curve           quadratic (auto: no container to learn from: what current runtimes do)
  cgroupfs        /kubepods/burstable/pod<uid>
  systemd         /kubepods.slice/kubepods-burstable.slice/\
kubepods-burstable-pod<uid>.slice
  kubelet writes  cpu.weight 24, memory.max 1140850688
  container proxy (sidecar)
    requests       cpu 0.1, memory 64Mi (cpu, memory from limits)
    limits         cpu 0.1, memory 64Mi
    kubelet sends  cpu.shares 102, cpu.quota 10000, cpu.period 100000, \
memory.limit 67108864
    cpu.weight = 17
    cpu.max = 10000 100000
    memory.max = 67108864
  container app
    requests       cpu 500m, memory 1Gi (memory from limits)
    limits         memory 1Gi
    kubelet sends  cpu.shares 512, cpu.period 100000, memory.limit 1073741824
    cpu.weight = 59
    cpu.max = max 100000
    memory.max = 1073741824

skipped, no pods: Service web
"""


def explain(
    *arguments: str | Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", "explain", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=ENVIRON,
    )


def test_what_does_not_change_is_one_line() -> None:
    """Without a handler, the runtime writes the same by itself; the rest is folded."""
    done = explain("-", stdin=MANIFEST)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, folded = done.stdout.splitlines()
    assert lines == LISTING.splitlines()
    assert folded.startswith("--details also shows requests and limits")


def test_details() -> None:
    """Each container has its numbers, its files and the rule of each file."""
    done = explain("--details", "-", stdin=MANIFEST)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.partition(" from cpu.")[0] for line in done.stdout.splitlines()]
    lines = [line.partition(" from memory.")[0].rstrip() for line in lines]
    assert lines == DETAILS.splitlines()
    assert "from cpu.shares; quadratic: " in done.stdout


def test_what_changes_comes_first_and_what_is_ignored_second(tmp_path: Path) -> None:
    """The values of handlers and of another curve, then what has no effect."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}")
    lines = explain("--config", config, "-", stdin=POD).stdout.splitlines()
    begin = [line.strip().partition(" ")[0] for line in lines]
    same = next(n for n, line in enumerate(lines) if "as without nriplugin" in line)
    assert "pids.max" in begin[:same]
    assert "cpu.max.burst" in begin[same:] or "refused" in begin[same:]
    assert not any("refused" in line or "left alone" in line for line in lines[:same])


TYPOS = """\
kind: Deployment
metadata: {name: web, annotations: {memory.high.cgroup2.nri.io: "1"}}
spec:
  template:
    metadata:
      annotations:
        memory.high.cgroup2.nri.io/container.ap: "536870912"
        cpu-brst.cgroup2.nri.io: "10%"
        cpu-burst.cgroup.nri.io: "10%"
        cpu-burst.cgroup2.nri.io/container.two: "10%"
        qos-level.cgroup2.nri.io: BE
    spec:
      containers:
      - name: app
        resources: {requests: {mem: 1Gi, memory: 512m}, limit: {cpu: 1}}
      - name: two
        limits: {cpu: 1}
"""


@pytest.mark.parametrize(
    "warning",
    [
        "container app: resources.limit: has no effect, expected requests, limits, "
        "claims; did you mean 'limits'?",
        "container app: resources.requests.memory: 512m is 0.512 bytes, less than a "
        "page of 4096; did you mean '512Mi'?",
        "container app: resources.requests.mem: not a resource of Kubernetes; did "
        "you mean 'memory'?",
        "container two: limits: not a key of a container; did you mean "
        "'resources.limits'?",
        "annotation memory.high.cgroup2.nri.io/container.ap: the pod has no container "
        "'ap', expected one of app, two; did you mean 'app'?",
        "annotation cpu-brst.cgroup2.nri.io: not one of nriplugin; did you mean "
        "'cpu-burst'?",
        "annotation cpu-burst.cgroup.nri.io: not one of nriplugin; did you mean "
        "'cpu-burst.cgroup2.nri.io'?",
        "annotation cpu-burst.cgroup2.nri.io/container.two: has no effect, because "
        "cpuBurst is off",
        "annotation qos-level.cgroup2.nri.io: has no effect, because cpuQoS and "
        "memoryQoSLevel are off",
        "annotation memory.high.cgroup2.nri.io: has no effect on the Deployment; pods "
        "get the annotations of spec.template.metadata",
    ],
)
def test_a_manifest_that_does_not_do_what_it_seems_to(
    warning: str, tmp_path: Path
) -> None:
    """Each is a line at the top of the pod; a pod without any has none."""
    assert f"  warning: {warning}\n" in explain("-", stdin=TYPOS).stdout
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    assert "warning" not in explain("--config", config, "-", stdin=POD).stdout


def test_json_has_all_pods_of_all_files(tmp_path: Path) -> None:
    """JSON has one list of pods, in the order of the files."""
    first, second = tmp_path / "1.yaml", tmp_path / "2.json"
    first.write_text(MANIFEST)
    pod = {
        "kind": "Pod",
        "metadata": {"name": "db", "uid": "12-34"},
        "spec": {"containers": [{"name": "db"}]},
    }
    second.write_text(json.dumps(pod))
    done = explain("--json", first, second)
    assert (done.returncode, done.stderr) == (0, "")
    web, db = json.loads(done.stdout)["pods"]
    assert web["containers"][1]["files"][0] == {
        "file": "cpu.weight",
        "value": "59",
        "native": "59",
        "fields": ["cpu.shares"],
        "rule": web["containers"][0]["files"][0]["rule"],
        "handler": "resources",
        "source": "the container's resources",
        "confidence": "exact",
    }
    assert db["cgroups"]["systemd"].endswith("/kubepods-besteffort-pod12_34.slice")


@pytest.mark.parametrize(
    ("curve", "weight"),
    [("auto", "59"), ("kep", "20"), ("quadratic", "59"), ("proportional", "50")],
)
def test_the_curve_can_be_chosen(curve: str, weight: str) -> None:
    """`auto` is the curve of current runtimes, because there is no node."""
    done = explain("--json", "--curve", curve, "-", stdin=MANIFEST)
    [web] = json.loads(done.stdout)["pods"]
    assert web["containers"][1]["files"][0]["value"] == weight
    assert web["curve_evidence"].partition(":")[0] == (
        "auto" if curve == "auto" else "chosen"
    )


@pytest.mark.parametrize("text", ["", "---\n---\n", "kind: List\nitems: []\n"])
def test_no_pods_is_said(text: str) -> None:
    """A manifest without pods is no mistake."""
    done = explain("-", stdin=text)
    assert (done.returncode, done.stdout) == (0, "no pods\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "-: line 2, column 1: not YAML: "),
        ("a: 2024-99-99", "-: not YAML: "),
        ("\0", "-: not YAML: "),
        ("kind: Pod\nkind: Job", "-: line 2: duplicate key 'kind', expected only"),
        ("hello", "-: document 1: 'hello', expected a Kubernetes object"),
        (MANIFEST.replace("64Mi", "64MB"), "resources.limits.memory: '64MB', expected"),
        (
            MANIFEST.replace("0.1", "9G"),
            "-: Deployment web: container proxy: cpu.quota",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(text: str, message: str) -> None:
    """The line has the file and the place in it; standard output stays empty."""
    done = explain("-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    """A file that is missing, or a directory."""
    for path in (tmp_path / "missing.yaml", tmp_path):
        done = explain(path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"nriplugin: {path}: cannot be read: ")


CONFIG = """\
curve: kep
memoryQoS: {enabled: true}
cpuQoS: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [pids.max]}
rules:
- name: gold
  match: {namespace: shop, container: app}
  cpuBurst: {enabled: true, percent: 50}
"""

POD = """\
kind: Pod
metadata:
  name: db
  namespace: shop
  annotations:
    volcano.sh/qos-level: BE
    pids.max.cgroup2.nri.io/container.app: "100"
    cpu-burst.cgroup2.nri.io: 300%
spec:
  runtimeClassName: runc
  containers:
  - name: app
    resources:
      requests: {cpu: 100m, memory: 256Mi}
      limits: {cpu: 1, memory: 1Gi}
"""


def test_handlers_rules_and_annotations_are_named(tmp_path: Path) -> None:
    """Each file has its handler and its source; a refusal has its reason."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    done = explain("--json", "--config", config, "-", stdin=POD)
    assert (done.returncode, done.stderr) == (0, "")
    [db] = json.loads(done.stdout)["pods"]
    [app] = db["containers"]
    assert db["curve"] == "kep"
    assert app["settings"] == "rules[0] (gold)"
    found = {one["file"]: (one["value"], one["source"]) for one in app["files"]}
    assert found["pids.max"] == (
        "100",
        "annotation pids.max.cgroup2.nri.io/container.app",
    )
    assert found["cpu.max.burst"] == ("50000", "rules[0].cpuBurst.percent")
    assert found["cpu.idle"] == ("1", "annotation volcano.sh/qos-level")
    assert found["memory.low"][0] == str(256 << 20)
    assert "factor 0.9 from default" in found["memory.high"][1]
    assert app["cleared"] == ["cpu.shares"]
    [refusal] = app["refused"]
    assert "300%" in refusal["text"]
    text = explain("--config", config, "-", stdin=POD).stdout
    assert "settings of rules[0] (gold)" in text
    assert "pids.max = 100           unifiedAnnotations: as given" in text
    assert "refused (annotation): cpu-burst.cgroup2.nri.io: '300%'" in text
    assert "cpu.weight left alone: resources: the container is idle" in text


def test_the_node_can_be_described(tmp_path: Path) -> None:
    """The decision depends on the node's runtime, driver and memory."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    arguments = ("--oci-runtime", "crun", "--driver", "systemd", "--node-memory", "8Gi")
    pod = POD.replace(", memory: 1Gi", "").replace("Name: runc", "Name: null")
    done = explain("--json", "--config", config, *arguments, "-", stdin=pod)
    [app] = json.loads(done.stdout)["pods"][0]["containers"]
    assert [one["file"] for one in app["writes"] if one["level"] == "container"] == [
        "cpu.idle",
        "cpu.max.burst",
    ]
    [high] = [one["value"] for one in app["files"] if one["file"] == "memory.high"]
    assert int(high) > 7 << 30


def test_a_node_with_cgroup_v1(tmp_path: Path) -> None:
    """kubelet's values are v1's, and of nriplugin there are direct writes only."""
    config = tmp_path / "config.yaml"
    config.write_text("cpuBurst: {enabled: true, percent: 50}")
    options = ("--details", "--cgroup-version", "1", "--config", config)
    done = explain("-", *options, stdin=MANIFEST)
    assert done.returncode == 0, done.stderr
    assert "cpu.weight" not in done.stdout
    assert "kubelet writes  cpu.shares 614, " in done.stdout
    only = "cgroup v2 files left alone: direct writes only: cgroup v1"
    assert done.stdout.count(only) == 2
    burst = "cpu.cfs_burst_us = 5000"
    lines = [line for line in done.stdout.splitlines() if burst in line]
    assert ["pod's cgroup before" in line for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "runtime_class", "sent", "written"),
    [
        ((), "runc", "cpu.idle", []),
        ((), "", None, ["cpu.idle"]),  # may be crun
        ((), "kata", None, ["cpu.idle"]),
        (("--driver", "cgroupfs"), "", "cpu.idle", []),
        (("--oci-runtime", "runc"), "", "cpu.idle", []),
        (("--oci-runtime", "crun"), "runc", "cpu.idle", []),  # the pod's own counts
        (("--oci-runtime", "runc"), "kata", None, ["cpu.idle"]),
        (("--read-only",), "runc", "cpu.idle", []),
        (("--read-only",), "", "cpu.weight", []),
    ],
)
def test_what_runs_a_pod_and_what_may_be_written(
    tmp_path: Path,
    arguments: tuple[str, ...],
    runtime_class: str,
    sent: str | None,
    written: list[str],
) -> None:
    """runtimeClassName names the OCI runtime, and --read-only leaves out direct
    writes.
    """
    config = tmp_path / "config.yaml"
    config.write_text("cpuQoS: {enabled: true, level: BE}")
    pod = POD.replace("Name: runc", f"Name: {runtime_class or 'null'}")
    done = explain("--json", "--config", config, *arguments, "-", stdin=pod)
    [app] = json.loads(done.stdout)["pods"][0]["containers"]
    assert [one["file"] for one in app["writes"]] == written
    files = {one["file"] for one in app["files"] if one["handler"] == "cpuQoS"}
    assert files == ({sent} if sent else set())


@pytest.mark.parametrize(
    ("checkpoint", "memory", "low", "source", "confidence"),
    [
        (True, (), 256 << 20, "kubelet's checkpoint", "exact"),
        (True, ("--node-memory", "64Gi"), 256 << 20, "kubelet's checkpoint", "exact"),
        (False, (), 256 << 20, "the pod's resources", "exact"),
        (
            False,
            ("--node-memory", "64Gi"),
            -(-3 * (64 << 30) // 1000),
            "oom_score_adj 997",
            "estimate",
        ),
    ],
)
def test_the_memory_request_is_the_one_that_a_node_knows(
    tmp_path: Path,
    checkpoint: bool,
    memory: tuple[str, ...],
    low: int,
    source: str,
    confidence: str,
) -> None:
    """From kubelet's checkpoint, or estimated by the node's memory; a note says it."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "memoryQoS: {enabled: true}\n"
        f"kubeletCheckpoint: {{enabled: {str(checkpoint).lower()}}}\n"
    )
    done = explain("--json", "--config", config, *memory, "-", stdin=POD)
    [app] = json.loads(done.stdout)["pods"][0]["containers"]
    [found] = [one for one in app["files"] if one["file"] == "memory.low"]
    assert (found["value"], found["source"]) == (str(low), f"request from {source}")
    assert found["confidence"] == confidence
    text = explain("--details", "--config", config, *memory, "-", stdin=POD).stdout
    assert len(app["notes"]) == 1
    assert ("is the manifest's" in text) is (confidence == "exact")
    assert ("(estimate)" in text) is (confidence == "estimate")


def test_a_request_that_is_no_estimate_anywhere_is_not_commented(
    tmp_path: Path,
) -> None:
    """A request from an annotation or from the QoS class is exact."""
    config = tmp_path / "config.yaml"
    config.write_text("memoryQoS: {enabled: true}")
    stated = POD.replace("volcano.sh/qos-level: BE", "memory-request.cgroup2.nri.io: 1")
    guaranteed = POD.replace("cpu: 100m, memory: 256Mi", "")
    for pod in (stated, guaranteed):
        text = explain("--config", config, "-", stdin=pod).stdout
        assert "memory.max = 1073741824" in text
        assert "note" not in text


def test_a_wrong_configuration_is_a_mistake_of_the_users(tmp_path: Path) -> None:
    """The exit code is 2, and standard output stays empty."""
    config = tmp_path / "config.yaml"
    config.write_text("cpuBurst: {percent: 500}")
    done = explain("--config", config, "-", stdin=POD)
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 1: cpuBurst.percent: 500, expected" in done.stderr


WORKLOADS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: ml, uid: 5f3c}
spec:
  minAvailable: 3
  queue: research
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers: [{name: app, resources: {limits: {cpu: 1, memory: 1Gi}}}]
        ephemeralContainers: [{name: debug}]
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch}]}}}
"""


def test_workloads_of_operators_are_explained() -> None:
    """Volcano's Job has its annotations and its PodGroup, others their path."""
    text = explain("-", stdin=WORKLOADS).stdout
    assert (
        "Job ml/train-worker-0 (Guaranteed, 2 replicas, "
        "template at spec.tasks[0].template)\n"
    ) in text
    assert "template at spec.pytorchReplicaSpecs.Worker.template)\n" in text
    assert "PodGroup ml/train-5f3c\n  min members     3\n" in text
    assert "  min resources   not computed: " in text
    details = explain("--details", "-", stdin=WORKLOADS).stdout
    assert "scheduling.k8s.io/group-name train-5f3c" in details
    assert "worker 0 of ml/train-5f3c, priority 1, queue " in details
    assert "container debug (ephemeral)" in text
    done = explain("--json", "-", stdin=WORKLOADS)
    train, mnist = json.loads(done.stdout)["pods"]
    assert (train["replicas"], train["qos_class"]) == (2, "Guaranteed")
    assert train["added_annotations"]["volcano.sh/task-spec"] == "worker"
    assert train["task"]["job"] == "ml/train-5f3c"
    assert (train["task"]["name"], train["task"]["priority"]) == ("worker", 1)
    assert train["pod_group"]["min_member"] == 3
    assert train["pod_v1"]["cpu.cfs_quota_us"] == "100000"
    assert train["pod_v2"]["cpu.weight"] == "39"
    _, debug = train["containers"]
    assert (debug["role"], debug["sent"]["cpu.shares"]) == ("ephemeral", 2)
    assert (mnist["pod_group"], mnist["replicas"]) == (None, 3)


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: worker-1}
status:
  capacity: {cpu: "8", memory: 67108864Ki}
  allocatable: {cpu: 7500m, memory: 33554432Ki}
"""


def test_capacity_and_allocatable_come_from_the_node(tmp_path: Path) -> None:
    """The OOM score is one of the capacity, memory.high one of what is allocatable."""
    config, node = tmp_path / "config.yaml", tmp_path / "node.yaml"
    config.write_text("memoryQoS: {enabled: true}\nkubeletCheckpoint: {enabled: false}")
    node.write_text(NODE)
    pod = POD.replace(", memory: 1Gi", "").replace("memory: 256Mi", "memory: 4Gi")
    done = explain("--json", "--config", config, "--node", node, "-", stdin=pod)
    [app] = json.loads(done.stdout)["pods"][0]["containers"]
    [high] = [one for one in app["files"] if one["file"] == "memory.high"]
    assert 28 << 30 < int(high["value"]) < 32 << 30
    assert "oom_score_adj 938" in high["source"]


def test_the_kubelets_configuration_counts(tmp_path: Path) -> None:
    """Its quota period is sent, and its reservations are not left for pods."""
    config, kubelet = tmp_path / "config.yaml", tmp_path / "kubelet.yaml"
    config.write_text("memoryQoS: {enabled: true}")
    kubelet.write_text(
        "kind: KubeletConfiguration\ncgroupDriver: cgroupfs\ncpuCFSQuotaPeriod: 50ms\n"
        "systemReserved: {memory: 8Gi}\nkubeReserved: {memory: 4Gi}\n"
        "podPidsLimit: 99\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}\n"
    )
    pod = POD.replace(", memory: 1Gi", "")
    options = ("--config", config, "--node-memory", "64Gi", "--json", "-")
    [plain] = json.loads(explain(*options, stdin=pod).stdout)["pods"]
    done = explain("--kubelet-config", kubelet, *options, stdin=pod)
    [given] = json.loads(done.stdout)["pods"]
    assert plain["containers"][0]["sent"]["cpu.period"] == 100_000
    assert given["containers"][0]["sent"]["cpu.period"] == 50_000
    assert "pids.max" not in plain["pod_v2"]
    assert given["pod_v2"]["pids.max"] == "99"
    high = [
        int(file["value"])
        for one in (plain, given)
        for file in one["containers"][0]["files"]
        if file["file"] == "memory.high"
    ]
    assert len(high) == 2
    assert 10 << 30 < high[0] - high[1] < 12 << 30

    kubelet.write_text("cpuCFSQuota: false")
    done = explain("--kubelet-config", kubelet, *options, stdin=pod)
    [without] = json.loads(done.stdout)["pods"]
    assert "cpu.quota" not in without["containers"][0]["sent"]

    kubelet.write_text("podPidsLimit: many\nkubeReserved: {cpu: x}")
    done = explain("--kubelet-config", kubelet, *options, stdin=pod)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert f"{kubelet}:1: podPidsLimit: 'many', expected" in first
    assert f"{kubelet}:2: kubeReserved.cpu: 'x', expected" in second


def test_what_the_kubelets_own_memory_qos_sets_wins(tmp_path: Path) -> None:
    """A handler leaves these files alone, as on a node; cgroup v1 has none of them."""
    config, kubelet = tmp_path / "config.yaml", tmp_path / "kubelet.yaml"
    config.write_text("memoryQoS: {enabled: true}")
    kubelet.write_text("memoryThrottlingFactor: 0.5")
    options = ("--config", config, "--kubelet-config", kubelet, "--json", "-")

    def explained(*more: str) -> dict[str, Any]:
        [pod] = json.loads(explain(*more, *options, stdin=POD).stdout)["pods"]
        found: dict[str, Any] = pod["containers"][0]
        return found

    app = explained()
    # 256Mi and half of the way to 1Gi.
    assert app["sent_files"]["memory.high"] == str(640 << 20)
    assert "memory.high" in {one["what"] for one in app["left"]}
    files = {one["file"]: one["handler"] for one in app["files"]}
    assert "memory.high" not in files
    assert files["memory.low"] == "memoryQoS"
    assert explained("--cgroup-version", "1")["sent_files"] == {}

    kubelet.write_text("memoryReservationPolicy: TieredReservation")
    app = explained()
    assert app["sent_files"]["memory.low"] == str(256 << 20)
    files = {one["file"]: one["handler"] for one in app["files"]}
    assert "memory.low" not in files
    assert files["memory.high"] == "memoryQoS"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POD, "0 nodes, expected one object Node"),
        (NODE.replace("33554432Ki", "x"), "status.allocatable.memory: 'x', expected"),
        ("kind: Node", "status.capacity: no cpu or no memory, expected both"),
    ],
)
def test_a_wrong_node_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The line has the file and the field."""
    node = tmp_path / "node.yaml"
    node.write_text(text)
    done = explain("--node", node, "-", stdin=POD)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{node}: {message}" in done.stderr
