"""The CRI door as a whole: the proxy, the discovery, and the watch over the runtime.

The Interceptor reads and rewrites some of the calls (interception.py). On a cgroup v1
node it reads them and forwards all of them unchanged, because a runtime there fails the
creation of containers with cgroup v2 files.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from nriplugin.doors.cri.client import OPTIONS, TIMEOUT_S, RuntimeClient
from nriplugin.doors.cri.discovery import Discovery
from nriplugin.doors.cri.forwarding import Forwarder
from nriplugin.doors.cri.health import Health
from nriplugin.doors.cri.interception import Interceptor
from nriplugin.doors.cri.proxy import BUDGET_S, GRACE_S, Proxy
from nriplugin.doors.cri.runtime_watch import (
    FIRST_CONTACT_S,
    RETRY_S,
    RuntimeWatch,
)
from nriplugin.sockets import claimed, target_of
from nriplugin.state.events import EventKind
from nriplugin.state.lifecycle import log_direct_only

if TYPE_CHECKING:
    from nriplugin.config import Config
    from nriplugin.request_stats import RequestStats
    from nriplugin.state.lifecycle import Lifecycle

_log = logging.getLogger(__name__)


class CRIDoor:
    """Serves CRI on a socket, and forwards the calls to one runtime."""

    def __init__(
        self,
        runtime: str,
        lifecycle: Lifecycle,
        *,
        budget_s: float = BUDGET_S,
        retry_s: float = RETRY_S,
        timeout_s: int = TIMEOUT_S,
        first_contact_s: float = FIRST_CONTACT_S,
    ) -> None:
        """Build the parts of the door; `open` begins to serve.

        Args:
            runtime: path of the runtime's socket.
            lifecycle: decides and keeps the inventory; closed with the door.
            budget_s: how long a call may wait for a decision.
            retry_s: the time between two attempts to reach a runtime that is away.
            timeout_s: for calls that the door itself makes to the runtime.
            first_contact_s: how long the start waits for the runtime's answer.
        """
        self.lifecycle = lifecycle
        self._first_contact_s = first_contact_s
        self._claim = ExitStack()
        self._client = RuntimeClient(runtime, timeout_s)
        self._channel = grpc.insecure_channel(target_of(runtime), options=OPTIONS)
        discovery = self._discovery = Discovery(self._client, lifecycle)
        interceptor = Interceptor(lifecycle, discovery)
        if lifecycle.plan.facts.direct_only:
            log_direct_only(lifecycle)
        self._health = Health(self._client.version)
        self._watch = RuntimeWatch(
            self._client.version, discovery.learn, self._note_serving, retry_s
        )
        forwarder = Forwarder(self._channel, self._watch.lost)
        self._proxy = Proxy(forwarder, interceptor, budget_s=budget_s)
        add_HealthServicer_to_server(self._health, self._proxy.server)

    @property
    def requests(self) -> RequestStats:
        """Return the counters of the calls that were decided about."""
        return self._proxy.requests

    @property
    def late_s(self) -> float:
        """Return for how many seconds no thread has been free to decide; else 0."""
        return self._proxy.late_s

    @property
    def late_answers(self) -> int:
        """Return how many calls did not wait for their decision."""
        return self._proxy.late

    def _note_serving(self, serving: bool) -> None:
        """Take note of whether the runtime answers; called by the runtime watch."""
        self._health.set_serving(serving)
        connection = self.lifecycle.connection
        if serving and connection.since is None:
            facts = self.lifecycle.plan.facts
            connection.configured(facts.runtime, facts.runtime_version)
            self.lifecycle.connected(self._discovery.missed)
        elif not serving and connection.since is not None:
            connection.ended("the runtime does not answer")
            self.lifecycle.events.note(EventKind.DISCONNECTED)

    def apply(self, config: Config) -> None:
        """Put a configuration in force, also while serving."""
        config = self.lifecycle.effective(config)
        self._proxy.failure_policy = config.failure_policy
        self.lifecycle.apply(config)
        adopts = config.adopt.enabled and not self.lifecycle.plans.withdrawn
        self._discovery.missing.adopt = config.adopt if adopts else None
        if config.adopt.enabled and self.lifecycle.pending.writer is None:
            _log.warning("adopt: on, but direct writes are off: nothing is adopted")
        if config.repair.enabled and self.lifecycle.pending.writer is None:
            _log.warning("repair: on, but direct writes are off: nothing is repaired")
        self.lifecycle.verifier.configure(self.lifecycle.scheduler, config)

    def open(self, listen: str, mode: int = 0o600) -> None:
        """Serve a socket, after asking the runtime for its pods and containers.

        If that takes longer than `first_contact_s`, the door begins to serve meanwhile.
        The socket exists from the beginning, and clients that connect early wait.

        Raises:
            ConfigError: the socket cannot be made there.
        """
        self._claim.enter_context(claimed("--listen", listen))
        self._proxy.bind(listen, mode)
        self._watch.start(self._first_contact_s)
        self._proxy.serve()

    def close(self, grace_s: float = GRACE_S) -> None:
        """Stop serving, and wait for the calls that are under way."""
        self._health.enter_graceful_shutdown()
        self._watch.stop()
        self._proxy.stop(grace_s)
        self._channel.close()
        self._client.close()  # ends a call that the watch is still waiting for
        self._watch.join()
        # The claim on the socket is released after gRPC has removed the socket, or gRPC
        # would remove the socket of the process that comes next.
        self._claim.close()
        self.lifecycle.close()
