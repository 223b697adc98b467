"""Logs every event of every pod and container, and changes nothing.

    python event_logger.py [SOCKET]

Each line is one JSON object on standard output.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from nriplugin.nri import Plugin, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.api import nri_pb2 as nri


class EventLogger(Plugin):
    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> None:
        by_id = {pod.id: pod for pod in pods}
        for pod in pods:
            log("exists", pod, None)
        for container in containers:
            if container.pod_sandbox_id in by_id:
                log("exists", by_id[container.pod_sandbox_id], container)

    def other_event(
        self, event: str, pod: nri.PodSandbox, container: nri.Container | None
    ) -> None:
        log(event, pod, container)


def log(event: str, pod: nri.PodSandbox, container: nri.Container | None) -> None:
    line = {"event": event, "namespace": pod.namespace, "pod": pod.name}
    if container is not None:
        line |= {"container": container.name, "id": container.id}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    socket_path = sys.argv[1] if len(sys.argv) > 1 else None
    run(EventLogger(), name="event-logger", idx="90", socket_path=socket_path)
