"""`nriplugin capacity` as a user types it, on sample files and made-up nodes."""

from __future__ import annotations

import itertools
import json
import re
import socket
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from support.capacity_trees import (
    NODE,
    PODS,
    SAMPLES,
    file_in,
    fill,
    levels,
    machine,
)
from support.control_daemon import ControlDaemon
from support.terminals import COLOUR, on_terminal

from nriplugin.api import control_pb2 as control
from nriplugin.cli.capacity_svg import WIDTH
from nriplugin.cli.main import main
from nriplugin.kube.quantity import parse

Captured = pytest.CaptureFixture[str]

# How wide letters of 13 pixels are on average, in a font with wide letters.
LETTER = 7.2

UID = "00000000-0000-4000-8000-{:012x}"
WEB = f"/kubepods/burstable/pod{UID.format(2)}"


def report(capsys: Captured, *options: str) -> Any:
    """Return the JSON report of the samples."""
    main(["capacity", "--node", NODE, "--pods", PODS, "-o", "json", *options])
    return json.loads(capsys.readouterr().out)


def named(document: Any, name: str) -> Any:
    (level,) = (one for one in levels(document["tree"]) if one["name"] == name)
    return level


def test_capacity_allocatable_and_allocated(capsys: Captured) -> None:
    """The sums are those of `kubectl describe node`; ended pods do not count."""
    found = report(capsys)
    assert found["node"] == "worker-1"
    assert found["capacity"] == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert found["allocatable"]["memory"] == "30620Mi"
    assert found["reserved"]["evictionHard"] == {"memory": "100Mi"}
    assert found["allocated"]["cpu"] == {
        "requests": "6200m",
        "requestsPercent": 82,
        "limits": "11",
        "limitsPercent": 146,
        "podsWithoutLimit": 3,
    }
    assert found["pods"] == 7


# `kubectl describe node` of "Kubernetes capacity enforcement": resources that somebody
# else reports are among them.
DESCRIBED = """
kind: Node
metadata: {name: node-48}
status:
  capacity:
    cpu: "48"
    mem-hard-eviction-threshold: 500Mi
    mem-soft-eviction-threshold: 1536Mi
    memory: 263192560Ki
    pods: "256"
    hugepages-1Gi: "0"
  allocatable: {cpu: "46", memory: 258486256Ki, pods: "256", hugepages-1Gi: "0"}
"""
ASKING = """
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - name: app
    resources:
      requests: {cpu: 400m, memory: 500Mi}
      limits: {cpu: 3600m, memory: 3662Mi}
"""


def test_what_is_allocated_of_the_48_cpu_node(tmp_path: Path, capsys: Captured) -> None:
    """800m (1%) and 7200m (15%) of 46 CPUs, 1000Mi (0%) and 7324Mi (2%) of memory."""
    node, pods = tmp_path / "node.yaml", tmp_path / "pods.yaml"
    node.write_text(DESCRIBED)
    pods.write_text("---".join(ASKING.replace("NAME", name) for name in ("a", "b")))
    command = ["capacity", "--node", str(node), "--pods", str(pods), "-o", "json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["allocatable"]["cpu"] == "46"
    assert parse(found["allocatable"]["memory"]) == 258_486_256 << 10
    keys = ("requests", "requestsPercent", "limits", "limitsPercent")
    allocated = {
        name: tuple(one[key] for key in keys)
        for name, one in found["allocated"].items()
    }
    assert allocated == {
        "cpu": ("800m", 1, "7200m", 15),
        "memory": ("1000Mi", 0, "7324Mi", 2),
    }


@pytest.mark.parametrize(
    ("allocatable", "eviction"),
    [("4Gi", "0"), ("4046Mi", "50Mi"), ("3996Mi", "100Mi")],
)
def test_a_threshold_below_the_default(
    allocatable: str, eviction: str, tmp_path: Path, capsys: Captured
) -> None:
    """What is allocatable is what the node reports, also where nothing is reserved."""
    node = tmp_path / "node.yaml"
    node.write_text(
        "{kind: Node, status: {capacity: {cpu: 2, memory: 4Gi}, "
        f"allocatable: {{cpu: 1930m, memory: {allocatable}}}}}}}"
    )
    assert main(["capacity", "--node", str(node), "--pods", PODS, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert parse(found["allocatable"]["memory"]) == parse(allocatable)
    assert found["reserved"]["kube"] == {"cpu": "70m"}
    assert found["reserved"]["evictionHard"]["memory"] == eviction
    assert found["tree"]["v2"]["memory.max"] == str(4 << 30)


def test_the_tree_has_paths_and_values_on_four_levels(capsys: Captured) -> None:
    """250m, 500m and 400Mi are 256 shares, a quota of 50000 and 419430400 bytes."""
    found = report(capsys)
    web = named(found, "shop/web-0")
    assert web["cgroup"] == WEB
    app = web["below"][0]
    assert app["cgroup"] == f"{WEB}/{'0200' * 16}"
    assert app["v1"] == {
        "cpu.shares": "256",
        "cpu.cfs_quota_us": "50000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": "419430400",
    }
    assert app["v2"]["cpu.max"] == "50000 100000"
    assert web["v1"]["cpu.shares"] == "358"
    assert named(found, "Burstable")["v1"] == {"cpu.shares": "4300"}
    assert named(found, "BestEffort")["v1"] == {"cpu.shares": "2"}
    # The eviction threshold is not taken from the cgroup of all pods.
    assert found["tree"]["v2"]["memory.max"] == str(30 << 30)
    # One container without a CPU limit: no quota for the pod.
    assert "cpu.max" not in named(found, "batch/train-1")["v2"]


def test_the_table_and_yaml_say_the_same(capsys: Captured) -> None:
    """In a pipe there are neither bars nor colours."""
    command = ["capacity", "--node", NODE, "--pods", PODS]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert re.search(r"^memory +32Gi +- +2Gi +100Mi +30620Mi +30Gi$", text, re.M)
    assert "overcommitted by 3.5, 3 pods without a limit" in text
    assert "█" not in text
    assert "\x1b" not in text
    assert main([*command, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == report(capsys)


def test_bars_on_a_terminal() -> None:
    """A bar is as long as the capacity: requested, free, reserved."""
    with on_terminal("capacity", "--node", NODE, "--pods", PODS) as running:
        assert running.wait() == 0
    text = COLOUR.sub("", running.text)
    assert f"cpu     {'█' * 39}{'░' * 8}{'▒' * 3}  limits 146 %" in text
    # No line is too long, and a file is not apart from its value.
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"=\s*\n|cpu.max=[0-9]+\n", text)
    assert re.search(r"\n {8}v1  cpu.shares=\d+ .*\n {12}memory.limit_in_bytes=", text)


def test_one_pod_is_no_pods(tmp_path: Path, capsys: Captured) -> None:
    """The words beside a count of one say so."""
    manifest, drawing = tmp_path / "pods.yaml", tmp_path / "capacity.svg"
    manifest.write_text("{kind: Pod, spec: {containers: [{name: app}]}}")
    command = ["capacity", "--node", NODE, "--pods", str(manifest)]
    assert main([*command, "--svg", str(drawing)]) == 0
    found = capsys.readouterr().out + drawing.read_text()
    for words in (
        "1 pod; limits",
        "1 pod without",
        "1 pod has no",
        "1 BestEffort pod ",
    ):
        assert words in found


def test_the_drawing_is_svg_with_every_pod(tmp_path: Path, capsys: Captured) -> None:
    """Each pod with a request has a box with a tip, and the overcommit is in words."""
    drawing = tmp_path / "capacity.svg"
    report(capsys, "--svg", str(drawing))
    root = ElementTree.parse(drawing).getroot()  # noqa: S314 - our own file
    texts = [one.text or "" for one in root.iter() if one.text]
    assert any("overcommitted by 3.5" in text for text in texts)
    assert {"shop/web-0 350m", "data/db-0 2", "kube 500m"} <= set(texts)


def test_huge_pages_are_drawn_as_reserved(tmp_path: Path) -> None:
    """The memory of a node is allocatable, reserved, or in huge pages."""
    file, drawing = tmp_path / "node.yaml", tmp_path / "capacity.svg"
    amounts = "cpu: 8, memory: 32Gi, hugepages-1Gi: 4Gi"
    file.write_text(f"{{kind: Node, status: {{capacity: {{{amounts}}}}}}}")
    command = ["capacity", "--node", str(file), "--pods", PODS]
    assert main([*command, "--svg", str(drawing)]) == 0
    root = ElementTree.parse(drawing).getroot()  # noqa: S314 - our own file
    texts = {one.text for one in root.iter()}
    assert {"huge pages 4Gi", "reserved: eviction 100Mi, huge pages 4Gi"} <= texts


def test_narrow_boxes_have_names_without_namespaces(tmp_path: Path) -> None:
    """Many pods are told apart by their names; the tips have all of it."""
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"web-{number}", "namespace": "shop"},
            "spec": {"containers": [{"name": "app", "resources": resources}]},
        }
        for number in range(15)
        for resources in ({"limits": {"cpu": "500m", "memory": "2Gi"}},)
    ]
    manifest, drawing = tmp_path / "pods.yaml", tmp_path / "capacity.svg"
    manifest.write_text(yaml.safe_dump_all(pods))
    command = ["capacity", "--node", NODE, "--pods", str(manifest)]
    assert main([*command, "--svg", str(drawing)]) == 0
    root = ElementTree.parse(drawing).getroot()  # noqa: S314 - our own file
    texts = {one.text for one in root.iter() if one.tag.endswith("}text")}
    tips = {one.text for one in root.iter() if one.tag.endswith("}title")}
    assert "web-3" in texts
    assert "shop/web-3 500m" in tips


def test_a_reservation_beyond_the_capacity_is_a_mistake(
    tmp_path: Path, capsys: Captured
) -> None:
    """A node without memory, and a file that is none, are named in one line."""
    file = tmp_path / "node.yaml"
    file.write_text("{kind: Node, status: {capacity: {cpu: 8}}}")
    assert main(["capacity", "--node", str(file), "--pods", PODS]) == 2
    assert "status.capacity: no cpu or no memory" in capsys.readouterr().err
    assert main(["capacity", "--node", NODE, "--pods", str(tmp_path / "no")]) == 2
    assert "--pods: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{kind: Deployment, apiVersion: apps/v1}",
            "Deployment.apps, expected objects of kind Pod",
        ),
        (
            "{kind: Pod, apiVersion: example.org/v1, spec: {}}",
            "Pod.example.org, expected objects of kind Pod",
        ),
        (
            "{items: [{kind: Node}, {kind: Job}]}",
            "Job, Node, expected objects of kind Pod",
        ),
        ("{kind: Pod, metadata: {name: x}}", "document 1 (Pod x): spec: missing, "),
        ("text", "document 1 (Pod (no name)): spec: missing, "),
        (
            "{items: [{kind: Node}, {kind: Pod, metadata: {name: x}}]}",
            "document 1, items[1] (Pod x): spec: missing, ",
        ),
    ],
)
def test_a_file_without_pods_is_a_mistake(
    text: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    """The line names the file, so that one of several is found."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    command = ["capacity", "--node", NODE, "--pods", PODS, "--pods", str(file)]
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"nriplugin: {file}: {message}")


def test_cgroups_that_cannot_be_opened_are_no_difference(
    tmp_path: Path, capsys: Captured
) -> None:
    """The exit code is that of a mistake: 1 would say that a value differs."""
    given = ["--node", NODE, "--pods", PODS, "--cgroup-root", str(tmp_path / "no")]
    assert main(["capacity", *given, "--check"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "--check: open " in told.err


def test_the_pods_of_several_nodes(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --node, those of this machine count; if none is, it has to be said."""
    manifest = tmp_path / "pods.yaml"
    pod = "{{kind: Pod, spec: {{nodeName: {0}, containers: [{{name: app}}]}}}}"
    text = [pod.format(name) for name in ("one", "two", "two")]
    manifest.write_text(f"{{items: [{', '.join(text)}]}}")
    command = ["capacity", "--pods", str(manifest), "-o", "json"]
    monkeypatch.setattr(socket, "gethostname", lambda: "two")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["pods"] == 2
    monkeypatch.setattr(socket, "gethostname", lambda: "three")
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "--pods: pods of 2 nodes, none of them 'three', expected" in told


def test_standard_input_is_read_once(capsys: Captured) -> None:
    """A second file would be empty, and the node be shown without its pods."""
    assert main(["capacity", "--node", "-", "--pods", "-"]) == 2
    assert "--pods: '-', expected standard input only once" in capsys.readouterr().err


def test_objects_beside_pods_are_left_out(tmp_path: Path, capsys: Captured) -> None:
    """The source says so; a list without items is a node without pods."""
    file, empty = tmp_path / "mixed.yaml", tmp_path / "empty.yaml"
    pod = "{kind: Pod, spec: {containers: [{name: app}]}}"
    file.write_text(f"{{items: [{{kind: Service}}, {pod}]}}")
    empty.write_text("{kind: List, items: []}")
    command = ["capacity", "--node", NODE, "--pods", str(file), "--pods", str(empty)]
    assert main([*command, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pods"] == 1
    assert f"pods: {file} (without Service), {empty}" in found["sources"]


def options(
    version: int, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    monkeypatch.setenv("NRIPLUGIN_CGROUP_VERSION", str(version))
    monkeypatch.setenv("CGROUP_DRIVER", driver)
    root = tmp_path / "cgroup"
    root.mkdir(exist_ok=True)
    return ["--cgroup-root", str(root), "--host-root", str(tmp_path)]


# A level, and one of its files that is changed by hand.
CHANGED = {
    1: [
        ("kubepods", "memory.limit_in_bytes", "1073741824"),
        ("Burstable", "cpu.shares", "1024"),
        ("shop/web-0", "cpu.cfs_quota_us", "77000"),
        ("db", "cpu.shares", "99"),
    ],
    2: [
        ("kubepods", "cpu.weight", "77"),
        ("Burstable", "cpu.weight", "100"),
        ("shop/web-0", "memory.max", "max"),
        ("db", "cpu.max", "77000 100000"),
    ],
}


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("version", [1, 2])
def test_check_is_silent_or_names_exactly_what_differs(
    version: int,
    driver: str,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On every level, one value that was changed by hand is the only one named."""
    places = options(version, driver, tmp_path, monkeypatch)
    root = tmp_path / "cgroup"
    found = report(capsys, *places)
    fill(version, root, found["tree"])
    command = ["capacity", "--node", NODE, "--pods", PODS, "--check", *places]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("All 19 cgroups hold the values")
    for name, file, value in CHANGED[version]:
        cgroup = named(found, name)["cgroup"]
        path = file_in(version, root, cgroup, file)
        before = path.read_text()
        path.write_text(f"{value}\n")
        assert main([*command, "-o", "json"]) == 1
        (difference,) = json.loads(capsys.readouterr().out)["differences"]
        assert (difference["cgroup"], difference["file"]) == (cgroup, file)
        assert difference["held"] == value
        assert difference["wanted"] == before.strip()
        assert difference["likely"]
        path.write_text(before)
    assert main(command) == 0


def test_check_names_cgroups_that_are_missing_or_too_many(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is not given, and one that is not there."""
    places = options(2, "cgroupfs", tmp_path, monkeypatch)
    root = tmp_path / "cgroup"
    fill(2, root, report(capsys, *places)["tree"])
    pod = root / WEB[1:]
    pod.rename(pod.with_name(f"pod{UID.format(99)}"))
    command = ["capacity", "--node", NODE, "--pods", PODS, "--check", *places]
    assert main(command) == 1
    lines = capsys.readouterr().out.splitlines()
    missing = lines.index(WEB) + 1
    assert lines[missing].strip() == "there is no such cgroup for shop/web-0"
    assert f"  pod {UID.format(99)} is not among the given pods" in lines


def test_check_learns_the_runtimes_curve(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights on another curve are no difference if all containers are on it."""
    places = options(2, "cgroupfs", tmp_path, monkeypatch)
    fill(2, tmp_path / "cgroup", report(capsys, *places, "--curve", "kep")["tree"])
    command = ["capacity", "--node", NODE, "--pods", PODS, "--check", *places]
    assert main(command) == 0
    assert main([*command, "--curve", "quadratic"]) == 1


def test_check_expects_what_a_daemon_has_decided(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of nriplugin's is meant; where it is missing, that is a difference."""
    places = options(2, "cgroupfs", tmp_path, monkeypatch)
    root = tmp_path / "cgroup"
    fill(2, root, report(capsys, *places)["tree"])
    cgroup = f"{WEB}/{'0200' * 16}"
    protected = root / cgroup[1:] / "memory.low"
    protected.write_text("314572800\n")
    command = ["capacity", "--node", NODE, "--pods", PODS, "--check", *places]
    assert main(command) == 1
    assert "memory.low: holds 314572800, expected 0" in capsys.readouterr().out
    known = control.ContainerWhy(
        id="0200" * 16,
        cgroup=cgroup,
        state="managed",
        files=[control.FileWhy(file="memory.low", decided="314572800")],
    )
    with ControlDaemon(tmp_path) as daemon:
        daemon.answers["Why"] = control.WhyResponse(containers=[known])
        command += ["--control", daemon.address]
        assert main(command) == 0
        protected.write_text("0\n")
        assert main(command) == 1
    assert "memory.low: holds 0, expected 314572800" in capsys.readouterr().out


def test_without_files_the_pods_are_those_of_kubelets_checkpoint(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capacity is that of /proc and /sys; a node without a checkpoint says so."""
    places = options(2, "cgroupfs", tmp_path, monkeypatch)
    machine(tmp_path)
    command = ["capacity", "-o", "json", *places]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "allocated_pods_state: No such file" in error
    assert "no runtime has a CRI socket here" in error
    checkpoint = tmp_path / "var/lib/kubelet/allocated_pods_state"
    checkpoint.parent.mkdir(parents=True)
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}}
    entry = {"ContainerResources": {"app": resources}, "PodLevelResources": None}
    data = json.dumps({"entries": {UID.format(1): entry}})
    checkpoint.write_text(json.dumps({"data": data, "checksum": 1}))
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["capacity"] == {
        "cpu": "4",
        "memory": "8Gi",
        "pid": "32768",
        "hugepages-2Mi": "0",
    }
    pod = named(found, UID.format(1))
    assert pod["qosClass"] == "Burstable"
    assert pod["requests"] == {"cpu": "250m", "memory": "64Mi"}
    assert found["tree"]["v2"]["pids.max"] == "32768"


KUBELET = str(SAMPLES / "kubelet.yaml")


def test_kubelets_settings_split_the_reservation(capsys: Captured) -> None:
    """They name the driver and all reservations; allocatable follows from them."""
    found = report(capsys, "--kubelet-config", KUBELET)
    assert found["reserved"] == {
        "system": {"cpu": "200m", "memory": "1Gi"},
        "kube": {"cpu": "300m", "memory": "1Gi"},
        "evictionHard": {"memory": "100Mi"},
    }
    assert found["allocatable"]["memory"] == "30620Mi"
    assert found["tree"]["cgroup"] == "/kubepods.slice"


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_reservations_that_are_enforced_are_cgroups_too(
    driver: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are shown beside the pods, and compared."""
    places = options(2, driver, tmp_path, monkeypatch)
    config = tmp_path / "kubelet.yaml"
    text = Path(KUBELET).read_text().replace("cgroupDriver: systemd\n", "")
    config.write_text(
        text + "systemReservedCgroup: /system.slice\n"
        "enforceNodeAllocatable: [pods, system-reserved]\n"
    )
    root = tmp_path / "cgroup"
    given = [*places, "--kubelet-config", str(config)]
    found = report(capsys, *given)
    (reserved,) = found["reservedCgroups"]
    assert (reserved["name"], reserved["cgroup"]) == (
        "system-reserved",
        "/system.slice",
    )
    assert reserved["v1"]["memory.limit_in_bytes"] == str(1 << 30)
    fill(2, root, found["tree"])
    fill(2, root, reserved)
    command = ["capacity", "--node", NODE, "--pods", PODS, "--check", *given]
    assert main(command) == 0
    (root / "system.slice/memory.max").write_text("max\n")
    assert main(command) == 1
    assert "/system.slice\n  memory.max: holds max" in capsys.readouterr().out


def test_a_wrong_value_in_kubelets_settings_is_a_mistake(
    tmp_path: Path, capsys: Captured
) -> None:
    """The line names the file and the field."""
    file = tmp_path / "kubelet.yaml"
    file.write_text("kind: KubeletConfiguration\nkubeReserved: {memory: lots}\n")
    command = ["capacity", "--node", NODE, "--pods", PODS]
    assert main([*command, "--kubelet-config", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nriplugin: {file}")
    assert "kubeReserved" in error


def test_settings_of_this_nodes_kubelet_are_found(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --node and --kubelet-config they are in kubelet's own file."""
    places = options(2, "cgroupfs", tmp_path, monkeypatch)
    machine(tmp_path)
    file = tmp_path / "var/lib/kubelet/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("kind: KubeletConfiguration\nkubeReserved: {memory: 1Gi}\n")
    assert main(["capacity", "--pods", PODS, "-o", "json", *places]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reserved"]["kube"] == {"memory": "1Gi"}
    assert any(str(file) in source for source in found["sources"])


def test_no_text_of_the_drawing_is_over_another(tmp_path: Path) -> None:
    """Each has its own room, also where letters are wide, and stays in the drawing."""
    drawing = tmp_path / "capacity.svg"
    files = [f"--{name}={SAMPLES / name}.yaml" for name in ("node", "pods")]
    files.append(f"--kubelet-config={SAMPLES / 'kubelet.yaml'}")
    assert main(["capacity", *files, "--svg", str(drawing)]) == 0
    picture = ElementTree.fromstring(drawing.read_text())  # noqa: S314 # our own
    boxes = []
    for one in picture.iter("{http://www.w3.org/2000/svg}text"):
        text, x, y = one.text or "", float(one.get("x", "")), float(one.get("y", ""))
        wide = len(text) * (9.5 if one.get("class") == "title" else LETTER)
        left = x - (wide if one.get("text-anchor") == "end" else 0)
        boxes.append((left, left + wide, y, text))
    assert len(boxes) > 20
    for left, right, _, text in boxes:
        assert left >= 0, text
        assert right <= WIDTH, text
    for above, below in itertools.combinations(boxes, 2):
        beside = above[1] <= below[0] or below[1] <= above[0]
        assert beside or abs(above[2] - below[2]) >= 13, (above, below)


def test_the_documentation_shows_what_the_command_prints(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of the sample is in the output, in its order; so is the drawing."""
    monkeypatch.chdir(SAMPLES)
    docs = SAMPLES.parents[2] / "docs"
    sample = (docs / "capacity.md").read_text().split("```\n")[1].splitlines()
    drawing = tmp_path / "capacity.svg"
    command = sample[0].split()[2:]
    assert main([*command, "--svg", str(drawing)]) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in sample[1:]:
        assert line.strip() == "..." or line in printed
    assert drawing.read_text() == (docs / "capacity.svg").read_text()
