from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.observed import CASES_V1
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet
    from support.observed import Observed

pytestmark = [
    on_nodes("v1"),
    pytest.mark.timeout(1800),
]


@pytest.mark.parametrize("case", CASES_V1, ids="-".join)
def test_containers_start_exactly_as_without_the_plugin(
    observed: Observed, case: tuple[str, str]
) -> None:
    """On cgroup v1 every setting of every container is the runtime's own."""
    keys = [key for key in observed.plugin if key[:2] == case]
    assert keys
    for key in keys:
        ours, control = observed.plugin[key], observed.control[key]
        assert ours.settings == control.settings, key
        assert "unified" not in ours.spec["linux"]["resources"], key
        assert ours.settings["cpu.shares"] == str(ours.sent["cpu.shares"]), key


def test_the_plugin_says_what_it_can_do(observed: Observed) -> None:
    """Registered, and one line that names the reason."""
    assert "registered with containerd" in observed.log
    assert "direct writes only: cgroup v1" in observed.log


CONFIG_FILE = "/tmp/burst.yaml"
CONFIG = "cpuBurst: {enabled: true, percent: 50}\n"
BURST, QUOTA = "cpu.cfs_burst_us", "cpu.cfs_quota_us"
CPU = "/sys/fs/cgroup/cpu"
GIVEN = {
    "cpu_shares": 512,
    "cpu_quota": 100_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 128 << 20,
}


def held(node: Machine, cgroup: str, file: str = BURST) -> str:
    """Return what a file of the cpu controller holds."""
    path = f"{CPU}{cgroup}/{file}"
    return (node.read([path])[path] or "").strip()


def restored(node: Machine, state: str) -> set[str]:
    """Put all values back; return what was done about the files."""
    found = json.loads(node.check("nriplugin", "restore", "--json", *STATE, state))
    return {finding["action"] for finding in found["files"]}


STATE = ("--state-dir",)


def test_a_burst_through_nri(node: Machine, kubelet: Kubelet) -> None:
    """Written for pod and container, kept below each new quota, and put back."""
    state = "/tmp/state-nri"
    node.write(CONFIG_FILE, CONFIG)
    with kubelet.sandbox("Burstable") as pod:
        of_pod = f"/kubepods/burstable/pod{pod.uid}"
        node.check("sh", "-c", f"echo 200000 >{CPU}{of_pod}/{QUOTA}")
        with running(node, "--config", CONFIG_FILE, *STATE, state) as plugin:
            app = kubelet.start(pod, "burst", GIVEN)
            of_app = f"{of_pod}/{app.id}"

            def now() -> tuple[str, str, str]:
                own = held(node, of_app, QUOTA), held(node, of_app)
                return *own, held(node, of_pod)

            assert now() == ("100000", "50000", "50000")
            for quota, burst in ((30_000, "15000"), (200_000, "100000")):
                result = kubelet.update(app, cpu_quota=quota, cpu_period=100_000)
                assert result.code == 0, result
                # The rest of an update is done by the background thread.
                wanted = str(quota), burst, burst
                assert keep_looking(now, wanted.__eq__) == wanted
            log = plugin.log()
        assert restored(node, state) == {"restored"}
        assert (held(node, of_app), held(node, of_pod)) == ("0", "0")
    assert "direct writes only: cgroup v1" in log
    assert "ERROR" not in log


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_burst_by_the_hook(node: Machine, runtime: str) -> None:
    """Written to the cgroup that exists, before the process starts, and put back."""
    name, state = f"hooked-{runtime}", f"/tmp/state-hook-{runtime}"
    bundle, file = f"/tmp/bundle-{name}", f"/tmp/bundle-{name}/config.json"
    of_pod = f"/kubepods/burstable/pod{uuid.uuid4()}"
    node.write(CONFIG_FILE, CONFIG)
    node.check("mkdir", "-p", f"{bundle}/rootfs/bin")
    node.check("cp", "/bin/busybox", f"{bundle}/rootfs/bin/sh")
    node.check(runtime, "spec", "--bundle", bundle)
    spec: dict[str, Any] = json.loads(node.read([file])[file] or "")
    spec["process"]["terminal"] = False
    spec["process"]["args"] = ["/bin/sh", "-c", "exec sleep 1000"]
    spec["linux"]["cgroupsPath"] = f"{of_pod}/{name}"
    cpu = {"shares": 512, "quota": 100_000, "period": 100_000}
    spec["linux"]["resources"] = {"cpu": cpu}
    program = node.check("sh", "-c", "command -v nriplugin").strip()
    arguments = ["nriplugin", "hook", "--config", CONFIG_FILE, *STATE, state]
    hook = {"path": program, "args": arguments, "timeout": 60}
    spec["hooks"] = {"createRuntime": [hook]}
    node.write(file, json.dumps(spec))
    node.check(runtime, "create", "--bundle", bundle, name)
    try:
        assert json.loads(node.check(runtime, "state", name))["status"] == "created"
        assert held(node, f"{of_pod}/{name}", QUOTA) == "100000"
        assert held(node, f"{of_pod}/{name}") == "50000"
        assert restored(node, state) == {"restored"}
        assert held(node, f"{of_pod}/{name}") == "0"
    finally:
        node.check(runtime, "delete", "--force", name)
