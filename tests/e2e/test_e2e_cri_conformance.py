"""critest, the conformance tests of CRI, through the proxy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.plugins import PROXY, RUNTIME, running

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = [on_nodes("containerd-1.6"), pytest.mark.timeout(3600)]

# Tests that need neither a registry nor a program that the image lacks.
FOCUS = "|".join(
    (
        "runtime should return version info",
        "runtime should return runtime conditions",
        "runtime should support (running|stopping|removing) PodSandbox",
        "runtime should support preserving PodSandbox attributes",
        "runtime should support (creating|starting|stopping) container ",
        "runtime should support preserving container attributes",
        "runtime should support removing (created|running|stopped) container",
        "runtime should support execSync ",
        "runtime should support listing container stats",
        "runtime should support starting container with (log|volume) ",
    )
)
IMAGES = """
defaultTestContainerImage: localhost/box:1
webServerTestImage: localhost/box:1
webServerHostNetTestImage: localhost/box:1
"""

# critest's pods want a network of their own. This CNI plugin reports one to the runtime
# and makes none.
CNI = """#!/bin/sh
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' ;;
ADD)
    cat <<EOF
{"cniVersion": "0.4.0",
 "interfaces": [{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}],
 "ips": [{"version": "4", "address": "10.88.0.2/16", "interface": 0}]}
EOF
    ;;
esac
"""
CNI_CONFIG = '{"cniVersion": "0.4.0", "name": "none", "type": "none"}'


@pytest.fixture(scope="module")
def network(node: Machine) -> None:
    """Let the runtime make pods with a network."""
    node.check("mkdir", "-p", "/opt/cni/bin", "/etc/cni/net.d")
    for name in ("none", "loopback"):
        node.write(f"/opt/cni/bin/{name}", CNI)
        node.check("chmod", "+x", f"/opt/cni/bin/{name}")
    node.write("/etc/cni/net.d/10-none.conf", CNI_CONFIG)
    node.write("/tmp/images.yaml", IMAGES)
    node.check("/node/bin/runtime", "restart")


def critest(node: Machine, address: str, focus: str) -> dict[str, str]:
    """Return the outcome of each test that was run, by its name."""
    done = node.run(
        *("/node/bin/critest", "-ginkgo.v", "-ginkgo.no-color"),
        f"-ginkgo.focus={focus}",
        *("-config", "/dev/null", "-runtime-endpoint", address),
        *("-image-endpoint", address, "-test-images-file", "/tmp/images.yaml"),
        timeout_s=800,
    )
    outcomes: dict[str, str] = {}
    name = ""
    for line in done.stdout.splitlines():
        if "[k8s.io]" in line and "[It]" not in line:
            name = re.sub(r"\s+", " ", line).strip()
        if found := re.match(r"(•|S) \[(\w+)\]|• \[", line.strip()):
            outcomes[name] = found[2] or "PASSED"
        elif line.startswith("•"):
            outcomes[name] = "PASSED"
    assert outcomes, done.stdout[-3000:] + done.stderr[-3000:]
    return outcomes


def test_what_fails_through_the_proxy_fails_without_it(
    node: Machine, network: None
) -> None:
    """No test of critest fails because of the proxy.

    Those that fail through it are run again on the runtime alone.
    """
    with running(node):
        through = critest(node, PROXY, FOCUS)
    passed = {name for name, outcome in through.items() if outcome == "PASSED"}
    assert len(passed) >= 15, through
    failed = {name: through[name] for name in through.keys() - passed}
    if failed:
        again = "|".join(re.escape(name) for name in failed)
        assert critest(node, RUNTIME, again) == failed
