"""The NRI plugin: v1-style resources in, cgroup v2 files out.

Only `unified` keys leave. A `memory.limit` in an adjustment would silently set the
swap limit too, and a `unified` key that a container already has is somebody's
explicit wish, so it wins.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert.cpu import CPU_MAX, CPU_WEIGHT, cpu_max, weight_from_shares
from nriplugin.convert.memory import MEMORY_MAX, memory_max
from nriplugin.nri import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)


class ResourcesPlugin(Plugin):
    """Converts cpu shares, quota and period, and the memory limit."""

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Take the configuration that a launching runtime hands over."""
        if request.config:
            from nriplugin.agent.config import parse_config

            config = parse_config(request.config, "configuration from the runtime")
            self.failure_policy = config.failure_policy
        _log.info(
            "registered with %s %s", request.runtime_name, request.runtime_version
        )

    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> None:
        """Existing containers keep what the runtime gave them."""
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))

    def disconnected(self, reason: str) -> None:
        """Say so; the runner dials again."""
        _log.info("disconnected: %s", reason)

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the v2 files of the new container."""
        resources = request.container.linux.resources
        response = nri.CreateContainerResponse()
        if not derive(resources, response.adjust.linux.resources, keep=resources):
            return None
        return response

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with kubelet's whole request, which ours replaces, and the files."""
        asked = request.linux_resources
        response = nri.UpdateContainerResponse()
        update = response.update.add(container_id=request.container.id)
        update.linux.resources.CopyFrom(asked)
        if not derive(asked, update.linux.resources, keep=asked):
            return None
        return response


def derive(
    given: nri.LinuxResources, out: nri.LinuxResources, keep: nri.LinuxResources
) -> bool:
    """Add the v2 files of `given` to `out.unified`, except those `keep` has.

    NRI wraps every number, and zero means "not given".
    """
    files = {}
    cpu = given.cpu
    if shares := cpu.shares.value:
        files[CPU_WEIGHT] = str(weight_from_shares(shares))
    if quota_us := cpu.quota.value:
        files[CPU_MAX] = cpu_max(quota_us, cpu.period.value)
    if limit_bytes := given.memory.limit.value:
        files[MEMORY_MAX] = memory_max(limit_bytes)
    for key in keep.unified:
        files.pop(key, None)
    if not files:
        return False
    out.unified.update(files)
    return True
