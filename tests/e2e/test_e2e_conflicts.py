"""A resize that a plugin with a higher index and nriplugin both answer.

The other plugin, tests/interop/go/stubplugin, sets the same file at each update.
How a creation ends in conflict is in test_e2e_beside.py.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [on_nodes("containerd-2.4"), pytest.mark.timeout(1800)]

LOG = "/var/log/policy.log"
# The plugin itself logs nothing when it is registered.
OF_RUNTIME = "/var/log/containerd.log"
REGISTERED = re.compile(r'60-policy\\?" connected and synchronized')
CREATED = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 128 << 20,
}
UPDATE = {
    "cpu_share": 2048,
    "cpu_quota": 80_000,
    "cpu_period": 100_000,
    "memory": 256 << 20,
}
UPDATED = {
    "cpu.weight": "174",
    "cpu.max": "80000 100000",
    "memory.max": str(256 << 20),
}
CONFLICT = (
    'plugins "60-policy" and "50-nriplugin" both tried to set CgroupsUnified cpu.max'
)


@contextmanager
def policy(machine: Machine) -> Iterator[None]:
    """Run the other plugin, registered; it sets nothing when a container is created."""
    theirs = json.dumps({"unified": {"cpu.max": "70000 100000"}})
    pid = machine.spawn(
        *("/node/bin/stubplugin", "-name", "policy", "-idx", "60"),
        *("-set-at-update", theirs),
        log=LOG,
    )
    try:
        said = keep_looking(
            lambda: machine.read([OF_RUNTIME])[OF_RUNTIME] or "", REGISTERED.search
        )
        assert REGISTERED.search(said), machine.read([LOG])
        yield
    finally:
        if machine.poll(pid) is None:
            machine.stop(pid)


def test_a_resize_in_conflict_changes_nothing(node: Machine, kubelet: Kubelet) -> None:
    """The error names both plugins and the file; without the other one it succeeds."""
    with kubelet.sandbox("Burstable", "crun") as pod:
        # The runtime registers one plugin after the other, so then it has both.
        with policy(node), running(node, "--idx", "50"):
            app = kubelet.start(pod, "app", CREATED)
            before = kubelet.settings(app)
            refused = kubelet.update(app, **UPDATE)
            assert refused.code != 0
            assert CONFLICT in refused.stderr
            assert kubelet.settings(app) == before
        with running(node, "--idx", "50"):
            updated = kubelet.update(app, **UPDATE)
            assert updated.code == 0, updated.stderr
            held = kubelet.settings(app)
            assert {file: held[file] for file in UPDATED} == UPDATED
