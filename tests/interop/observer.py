"""A plugin on nriplugin's SDK that writes down every call, for tests to read.

What it is to do beside that, tests say in annotations of the pod: see `Observer`.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.api.ttrpc_pb2 import Response
from nriplugin.errors import RPCError
from nriplugin.nri import FailurePolicy, Plugin, run, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.errors import NRIPluginError

# What it adds to a container, so that its answer can be told from an empty one.
SEEN = "observer/seen"
PADDING = "observer/padding"


class Log:
    """One line per call, written at once and whole."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)

    def write(
        self, method: str, pod: str = "", container: str = "", **more: object
    ) -> None:
        """Append a line."""
        line = {"method": method, "pod": pod, "container": container, **more}
        os.write(self._fd, json.dumps(line).encode() + b"\n")


class Observer(Plugin):
    """Has all handlers but the validator. Annotations of the pod that it obeys:

    raise: raise an exception with that text
    hold: return only when that file is gone
    reply-bytes: make the ttRPC payload of CreateContainer's answer that long
    update: have the answer update that container
    enqueue: send an unsolicited update of that container
    """

    def __init__(self, log: Log, args: argparse.Namespace) -> None:
        self._log = log
        self._update_after_sync: int = args.update_after_sync
        self._hold_configure: str = args.hold_configure
        self._hold_synchronize: str = args.hold_synchronize

    def configure(self, request: nri.ConfigureRequest) -> None:
        self._log.write(
            "Configure",
            runtime=[request.runtime_name, request.runtime_version],
            config=request.config,
            environ={k: v for k, v in os.environ.items() if k.startswith("NRI_")},
        )
        wait_for(self._hold_configure)

    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> None:
        self._log.write(
            "Synchronize",
            pods=[pod.id for pod in pods],
            containers=[container.id for container in containers],
        )
        wait_for(self._hold_synchronize)
        first = [container.id for container in containers[: self._update_after_sync]]
        if first:
            threading.Thread(target=self._enqueue, args=first).start()

    def disconnected(self, reason: str) -> None:
        self._log.write("Disconnected", reason=reason)

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        limit = request.container.linux.resources.memory.limit.value
        wishes = request.pod.annotations
        self._container(
            "CreateContainer",
            request.pod,
            request.container,
            limit=limit,
            annotations=[*wishes],
        )
        if "hold" in wishes:
            wait_for(wishes["hold"])
            self._log.write("held", request.pod.id, request.container.id)
        if "reply-bytes" in wishes:
            return response_of(int(wishes["reply-bytes"]))
        adjust = nri.ContainerAdjustment(annotations={SEEN: request.container.id})
        return nri.CreateContainerResponse(
            adjust=adjust, update=self._updates(request.pod)
        )

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse:
        self._container("UpdateContainer", request.pod, request.container)
        return nri.UpdateContainerResponse(update=self._updates(request.pod))

    def stop_container(
        self, request: nri.StopContainerRequest
    ) -> nri.StopContainerResponse:
        self._container("StopContainer", request.pod, request.container)
        return nri.StopContainerResponse(update=self._updates(request.pod))

    def update_pod_sandbox(self, request: nri.UpdatePodSandboxRequest) -> None:
        self._pod("UpdatePodSandbox", request.pod)

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._pod("RunPodSandbox", pod)

    def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._pod("PostUpdatePodSandbox", pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._pod("StopPodSandbox", pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._pod("RemovePodSandbox", pod)

    def post_create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        self._container("PostCreateContainer", pod, container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._container("StartContainer", pod, container)

    def post_start_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        self._container("PostStartContainer", pod, container)

    def post_update_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        self._container("PostUpdateContainer", pod, container)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._container("RemoveContainer", pod, container)

    def _pod(self, method: str, pod: nri.PodSandbox) -> None:
        self._log.write(method, pod.id)
        self._obey(pod)

    def _container(
        self,
        method: str,
        pod: nri.PodSandbox,
        container: nri.Container,
        **more: object,
    ) -> None:
        self._log.write(method, pod.id, container.id, **more)
        self._obey(pod)

    def _obey(self, pod: nri.PodSandbox) -> None:
        if "raise" in pod.annotations:
            raise ValueError(pod.annotations["raise"])
        if "enqueue" in pod.annotations:
            self._enqueue(pod.annotations["enqueue"])

    def _updates(self, pod: nri.PodSandbox) -> list[nri.ContainerUpdate]:
        return (
            [weight_of(pod.annotations["update"])] if pod.annotations["update"] else []
        )

    def _enqueue(self, *container_ids: str) -> None:
        for container_id in container_ids:
            if not self.enqueue_update(weight_of(container_id), done=self._done):
                self._log.write("enqueue refused", container=container_id)

    def _done(self, error: NRIPluginError | None) -> None:
        code = error.code if isinstance(error, RPCError) else None
        self._log.write("done", error=error and str(error), code=code)


class Validator(Observer):
    """Judges adjustments, too.

    reject: reject the container for that reason
    """

    def validate_container_adjustment(
        self, request: nri.ValidateContainerAdjustmentRequest
    ) -> nri.ValidateContainerAdjustmentResponse:
        self._log.write(
            "ValidateContainerAdjustment",
            request.pod.id,
            request.container.id,
            seen=request.adjust.annotations[SEEN],
        )
        reason = request.pod.annotations["reject"]
        return nri.ValidateContainerAdjustmentResponse(
            reject=bool(reason), reason=reason
        )


def wait_for(file: str) -> None:
    """Wait until a file is gone, if there is one."""
    while os.path.exists(file):
        time.sleep(0.005)


def weight_of(container_id: str) -> nri.ContainerUpdate:
    """Return an update that tests can recognise."""
    update = nri.ContainerUpdate(container_id=container_id)
    update.linux.resources.unified["cpu.weight"] = "42"
    return update


def response_of(size: int) -> nri.CreateContainerResponse:
    """Return an answer whose ttRPC payload is exactly that long."""
    padding = 0
    for _ in range(10):  # lengths of lengths grow in steps
        adjust = nri.ContainerAdjustment(annotations={PADDING: "x" * padding})
        response = nri.CreateContainerResponse(adjust=adjust)
        payload = Response(payload=response.SerializeToString()).SerializeToString()
        if len(payload) == size:
            return response
        padding += size - len(payload)
    raise ValueError(f"no answer has exactly {size} bytes")


def main() -> None:
    """Run as a plugin of its own, or as one that a runtime launched."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket")
    parser.add_argument("--log", required=True)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--fail", action="store_true", help="failure policy fail")
    parser.add_argument(
        "--update-after-sync",
        type=int,
        metavar="CALLS",
        default=0,
        help="from a thread",
    )
    parser.add_argument("--hold-configure", metavar="FILE", default="")
    parser.add_argument("--hold-synchronize", metavar="FILE", default="")
    parser.add_argument("--patience-s", type=float, help="wait for Synchronize so long")
    parser.add_argument(
        "--assume-timeout-s", type=float, help="the runtime's, before it tells its own"
    )
    args = parser.parse_args()
    kind = Validator if args.validate else Observer
    plugin = kind(Log(args.log), args)
    if args.fail:
        plugin.failure_policy = FailurePolicy.FAIL
    if args.patience_s:
        session.REGISTRATION_PATIENCE_S = args.patience_s
    if args.assume_timeout_s:
        session.DEFAULT_REQUEST_TIMEOUT_S = args.assume_timeout_s
    run(plugin, socket_path=args.socket)


if __name__ == "__main__":
    main()
