"""The CRI door as a whole: the proxy, what it knows, and how it keeps knowing it."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from nriplugin.doors.cri.client import OPTIONS, TIMEOUT_S, RuntimeClient
from nriplugin.doors.cri.discovery import Learner
from nriplugin.doors.cri.forwarding import Forwarder
from nriplugin.doors.cri.health import Health
from nriplugin.doors.cri.interception import Interceptor
from nriplugin.doors.cri.inventory import Inventory
from nriplugin.doors.cri.proxy import BUDGET_S, GRACE_S, Proxy
from nriplugin.doors.cri.runtime_watch import PATIENCE_S, RETRY_S, Contact
from nriplugin.doors.cri.writing import Writing
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.sockets import claimed, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords

_log = logging.getLogger(__name__)


class Door:
    """Between one runtime and those who believe that they talk to it."""

    def __init__(
        self,
        runtime: str,
        facts: NodeFacts,
        *,
        tree: Tree | None = None,
        hands: DirectWriter | None = None,
        records: OwnershipRecords | None = None,
        note: Callable[[str, Decision], None],
        budget_s: float = BUDGET_S,
        retry_s: float = RETRY_S,
        timeout_s: int = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Get ready; nobody is served yet.

        On a cgroup v1 node everything is passed on untouched, because a runtime there
        fails containers that come with cgroup v2 files.

        Args:
            runtime: path of the runtime's socket.
            facts: about the node; the runtime's part is asked of it.
            tree: its cgroups, if they can be read.
            hands: who writes what no request carries, if anybody can.
            records: of what updates set, where there is a state directory.
            note: told of every decision and the container that it is about.
            budget_s: how long a call may wait for our part of it.
            retry_s: how often a runtime that is away is looked for.
            timeout_s: for what we ask of the runtime ourselves.
            patience_s: how long we wait at the start before we serve without knowing.
        """
        self._patience_s = patience_s
        self._claim = ExitStack()
        self.inventory = Inventory()
        self._client = RuntimeClient(runtime, timeout_s)
        self._channel = grpc.insecure_channel(target_of(runtime), options=OPTIONS)
        self.interceptor: Interceptor | None = None
        greet: Callable[[], object] = self._client.version
        if facts.cgroup_version == 2:
            writing = Writing(tree, hands, records)
            self.interceptor = Interceptor(
                self.inventory,
                facts,
                DEFAULT_CONFIG,
                tree=tree,
                writing=writing,
                note=note,
            )
            learner = Learner(
                *(self._client, self.inventory, tree, self.interceptor.learn),
                writing.recorded,
            )
            self.interceptor.learner = learner
            greet = learner.learn
        else:
            _log.warning(
                "inactive: cgroup v%d (%s): everything is passed on untouched",
                *(facts.cgroup_version, facts.cgroup_evidence),
            )
        self._health = Health(self._client.version)
        self._contact = Contact(self._client.version, greet, self._health.tell, retry_s)
        forwarder = Forwarder(self._channel, self._contact.lost)
        self._proxy = Proxy(forwarder, self.interceptor, budget_s=budget_s)
        add_HealthServicer_to_server(self._health, self._proxy.server)

    def apply(self, config: Config) -> None:
        """Take a configuration, also while serving."""
        for name, section in (("adopt", config.adopt), ("repair", config.repair)):
            if section.enabled:
                _log.warning("%s: on, but the CRI proxy does not do it", name)
        self._proxy.failure_policy = config.failure_policy
        if self.interceptor is not None:
            self.interceptor.config = config.engine

    def open(self, listen: str, mode: int = 0o600) -> None:
        """Learn what the runtime has, if it is there, and serve a socket.

        If that takes long, it goes on while we serve. The socket is there before that,
        and who connects to it meanwhile waits.

        Raises:
            ConfigError: the socket cannot be made there.
        """
        self._claim.enter_context(claimed("--listen", listen))
        self._proxy.bind(listen, mode)
        self._contact.start(self._patience_s)
        self._proxy.serve()

    def close(self, grace_s: float = GRACE_S) -> None:
        """Stop serving, and wait for what is under way."""
        self._health.enter_graceful_shutdown()
        self._contact.stop()
        self._proxy.stop(grace_s)
        self._channel.close()
        self._client.close()  # which ends what the contact still asks
        self._contact.join()
        # Last: gRPC has removed our socket, and would remove the next process's.
        self._claim.close()
