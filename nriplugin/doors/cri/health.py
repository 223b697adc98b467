"""gRPC's standard health service on the proxy's socket.

The proxy reports SERVING exactly while its runtime answers. A Check asks the runtime
each time. Watch reports the state that the last Check or the runtime watch
(runtime_watch.py) has found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import OVERALL_HEALTH, HealthServicer

from nriplugin.doors.cri.methods import IMAGE_SERVICE, RUNTIME_SERVICE
from nriplugin.errors import RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

SERVICES = (OVERALL_HEALTH, RUNTIME_SERVICE, IMAGE_SERVICE)


class Health(HealthServicer):
    """Answers for the proxy and both CRI services, which always have the same state."""

    def __init__(self, probe: Callable[[], object]) -> None:
        """Use `probe` to ask the runtime; it raises RPCError or TimeoutError."""
        super().__init__()
        self._probe = probe
        self.set_serving(False)

    def set_serving(self, serving: bool) -> None:
        """Set the state that all services report from now on."""
        status = health_pb2.HealthCheckResponse
        for service in SERVICES:
            self.set(service, status.SERVING if serving else status.NOT_SERVING)

    def Check(  # noqa: N802 - the method of the service
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Ask the runtime now: it may have gone away since the last forwarded call."""
        try:
            self._probe()
        except (RPCError, TimeoutError):
            self.set_serving(False)
        else:
            self.set_serving(True)
        return super().Check(request, context)
