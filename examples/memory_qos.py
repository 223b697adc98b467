"""Throttles the containers of a class before they reach their memory limit.

    python memory_qos.py [SOCKET]

The annotation `class.memory-qos.nri.io` of a pod, or for one of its containers
`class.memory-qos.nri.io/container.NAME`, names a class of `SWAP_SHARES`. From its
share of the limit on, the kernel swaps the container's memory out.
"""

from __future__ import annotations

import logging
import sys

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin, run

KEY = "class.memory-qos.nri.io"
# By class: how much of the memory limit may be in swap.
SWAP_SHARES = {"bronze": 0.5, "silver": 0.2}
CLASSES = ", ".join(SWAP_SHARES)
PAGE = 4096

log = logging.getLogger("memory-qos")


class MemoryQoS(Plugin):
    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        return adjustment(request.pod, request.container)


def adjustment(
    pod: nri.PodSandbox, container: nri.Container
) -> nri.CreateContainerResponse | None:
    """Return the values of the container's class; None if it has no class."""
    of_pod = pod.annotations.get(KEY)
    name = pod.annotations.get(f"{KEY}/container.{container.name}", of_pod)
    limit = container.linux.resources.memory.limit.value
    if name is None or limit <= 0:
        return None
    if name not in SWAP_SHARES:
        log.warning("%s: %s: %r, expected one of %s", pod.name, KEY, name, CLASSES)
        return None
    response = nri.CreateContainerResponse()
    unified = response.adjust.linux.resources.unified
    unified["memory.high"] = str(int(limit * (1 - SWAP_SHARES[name])) // PAGE * PAGE)
    unified["memory.swap.max"] = "max"
    return response


if __name__ == "__main__":
    socket_path = sys.argv[1] if len(sys.argv) > 1 else None
    run(MemoryQoS(), name="memory-qos", idx="40", socket_path=socket_path)
