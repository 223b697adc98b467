"""The Helm chart: what helm makes of it with every file of values in ci/."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from charts.kube_schemas import LOCATION, kube_schemas
from charts.main import derived
from support.charts import CHART, VARIANTS, helm, kustomized, rendered, template, tool

from nriplugin import __version__
from nriplugin.cli.run import add_arguments
from nriplugin.config import parse_config
from nriplugin.nri.launch import DEFAULT_INDEX, DEFAULT_NAME, DEFAULT_SOCKET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# helm is built when it is needed first, which takes minutes.
pytestmark = pytest.mark.timeout(1800)
each_variant = pytest.mark.parametrize("values", VARIANTS, ids=lambda path: path.name)
# The components of deploy/kubernetes by the switches of the chart.
COMPONENTS = {
    "cgroupWrites": "cgroup-writes",
    "systemd": "systemd",
    "kubeletCheckpoint": "kubelet-checkpoint",
}
PLAIN = {
    "image": {"repository": "nriplugin", "tag": "latest"},
    "serviceAccount": {"create": False},
}


def pod_of(daemonset: Any) -> Any:
    return daemonset["spec"]["template"]["spec"]


def container_of(daemonset: Any) -> Any:
    (container,) = pod_of(daemonset)["containers"]
    return container


@each_variant
def test_helm_finds_nothing_wrong(values: Path) -> None:
    """`helm lint --strict` takes the chart with each file of values."""
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


@each_variant
def test_kubernetes_knows_every_field(values: Path, tmp_path: Path) -> None:
    """What is rendered has the form that the API of each kind has."""
    done = template({}, values)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "rendered.yaml"
    file.write_text(done.stdout)
    checked = kubeconform(file)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_wrong_field_would_be_found(tmp_path: Path) -> None:
    """The schemas are strict, and a kind without a schema is an error."""
    good = rendered()
    (daemonset,) = good.of_kind("DaemonSet").values()
    pod_of(daemonset)["priorityClass"] = "high"
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor"}
    for wrong, why in (
        (daemonset, "priorityClass"),
        ({**monitor, "metadata": {"name": "a"}, "spec": {"portal": 1}}, "portal"),
        ({"apiVersion": "v1", "kind": "Sheep", "metadata": {"name": "a"}}, "schema"),
    ):
        file = tmp_path / "wrong.yaml"
        file.write_text(yaml.safe_dump(wrong))
        checked = kubeconform(file)
        assert checked.returncode == 1
        assert why in checked.stdout


def kubeconform(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(tool("kubeconform"), "-strict", "-summary"),
            *("-schema-location", f"{kube_schemas()}/{LOCATION}", file),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"imagePullPolicy": "Always"}, "imagePullPolicy"),
        ({"image": {"pullpolicy": "Always"}}, "pullpolicy"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"config": {"cpuBrust": {"enabled": True}}}, "cpuBrust"),
        ({"config": {"cpuBurst": {"percent": "many"}}}, "percent"),
        ({"pools": [{"name": "a", "nodeSelector": {}}]}, "nodeSelector"),
        (
            {"pools": [{"name": "a", "nodeSelector": {"a": "b"}, "config": {"x": 1}}]},
            "x",
        ),
        ({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}, "maxSurge"),
        ({"nri": {"plugin": {"index": "9"}}}, "index"),
    ],
)
def test_a_typo_is_refused(values: Mapping[str, Any], named: str) -> None:
    """helm names the key, also one in the configuration, and renders nothing."""
    done = template(values)
    assert done.returncode != 0
    assert named in done.stderr
    assert done.stdout == ""


def test_derived_files_are_up_to_date() -> None:
    """After a change of the values or the configuration, run ./hack/chart."""
    for path, text in derived().items():
        assert path.read_text() == text, path


def test_the_chart_has_the_version_of_the_package() -> None:
    """The chart's version is also the tag of its image, if no other is given."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    (daemonset,) = rendered().of_kind("DaemonSet").values()
    assert container_of(daemonset)["image"] == f"localhost/nriplugin:{__version__}"


def test_the_defaults_are_those_of_the_command() -> None:
    """Only what differs from a default of `run` becomes an option."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["nri"]["socket"] == DEFAULT_SOCKET
    assert values["nri"]["plugin"] == {"index": DEFAULT_INDEX, "name": DEFAULT_NAME}


@each_variant
def test_the_command_is_one_that_we_have(values: Path) -> None:
    """The parser knows all options, and every configuration is valid."""
    found = rendered({}, values)
    for name, daemonset in found.of_kind("DaemonSet").items():
        program, command, *options = container_of(daemonset)["command"]
        assert (program, command) == ("nriplugin", "run")
        parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        add_arguments(parser)
        parser.parse_args(options)
        text = found.of_kind("ConfigMap")[name]["data"]["config.yaml"]
        parse_config(text, name)


def test_large_numbers_arrive_as_numbers() -> None:
    """Helm keeps numbers as floats, but a configuration has whole ones."""
    values = {"config": {"memoryQoS": {"enabled": True, "swap": 1 << 40}}}
    (config,) = rendered(values).of_kind("ConfigMap").values()
    document = yaml.safe_load(config["data"]["config.yaml"])
    assert document["memoryQoS"]["swap"] == 1 << 40
    parse_config(config["data"]["config.yaml"], "config.yaml")


@pytest.mark.parametrize(
    "switches",
    [(), *itertools.combinations(COMPONENTS, 1), tuple(COMPONENTS)],
    ids=lambda switches: "+".join(switches) or "plain",
)
def test_kustomize_makes_the_same(switches: tuple[str, ...], tmp_path: Path) -> None:
    """The DaemonSet and the configuration are equal but for labels and names."""
    theirs = kustomized(tmp_path, [COMPONENTS[name] for name in switches])
    found = rendered({**PLAIN, "nodeAccess": dict.fromkeys(switches, True)})
    (ours,) = found.of_kind("DaemonSet").values()
    for daemonset in (ours, theirs["DaemonSet"]):
        spec = daemonset["spec"]
        del spec["selector"], spec["template"]["metadata"]
        for key in ("volumes",):
            pod_of(daemonset)[key].sort(key=lambda one: one["name"])
        container_of(daemonset)["volumeMounts"].sort(key=lambda one: one["name"])
    assert ours["spec"] == theirs["DaemonSet"]["spec"]
    (config,) = found.of_kind("ConfigMap").values()
    texts = (config["data"], theirs["ConfigMap"]["data"])
    assert yaml.safe_load(texts[0]["config.yaml"]) == yaml.safe_load(
        texts[1]["config.yaml"]
    )
    for key in ("name", "namespace"):
        assert config["metadata"][key] == theirs["ConfigMap"]["metadata"][key]


def runs_on(pod: Any, labels: Mapping[str, str]) -> bool:
    """Decide about a node as the scheduler does, for what the chart uses."""
    if any(labels.get(key) != value for key, value in pod["nodeSelector"].items()):
        return False
    required = (
        pod.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    if required is None:
        return True

    def holds(expression: Any) -> bool:
        within = labels.get(expression["key"]) in expression["values"]
        return bool(within == (expression["operator"] == "In"))

    return any(
        all(holds(one) for one in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


@pytest.mark.parametrize("affinity", [False, True], ids=["", "with affinity"])
def test_a_node_has_one_daemonset(affinity: bool) -> None:
    """However labels are combined, the first pool that matches has the node."""
    terms = [
        {"matchExpressions": [{"key": "kind", "operator": "In", "values": [value]}]}
        for value in ("real", "virtual")
    ]
    selected = {"nodeSelectorTerms": terms}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selected}
    values = {"affinity": {"nodeAffinity": required}} if affinity else {}
    found = rendered(values, CHART / "ci/pools-values.yaml")
    sets = found.of_kind("DaemonSet")
    first_of = {
        "nriplugin-batch": {"node.example/pool": "batch"},
        "nriplugin-fast": {"node.example/pool": "web", "node.example/disk": "ssd"},
        "nriplugin-ssd": {"node.example/disk": "ssd"},
        "nriplugin": {},
    }
    assert set(sets) == set(first_of)
    for pool, disk, kind in itertools.product(
        (None, "batch", "web", "other"), (None, "ssd", "hdd"), ("real", "toy")
    ):
        labels = {"kubernetes.io/os": "linux", "kind": kind}
        labels |= {"node.example/pool": pool} if pool else {}
        labels |= {"node.example/disk": disk} if disk else {}
        expected = next(
            name
            for name, wanted in first_of.items()
            if wanted.items() <= labels.items()
        )
        chosen = [name for name, one in sets.items() if runs_on(pod_of(one), labels)]
        assert chosen == ([expected] if kind == "real" or not affinity else []), labels


def test_a_pool_changes_what_it_names() -> None:
    """The configuration of a pool is laid over the common one, key by key."""
    found = rendered({}, CHART / "ci/pools-values.yaml").of_kind("ConfigMap")
    configs = {
        name: yaml.safe_load(one["data"]["config.yaml"]) for name, one in found.items()
    }
    common = {"curve": "auto", "memoryQoS": {"enabled": True}}
    assert configs == {
        "nriplugin": common,
        "nriplugin-ssd": common,
        "nriplugin-batch": {**common, "cpuQoS": {"enabled": True, "level": "BE"}},
        "nriplugin-fast": {
            "curve": "auto",
            "memoryQoS": {"enabled": False},
            "cpuBurst": {"enabled": True, "percent": 50},
        },
    }


def test_two_daemonsets_never_share_pods() -> None:
    """A selector that found the pods of another DaemonSet would have them deleted."""
    sets = rendered({}, CHART / "ci/pools-values.yaml").of_kind("DaemonSet")
    for name, other in itertools.product(sets, sets):
        selector = sets[name]["spec"]["selector"]["matchLabels"]
        labels = sets[other]["spec"]["template"]["metadata"]["labels"]
        assert (selector.items() <= labels.items()) == (name == other)


@each_variant
def test_no_container_has_a_privilege(values: Path) -> None:
    """Also those of tests, and the one that turns NRI on: root, and no more."""
    found = rendered({}, values)
    pods = [pod_of(one) for one in found.of_kind("DaemonSet").values()]
    pods += [one["spec"] for one in found.tests()]
    for pod in pods:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["privileged"] is False


@each_variant
def test_every_label_of_the_convention_is_there(values: Path) -> None:
    """Every object says which chart and release it is of."""
    for one in rendered({}, values).objects:
        labels = one["metadata"]["labels"]
        assert labels["helm.sh/chart"] == f"nriplugin-{__version__}"
        names = ("name", "instance", "version", "component", "part-of", "managed-by")
        assert {f"app.kubernetes.io/{name}" for name in names} <= set(labels)


def test_switches_that_are_off_leave_nothing() -> None:
    """A plain installation has a DaemonSet, a ConfigMap and an account."""
    kinds = [one["kind"] for one in rendered().objects]
    assert sorted(kinds) == ["ConfigMap", "DaemonSet", "Pod", "ServiceAccount"]


def test_pod_groups_need_an_account() -> None:
    """Rights that nobody has are a mistake; the message names the values."""
    done = template({"rbac": {"podGroups": True}, "serviceAccount": {"create": False}})
    assert done.returncode != 0
    assert "rbac.podGroups: true, expected serviceAccount.create" in done.stderr


def test_pod_groups_of_the_api_server_need_a_token() -> None:
    """Without one the plugin could only log that it is refused, for any pool."""
    config = {"podGroups": {"inCluster": True}}
    pool = {"name": "batch", "nodeSelector": {"pool": "batch"}, "config": config}
    for values in ({"config": config}, {"pools": [pool]}):
        done = template(values)
        assert done.returncode != 0
        assert "expected rbac.podGroups: true beside it" in done.stderr
        rendered({**values, "rbac": {"podGroups": True}})
    rendered({"config": {"podGroups": {"file": "/etc/nriplugin/groups.yaml"}}})


def test_pod_groups_are_only_read() -> None:
    """The role has no verb that changes something, and the pods get a token."""
    found = rendered({"rbac": {"podGroups": True}})
    (role,) = found.of_kind("ClusterRole").values()
    (rule,) = role["rules"]
    assert rule == {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["podgroups"],
        "verbs": ["get", "list", "watch"],
    }
    (daemonset,) = found.of_kind("DaemonSet").values()
    assert pod_of(daemonset)["automountServiceAccountToken"] is True
    (plain,) = rendered().of_kind("DaemonSet").values()
    assert pod_of(plain)["automountServiceAccountToken"] is False


def test_the_notes_say_what_to_run_next() -> None:
    """They name every DaemonSet, the test and the way out."""
    file = CHART / "ci/pools-values.yaml"
    done = helm(
        *("install", "nriplugin", CHART, "--namespace", "here", "--values", file),
        *("--dry-run=client",),
    )
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    for name in ("nriplugin-batch", "nriplugin-fast", "nriplugin-ssd", "nriplugin"):
        assert f"kubectl -n here rollout status daemonset/{name}\n" in notes
    for command in ("helm -n here test nriplugin", "nriplugin status", "withdraw"):
        assert command in notes
    assert not re.search(r"\n\n\n", notes.strip())


def test_the_dashboard_is_found_by_grafana() -> None:
    """The ConfigMap has the label, and holds the JSON of the dashboard."""
    found = rendered({"grafana": {"dashboard": {"enabled": True}}})
    config = found.of_kind("ConfigMap")["nriplugin-dashboard"]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    ((name, text),) = config["data"].items()
    assert name.endswith(".json")
    assert json.loads(text)["uid"] == "nriplugin"
