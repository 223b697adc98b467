from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.needs import need

from nriplugin.cgroup.journal.journal import STATE_DIR
from nriplugin.cgroup.locate.detect import ENV_HOST_ROOT
from nriplugin.cgroup.locate.version import ROOT
from nriplugin.cgroup.systemd.dbus import SYSTEM_BUS
from nriplugin.cli.run import add_arguments
from nriplugin.config import Config, parse_config
from nriplugin.config.file import CheckpointSection
from nriplugin.daemon.control_service import DEFAULT_CONTROL
from nriplugin.daemon.http_service import DEFAULT_HTTP, parse_http_address
from nriplugin.nri.launch import DEFAULT_SOCKET
from nriplugin.sockets import parse_address

DIRECTORY = Path(__file__).parents[2] / "deploy/kubernetes"
COMPONENTS = ("cgroup-writes", "systemd", "kubelet-checkpoint", "podgroups")
RBAC = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def pod_of(daemonset: Any) -> Any:
    return daemonset["spec"]["template"]["spec"]


def container_of(daemonset: Any) -> Any:
    (container,) = pod_of(daemonset)["containers"]
    return container


def mounts_of(daemonset: Any) -> dict[str, tuple[Any, bool]]:
    """Return by mount point what of the node is there, and whether for writing."""
    volumes = {volume["name"]: volume for volume in pod_of(daemonset)["volumes"]}
    return {
        mount["mountPath"]: (
            volumes[mount["name"]].get("hostPath", {}).get("path"),
            not mount.get("readOnly", False),
        )
        for mount in container_of(daemonset)["volumeMounts"]
    }


@pytest.fixture(scope="module")
def daemonset() -> Any:
    return read(DIRECTORY / "daemonset.yaml")


def kustomized(tmp_path: Path, components: tuple[str, ...]) -> dict[str, Any]:
    """Return what kustomize makes of it, by kind."""
    if shutil.which("kubectl") is None:
        need("kubectl", "it is not installed")
    below = os.path.relpath(DIRECTORY, tmp_path)
    overlay = {
        "resources": [below],
        "components": [f"{below}/components/{name}" for name in components],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    made = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return {document["kind"]: document for document in yaml.safe_load_all(made.stdout)}


def test_every_file_is_yaml_of_a_known_kind() -> None:
    """Every file that a kustomization names exists."""
    kinds = {str(p.relative_to(DIRECTORY)): read(p) for p in DIRECTORY.rglob("*.yaml")}
    assert {name: document["kind"] for name, document in kinds.items()} == {
        "configmap.yaml": "ConfigMap",
        "daemonset.yaml": "DaemonSet",
        "kustomization.yaml": "Kustomization",
        **{f"components/{n}/kustomization.yaml": "Component" for n in COMPONENTS},
        **{f"components/podgroups/{kind.lower()}.yaml": kind for kind in RBAC},
    }
    for name in kinds["kustomization.yaml"]["resources"]:
        assert (DIRECTORY / name).is_file()


def test_it_has_no_privilege_but_being_root(daemonset: Any) -> None:
    """The socket's directory belongs to root; nothing else needs a privilege."""
    pod, container = pod_of(daemonset), container_of(daemonset)
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        assert shared not in pod
    assert all("hostPort" not in port for port in container["ports"])


def test_kubelet_can_ask_for_health(daemonset: Any) -> None:
    """The probes ask pages that exist, on the port that the command serves."""
    container = container_of(daemonset)
    (port,) = container["ports"]
    assert f"--http=:{port['containerPort']}" in container["command"]
    assert parse_http_address(DEFAULT_HTTP)[1] == port["containerPort"]
    for probe, path in {"livenessProbe": "/livez", "readinessProbe": "/readyz"}.items():
        asked = {"path": path, "port": port["name"]}
        assert container[probe]["httpGet"] == asked
        assert container[probe]["timeoutSeconds"] >= 5


def test_it_has_no_access_to_the_api(daemonset: Any) -> None:
    """The pod has no token of the API server."""
    assert pod_of(daemonset)["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod_of(daemonset)


def test_two_are_never_on_one_node(daemonset: Any) -> None:
    """Two plugins would set the same keys, and the runtime would fail containers."""
    strategy = daemonset["spec"]["updateStrategy"]
    assert strategy["type"] == "RollingUpdate"
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "10%"}


def test_it_is_on_every_node_and_stays_there(daemonset: Any) -> None:
    """The pod tolerates every taint and has a priority against eviction."""
    pod = pod_of(daemonset)
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["terminationGracePeriodSeconds"] <= 10
    resources = container_of(daemonset)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_the_selector_finds_its_pods(daemonset: Any) -> None:
    """The API server refuses a DaemonSet whose selector does not match its pods."""
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_of_the_node_only_the_state_directory_is_mounted_for_writing(
    daemonset: Any,
) -> None:
    """The socket's directory, the configuration and the cgroups are read-only."""
    assert mounts_of(daemonset) == {
        os.path.dirname(DEFAULT_SOCKET): (os.path.dirname(DEFAULT_SOCKET), False),
        "/etc/nriplugin": (None, False),
        f"/host{ROOT}": (ROOT, False),
        os.path.dirname(parse_address("", DEFAULT_CONTROL)): (None, True),
        STATE_DIR: (STATE_DIR, True),
    }


def test_nothing_is_mounted_that_stays_behind(daemonset: Any) -> None:
    """A mounted socket or subPath would not follow a restart or a change."""
    for mount in container_of(daemonset)["volumeMounts"]:
        assert "subPath" not in mount
    paths = [v["hostPath"] for v in pod_of(daemonset)["volumes"] if "hostPath" in v]
    for path in paths:
        # Only the plugin's own directory may be missing on a node.
        own = path["path"] == STATE_DIR
        assert path["type"] == ("DirectoryOrCreate" if own else "Directory")


def test_the_command_is_one_that_we_have(daemonset: Any) -> None:
    """The parser knows the options, and every path in them is mounted."""
    container = container_of(daemonset)
    program, command, *options = container["command"]
    assert (program, command) == ("nriplugin", "run")
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_arguments(parser)
    args = parser.parse_args(options)
    assert args.nri_socket == DEFAULT_SOCKET
    assert os.path.dirname(args.config) in mounts_of(daemonset)
    assert container["env"] == [{"name": ENV_HOST_ROOT, "value": "/host"}]


def test_the_configuration_is_one_that_we_read(daemonset: Any) -> None:
    """The ConfigMap holds a valid configuration that changes no default."""
    configmap = read(DIRECTORY / "configmap.yaml")
    (named,) = (v for v in pod_of(daemonset)["volumes"] if "configMap" in v)
    assert named["configMap"]["name"] == configmap["metadata"]["name"]
    ((name, text),) = configmap["data"].items()
    assert f"--config=/etc/nriplugin/{name}" in container_of(daemonset)["command"]
    assert parse_config(text, name) == Config()


def test_kustomize_takes_it(tmp_path: Path, daemonset: Any) -> None:
    """kustomize builds the directory as it is, in one namespace."""
    made = kustomized(tmp_path, ())
    assert set(made) == {"ConfigMap", "DaemonSet"}
    assert {one["metadata"].pop("namespace") for one in made.values()} == {
        "kube-system"
    }
    assert made["DaemonSet"] == daemonset


def test_writing_cgroups_is_a_component(tmp_path: Path, daemonset: Any) -> None:
    """It makes the cgroups writable, and changes no more."""
    made = kustomized(tmp_path, ("cgroup-writes",))["DaemonSet"]
    assert mounts_of(made) == mounts_of(daemonset) | {f"/host{ROOT}": (ROOT, True)}
    for key in ("securityContext", "command", "resources"):
        assert container_of(made)[key] == container_of(daemonset)[key]


def test_systemd_is_a_component(tmp_path: Path, daemonset: Any) -> None:
    """The bus is mounted where a detected node looks for it."""
    made = kustomized(tmp_path, ("cgroup-writes", "systemd"))["DaemonSet"]
    bus = os.path.dirname(SYSTEM_BUS)
    assert mounts_of(made)[f"/host{bus}"] == (bus, False)
    assert len(mounts_of(made)) == len(mounts_of(daemonset)) + 1


def test_the_checkpoint_of_kubelet_is_a_component(
    tmp_path: Path, daemonset: Any
) -> None:
    """Its directory is mounted below the host root, and cannot be written."""
    made = kustomized(tmp_path, ("kubelet-checkpoint",))["DaemonSet"]
    directory = os.path.dirname(CheckpointSection().path)
    added = {f"/host{directory}": (directory, False)}
    assert mounts_of(made) == mounts_of(daemonset) | added
    assert container_of(made)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_reading_of_pod_groups_is_a_component(
    tmp_path: Path, daemonset: Any
) -> None:
    """The service account may read them and nothing else; without it, none is used."""
    role = read(DIRECTORY / "components/podgroups/clusterrole.yaml")
    assert role["rules"] == [
        {
            "apiGroups": ["scheduling.volcano.sh"],
            "resources": ["podgroups"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    assert pod_of(daemonset)["automountServiceAccountToken"] is False
    made = kustomized(tmp_path, ("podgroups",))
    account = made["ServiceAccount"]["metadata"]
    assert pod_of(made["DaemonSet"])["serviceAccountName"] == account["name"]
    assert pod_of(made["DaemonSet"])["automountServiceAccountToken"] is True
    (subject,) = made["ClusterRoleBinding"]["subjects"]
    assert (subject["name"], subject["namespace"]) == (
        account["name"],
        account["namespace"],
    )
