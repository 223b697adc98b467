"""`nriplugin capacity` on a node: pods from kubelet's checkpoint and the runtime."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.capacity_trees import fill, levels, machine
from support.control_daemon import ControlDaemon
from support.runtime_of_pods import checkpoint_of, runtime_with

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.locate.identify import identify
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]
UID = "00000000-0000-4000-8000-{:012x}"
CHECKPOINT = "var/lib/kubelet/allocated_pods_state"


def resources(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None
) -> dict[str, Any]:
    given = {"requests": requests, "limits": limits}
    return {key: value for key, value in given.items() if value}


def container(name: str, given: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"name": name, "resources": given, **more}


def pod(number: int, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod of which everything runs but the init containers, which ended."""

    def status(one: dict[str, Any], which: int) -> dict[str, Any]:
        init = one in spec.get("initContainers", ())
        ended = init and one.get("restartPolicy") != "Always"
        # That of a request of 64Mi in 8Gi.
        return {
            "name": one["name"],
            "containerID": f"containerd://{f'{number:02x}{which:02x}' * 16}",
            "state": {"terminated" if ended else "running": {}},
            "oomScoreAdj": 993,
        }

    given = [*spec.get("initContainers", ()), *spec["containers"]]
    statuses = [status(one, which) for which, one in enumerate(given)]
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": UID.format(number),
        },
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


APP = container(
    "app",
    resources({"cpu": "250m", "memory": "64Mi"}, {"cpu": "500m", "memory": "400Mi"}),
)
ALL = resources(None, {"cpu": "1", "memory": "128Mi"})
WEB = pod(
    1,
    "web",
    {
        "containers": [APP],
        "initContainers": [
            # This sidecar runs beside the init container, and the other one does not.
            container("proxy", resources({"cpu": "20m"}), restartPolicy="Always"),
            container("prepare", resources({"cpu": "700m"}, {"cpu": "900m"})),
            container("log", resources({"cpu": "40m"}), restartPolicy="Always"),
        ],
    },
)
HEAVY = pod(
    2,
    "heavy",
    {
        "containers": [APP],
        "runtimeClassName": "heavy",
        "overhead": {"cpu": "50m", "memory": "32Mi"},
    },
)
GUARANTEED = pod(3, "db", {"containers": [container("db", ALL)]})
BEST_EFFORT = pod(4, "batch", {"containers": [container("batch", {})]})
# Only its init container, which has ended, makes this pod Burstable.
MIXED = pod(
    5,
    "mixed",
    {
        "containers": [container("mixed", ALL)],
        "initContainers": [container("fetch", {})],
    },
)
PODS = (WEB, HEAVY, GUARANTEED, BEST_EFFORT, MIXED)
# kubelet keeps it in the checkpoint for as long as the API server has it.
ENDED = pod(6, "ended", {"containers": [APP]})


@pytest.fixture(params=["cgroupfs", "systemd"])
def node(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """The options for a node whose cgroups are those of the manifests of its pods."""
    monkeypatch.setenv("NRIPLUGIN_CGROUP_VERSION", "2")
    monkeypatch.setenv("CGROUP_DRIVER", request.param)
    machine(tmp_path)
    root = tmp_path / "cgroup"
    root.mkdir()
    options = ["--cgroup-root", str(root), "--host-root", str(tmp_path)]
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(yaml.safe_dump_all(PODS))
    assert main(["capacity", "--pods", str(manifest), "-o", "json", *options]) == 0
    fill(2, root, json.loads(capsys.readouterr().out)["tree"])
    (tmp_path / CHECKPOINT).parent.mkdir(parents=True)
    (tmp_path / CHECKPOINT).write_bytes(checkpoint_of([*PODS, ENDED]))
    return options


def report(capsys: Captured, node: list[str]) -> Any:
    assert main(["capacity", "-o", "json", *node]) == 0
    return json.loads(capsys.readouterr().out)


def names(document: Any) -> list[str]:
    return sorted(
        one["name"] for one in levels(document["tree"]) if one["level"] == "pod"
    )


def test_the_checkpoint_and_the_runtime_tell_all(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """The same cgroups as by the manifests: overhead, init containers, classes, IDs."""
    with runtime_with(tmp_path, PODS):
        assert main(["capacity", "--check", *node]) == 0, capsys.readouterr().out
        assert "All 15 cgroups hold the values" in capsys.readouterr().out
        found = report(capsys, node)
    assert names(found) == [
        f"shop/{n}" for n in ("batch", "db", "heavy", "mixed", "web")
    ]
    (source,) = (one for one in found["sources"] if one.startswith("pods: "))
    assert source.endswith("names, overhead and init containers are the runtime's")


def test_a_checkpoint_of_earlier_releases_lacks_init_containers(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """Their numbers are then the runtime's."""
    (tmp_path / CHECKPOINT).write_bytes(checkpoint_of(PODS, with_init=False))
    with runtime_with(tmp_path, PODS):
        assert main(["capacity", "--check", *node]) == 0, capsys.readouterr().out


def test_the_checkpoint_is_below_kubelets_root(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """Where kubelet is told of another directory for its files."""
    flags = tmp_path / "var/lib/kubelet/kubeadm-flags.env"
    flags.write_text('KUBELET_KUBEADM_ARGS="--root-dir=/srv/kubelet/"\n')
    (tmp_path / "srv/kubelet").mkdir(parents=True)
    (tmp_path / CHECKPOINT).rename(tmp_path / "srv/kubelet/allocated_pods_state")
    with runtime_with(tmp_path, PODS):
        found = report(capsys, node)
    (source,) = (one for one in found["sources"] if one.startswith("pods: "))
    assert f"{tmp_path}/srv/kubelet/allocated_pods_state; names" in source


def test_a_pod_that_has_ended_is_left_out(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """It has no cgroup any more, and its requests do not count."""
    with runtime_with(tmp_path, PODS):
        assert report(capsys, node)["pods"] == len(PODS)


def test_one_value_changed_by_hand_is_named(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """And only that one."""
    (file,) = (tmp_path / "cgroup").glob(f"**/*{'0103' * 16}*/memory.max")
    file.write_text("4096\n")
    with runtime_with(tmp_path, PODS):
        assert main(["capacity", "--check", "-o", "json", *node]) == 1
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert (difference["file"], difference["held"]) == ("memory.max", "4096")


def test_only_what_the_checkpoint_lacks_is_asked_for(
    node: list[str], tmp_path: Path
) -> None:
    """Two listings, and the status of ended containers and of runtime classes."""
    with runtime_with(tmp_path, PODS) as runtime:
        assert main(["capacity", *node]) == 0
        methods = [one.method.rpartition("/")[2] for one in runtime.seen]
    assert sorted(methods) == [
        *("ContainerStatus", "ContainerStatus", "ListContainers", "ListPodSandbox"),
        *("PodSandboxStatus", "Version"),
    ]


def test_without_a_checkpoint_all_is_the_runtimes(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """Requests and limits are those of the numbers sent; memory is estimated."""
    (tmp_path / CHECKPOINT).unlink()
    with runtime_with(tmp_path, PODS):
        assert main(["capacity", "--check", *node]) == 0, capsys.readouterr().out
        capsys.readouterr()
        found = report(capsys, node)
    assert found["pods"] == len(PODS)
    assert any("estimated from OOM scores" in one for one in found["sources"])
    (app,) = (
        one
        for level in levels(found["tree"])
        if level["name"] == "shop/web"
        for one in level["below"]
        if one["name"] == "app"
    )
    assert app["requests"]["cpu"] == "250m"
    assert app["limits"] == {"cpu": "500m", "memory": "400Mi"}
    assert app["v2"]["cpu.max"] == "50000 100000"


def test_a_checkpoint_of_another_form_is_none(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """All is the runtime's then, and the source says why."""
    (tmp_path / CHECKPOINT).write_text('{"data": "[]"}')
    with runtime_with(tmp_path, PODS):
        found = report(capsys, node)
    assert found["pods"] == len(PODS)
    assert any("expected kubelet's checkpoint" in one for one in found["sources"])
    assert main(["capacity", *node]) == 2
    assert "expected kubelet's checkpoint" in capsys.readouterr().err


def test_without_a_runtime_the_source_says_what_is_missing(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """The class is that in which the cgroup is, though no init container is known."""
    (tmp_path / CHECKPOINT).write_bytes(checkpoint_of(PODS, with_init=False))
    found = report(capsys, node)
    assert names(found) == [UID.format(number) for number in (1, 2, 3, 4, 5)]
    (mixed,) = (one for one in levels(found["tree"]) if one["name"] == UID.format(5))
    assert mixed["qosClass"] == "Burstable"
    assert any("without overhead and init containers" in s for s in found["sources"])


SENT = {
    "app": control.ContainerNumbers(
        shares=256,
        quota_us=50_000,
        period_us=100_000,
        memory_limit_bytes=400 << 20,
        memory_request_bytes=64 << 20,
    ),
    "db": control.ContainerNumbers(
        shares=1024,
        quota_us=100_000,
        period_us=100_000,
        memory_limit_bytes=128 << 20,
        memory_request_bytes=128 << 20,
    ),
    "batch": control.ContainerNumbers(shares=2, memory_request_bytes=0),
}


def id_of(cgroup: str) -> str:
    """Return the ID of the container whose cgroup it is."""
    place = identify(cgroup)
    assert place is not None
    assert place.container_id is not None
    return place.container_id


def test_without_both_all_is_the_daemons(
    node: list[str], tmp_path: Path, capsys: Captured
) -> None:
    """The numbers that kubelet sent, and memory requests as the daemon knows them."""
    with runtime_with(tmp_path, PODS):
        of_node = report(capsys, node)
    expected = {
        container["name"]: (pod, container)
        for pod in levels(of_node["tree"])
        if pod["level"] == "pod"
        for container in pod["below"]
        if container["name"] in SENT and container["cgroup"]
    }
    (tmp_path / CHECKPOINT).unlink()
    (tmp_path / "run/containerd/containerd.sock").unlink(missing_ok=True)
    known = [
        control.ContainerWhy(
            id=id_of(container["cgroup"]),
            namespace="shop",
            pod=pod["name"].removeprefix("shop/"),
            container=name,
            cgroup=container["cgroup"],
            sent=SENT[name],
        )
        for name, (pod, container) in expected.items()
    ]
    with ControlDaemon(tmp_path) as daemon:
        daemon.answers["Why"] = control.WhyResponse(containers=known)
        found = report(capsys, [*node, "--control", daemon.address])
        daemon.answers["Why"] = control.WhyResponse()
        assert main(["capacity", *node, "--control", daemon.address]) == 2
    assert "no daemon knows one; expected --pods" in capsys.readouterr().err
    assert set(names(found)) == {pod["name"] for pod, _ in expected.values()}
    told = {
        one["name"]: one for one in levels(found["tree"]) if one["level"] == "container"
    }
    assert told == {name: container for name, (_, container) in expected.items()}
    (source,) = (one for one in found["sources"] if one.startswith("pods: "))
    assert source.startswith("pods: the daemon, without overhead, containers that")
