"""The hook of a bare OCI bundle: runc or crun alone, with no runtime above them."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = [
    on_nodes("crio", "systemd"),
    pytest.mark.parametrize("runtime", ["runc", "crun"]),
    pytest.mark.timeout(1800),
]

CONFIG_FILE = "/tmp/hook-bundle.yaml"
CONFIG = """
cpuQoS: {enabled: true, level: BE}
memoryQoS: {enabled: true, oomGroup: true, throttlingFactor: null, protection: false}
"""


def created(node: Machine, runtime: str, name: str, path: str) -> dict[str, str]:
    """Return what a container's cgroup holds before its process is started.

    `path` is its cgroupsPath.
    """
    bundle = f"/tmp/bundle-{name}"
    node.write(CONFIG_FILE, CONFIG)
    node.check("mkdir", "-p", f"{bundle}/rootfs/bin")
    node.check("cp", "/bin/busybox", f"{bundle}/rootfs/bin/sh")
    node.check(runtime, "spec", "--bundle", bundle)
    file = f"{bundle}/config.json"
    spec: dict[str, Any] = json.loads(node.read([file])[file] or "")
    spec["process"]["terminal"] = False
    spec["process"]["args"] = ["/bin/sh", "-c", "exec sleep 1000"]
    spec["linux"]["cgroupsPath"] = path
    spec["linux"]["resources"] = {"cpu": {"shares": 512}}
    options = ["--config", CONFIG_FILE, "--state-dir", "/tmp/state-bundles"]
    program = node.check("sh", "-c", "command -v nriplugin").strip()
    hook = {"path": program, "args": ["nriplugin", "hook", *options], "timeout": 60}
    spec["hooks"] = {"createRuntime": [hook]}
    node.write(file, json.dumps(spec))
    command = [runtime]
    if node.node.driver == "systemd":
        command.append("--systemd-cgroup")
    node.check(*command, "create", "--bundle", bundle, name)
    try:
        state = json.loads(node.check(*command, "state", name))
        assert state["status"] == "created"
        found = node.check("find", "/sys/fs/cgroup", "-type", "d", "-name", f"*{name}*")
        (cgroup,) = found.split()
        files = [f"{cgroup}/{one}" for one in ("cpu.idle", "memory.oom.group")]
        held = node.read(files)
    finally:
        node.check(*command, "delete", "--force", name)
    return {key.rpartition("/")[2]: (held[key] or "").strip() for key in held}


def test_a_cgroup_anywhere(node: Machine, runtime: str) -> None:
    """The container's own cgroup is written, wherever its path is."""
    name = f"bare-{runtime}"
    path = f"/bundles/{name}"
    if node.node.driver == "systemd":
        path = f"system.slice:bare:{name}"
    assert created(node, runtime, name, path) == {
        "cpu.idle": "1",
        "memory.oom.group": "1",
    }


def test_a_cgroup_below_kubepods(node: Machine, runtime: str) -> None:
    """The same below kubepods, where systemd, if it runs, sets cpu.idle."""
    name, uid = f"pod-{runtime}", str(uuid.uuid4())
    path = f"/kubepods/besteffort/pod{uid}/{name}"
    if node.node.driver == "systemd":
        path = f"kubepods-besteffort-pod{uid.replace('-', '_')}.slice:crio:{name}"
    assert created(node, runtime, name, path) == {
        "cpu.idle": "1",
        "memory.oom.group": "1",
    }
