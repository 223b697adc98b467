"""Which OCI runtime the engine assumes, and what it trusts it with."""

from __future__ import annotations

import pytest
from engine.cases import NODE, POD

from nriplugin.engine.runtimes import has_inner_cgroup, oci_runtime_of, takes_idle

# handler of the pod (None: not known), runtime of the node, driver: whether cpu.idle
# may go through the door, whether there is a cgroup below the scope.
CASES = [
    ("runc", None, "systemd", True, False),
    ("runc", "crun", "systemd", True, False),
    ("crun", None, "cgroupfs", True, False),
    ("crun", "runc", "systemd", False, True),
    # The default handler: the node's runtime, else crun, which accepts less.
    ("", "runc", "systemd", True, False),
    ("", "crun", "systemd", False, True),
    ("", None, "systemd", False, True),
    ("", None, "cgroupfs", True, False),
    # Another runtime is trusted with nothing, whatever the node's default is.
    ("kata", "runc", "cgroupfs", False, False),
    ("kata", "crun", "systemd", False, False),
    # A door that does not know the handler leaves the node's runtime.
    (None, "runc", "systemd", True, False),
    (None, "crun", "systemd", False, True),
    (None, None, "systemd", False, False),
    (None, None, "cgroupfs", False, False),
]


@pytest.mark.parametrize(("handler", "of_node", "driver", "idle", "inner"), CASES)
def test_the_pods_handler_comes_before_the_nodes_runtime(
    handler: str | None, of_node: str | None, driver: str, idle: bool, inner: bool
) -> None:
    """An unknown default counts as crun; an unknown other runtime accepts nothing."""
    runtime = None if handler is None else oci_runtime_of(handler)
    pod = POD._replace(oci_runtime=runtime)
    facts = NODE._replace(oci_runtime=of_node, driver=driver)
    assert takes_idle(facts, pod) is idle
    assert has_inner_cgroup(facts, pod) is inner
