"""The image and the chart on a real cluster, from the import to the removal.

The image is the one of hack/image, the chart is installed by a real helm. Pods come and
go as a user would have it; nothing of the test bed's own nriplugin runs on the node.
"""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from nodes.payload import NEXT_VERSION
from support import images
from support.bed import FreshNode, on_nodes
from support.charts import CHART, tool
from support.cluster import is_ready, wait_for
from support.workloads import container, pod, spec

from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.cluster import Cluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    on_nodes(FreshNode("kubernetes")),
]

NAME = "nriplugin"
DEADLINE = "10m"
KEY = "pids.max"
WANTED = "77"
VALUES: dict[str, Any] = {
    "image": {"repository": images.NAME, "pullPolicy": "Never"},
    "config": {
        "unifiedAnnotations": {"enabled": True, "allowed": [KEY]},
        # For containers that are created while one pod is gone and the next starts.
        "adopt": {"enabled": True},
    },
}


class Release:
    """A release of the chart in the namespace of a test, driven by helm."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self._values = directory / "values.yaml"

    def helm(self, *args: str, code: int = 0) -> str:
        """Run helm, which must end with an exit code; return all that it printed."""
        done = subprocess.run(
            [
                *(str(tool("helm")), *args),
                *("--namespace", self.cluster.namespace),
                *("--kubeconfig", str(self.cluster.plane.kubeconfig)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def apply(self, version: str, *, code: int = 0, **more: Any) -> str:
        """Install or upgrade, and wait until the pods are ready."""
        image = {**VALUES["image"], "tag": version}
        values = {**VALUES, "image": image, **more}
        self._values.write_text(yaml.safe_dump(values))
        return self.helm(
            *("upgrade", "--install", NAME, str(CHART), "--values", str(self._values)),
            *("--wait", "--timeout", DEADLINE),
            code=code,
        )

    def pod(self) -> Any:
        """Return the only pod of the DaemonSet when it is ready."""
        selector = f"app.kubernetes.io/instance={NAME}"

        def look() -> Any:
            found = self.cluster.get("pods", "-l", selector)["items"]
            here = [one for one in found if "deletionTimestamp" not in one["metadata"]]
            return here[0] if len(here) == 1 else None

        return wait_for(look, is_ready)

    def ask(self, *args: str) -> str:
        """Run a command of nriplugin in the pod, as docs/install.md says."""
        name = self.pod()["metadata"]["name"]
        return self.cluster.kubectl("exec", name, "--", "nriplugin", *args)


@contextmanager
def served(directory: Path) -> Iterator[int]:
    """Serve files over HTTP on loopback, which a guest reaches as 10.0.2.2."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(directory)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def import_image(cluster: Cluster, version: str) -> None:
    """Import an archive into the node's containerd; its nriplugin runs from it."""
    file = images.archive(version)
    with served(file.parent) as port:
        fetch = "import sys, urllib.request as r; r.urlretrieve(*sys.argv[1:])"
        url = f"http://10.0.2.2:{port}/{file.name}"
        cluster.machine.check("python3", "-c", fetch, url, "/tmp/image.tar")
    ctr = ("ctr", "--namespace", "k8s.io")
    cluster.machine.check(*ctr, "images", "import", "/tmp/image.tar", timeout_s=600)
    run = (
        *ctr,
        "run",
        "--rm",
        "--read-only",
        f"{images.NAME}:{version}",
        f"test-{version}",
    )
    told = cluster.machine.check(*run, "nriplugin", "version", timeout_s=300)
    assert told.startswith(f"nriplugin {version} ")
    assert "(upb)" in told


def start(cluster: Cluster, *names: str) -> None:
    """Have pods created that ask for a value by annotation."""
    annotations = {f"{KEY}.cgroup2.nri.io": WANTED}
    wanted = spec(cluster.node, container("app"))
    cluster.apply(*(pod(name, wanted, annotations) for name in names))


def start_each(cluster: Cluster, *names: str) -> None:
    """Have pods created one after the other."""
    for name in names:
        start(cluster, name)


def values_of(cluster: Cluster, *names: str) -> dict[str, str]:
    """Return what the kernel holds for each pod's container, once all of them run."""
    pods = cluster.running(*names)
    return {name: cluster.levels(pods[name]).containers["app"][KEY] for name in names}


def eventually(look: Callable[[], Any], wanted: Any) -> None:
    """Wait until what is seen is what is wanted."""
    wait_for(look, lambda seen: seen == wanted)


def test_from_the_import_to_the_removal(cluster: Cluster, tmp_path: Path) -> None:
    """Installed, used, scraped, upgraded, misconfigured and removed."""
    release = Release(cluster, tmp_path)
    import_image(cluster, __version__)

    # Installed: the pod is ready, which is when it is registered with containerd.
    notes = release.apply(__version__)
    assert f"rollout status daemonset/{NAME}" in notes
    assert release.ask("version").startswith(f"nriplugin {__version__} ")
    assert release.ask("status", "--brief")

    # Used: a container gets what its pod's annotation says.
    start(cluster, "first")
    assert values_of(cluster, "first") == {"first": WANTED}
    assert KEY in release.ask("why", f"{cluster.namespace}/first")

    # Scraped, on the address that Prometheus would use.
    address = release.pod()["status"]["podIP"]
    read = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read())"
    scraped = cluster.machine.check(
        *("python3", "-c", read, f"http://{address}:10799/metrics")
    )
    assert r"\nnriplugin_connected 1.0\n" in scraped
    assert 'nriplugin_containers{state="managed"}' in scraped

    # `helm test`: the configuration is read, and the doctor finds no problem.
    release.helm("test", NAME, "--timeout", DEADLINE)

    # Upgraded, while pods are created: all of them have their value in the end.
    import_image(cluster, NEXT_VERSION)
    meanwhile = ("second", "third", "fourth")
    creating = threading.Thread(target=start_each, args=(cluster, *meanwhile))
    creating.start()
    release.apply(NEXT_VERSION)
    creating.join()
    assert release.ask("version").startswith(f"nriplugin {NEXT_VERSION} ")
    everyone = ("first", *meanwhile)
    eventually(lambda: values_of(cluster, *everyone), dict.fromkeys(everyone, WANTED))

    # A mistake: helm refuses it. Written all the same, the plugin refuses
    # it and says so, and goes on with the configuration from before.
    bad = {"config": {"unifiedAnotations": {"enabled": True}}}
    assert "unifiedAnotations" in release.apply(NEXT_VERSION, code=1, **bad)
    data = {"config.yaml": yaml.safe_dump(bad["config"])}
    cluster.kubectl("patch", "configmap", NAME, "--patch", json.dumps({"data": data}))
    wait_for(
        lambda: release.ask("status", "-o", "json"),
        lambda told: "unifiedAnotations" in told,
    )
    start(cluster, "fifth")
    assert values_of(cluster, "fifth") == {"fifth": WANTED}

    # Removed: nothing stays, and new containers start without the plugin.
    release.ask("withdraw")
    release.helm("uninstall", NAME, "--wait", "--timeout", DEADLINE)
    kinds = "daemonsets,configmaps,serviceaccounts,pods"
    selector = f"app.kubernetes.io/instance={NAME}"
    eventually(lambda: cluster.get(kinds, "-l", selector)["items"], [])
    start(cluster, "sixth")
    assert values_of(cluster, "sixth")["sixth"] != WANTED
