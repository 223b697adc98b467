"""The NRI plugin: v1-style resources in, cgroup v2 files out.

Only `unified` keys leave. A `memory.limit` in an adjustment would silently set the
swap limit too, and a `unified` key that a container already has is somebody's
explicit wish, so it wins.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert.files import files_of
from nriplugin.nri import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)


class ResourcesPlugin(Plugin):
    """Converts cpu shares, quota and period, and the memory limit."""

    views = MappingProxyType(
        {
            "create_container": view.CreateContainerRequest,
            "synchronize": view.SynchronizeRequest,
        }
    )

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Take the configuration that a launching runtime hands over."""
        if request.config:
            from nriplugin.agent.config import parse_config

            config = parse_config(request.config, "configuration from the runtime")
            self.failure_policy = config.failure_policy
        _log.info(
            "registered with %s %s", request.runtime_name, request.runtime_version
        )

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> None:
        """Existing containers keep what the runtime gave them."""
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))

    def disconnected(self, reason: str) -> None:
        """Say so; the runner dials again."""
        _log.info("disconnected: %s", reason)

    def create_container(  # type: ignore[override] # the view declared above
        self, request: view.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the v2 files of the new container."""
        resources = request.container.linux.resources
        cpu = resources.cpu
        files = files_of(
            cpu.shares.value,
            cpu.quota.value,
            cpu.period.value,
            resources.memory.limit.value,
        )
        for file in resources.unified:
            files.pop(file, None)
        if not files:
            return None
        response = nri.CreateContainerResponse()
        unified = response.adjust.linux.resources.unified
        for file, value in files.items():  # `update` takes twice as long
            unified[file] = value
        return response

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with kubelet's whole request, which ours replaces, and the files."""
        response = nri.UpdateContainerResponse()
        update = response.update.add(container_id=request.container.id)
        resources = update.linux.resources
        resources.CopyFrom(request.linux_resources)
        cpu = resources.cpu
        files = files_of(
            cpu.shares.value,
            cpu.quota.value,
            cpu.period.value,
            resources.memory.limit.value,
        )
        for file, value in files.items():
            if file not in resources.unified:
                resources.unified[file] = value
        return response if files else None
