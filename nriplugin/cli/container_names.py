"""The names of containers and their pods, as far as a running daemon knows them.

Cgroups have only the UIDs of pods and the IDs of containers. The daemon is asked for
all containers whose IDs begin with the same character at once, and never twice about an
ID, so that a command that repeats itself does not keep it busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.locate.identify import identify
from nriplugin.cli.control_client import client_of
from nriplugin.errors import ConfigError, ControlError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


class ContainersOfDaemon:
    """What the daemon says about containers, by their IDs."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Ask the daemon that --control or the environment names.

        Raises:
            ConfigError: the address is none.
        """
        self._client = client_of(args)
        self._required = args.control is not None
        self._asked: set[str] = set()
        self._known: dict[str, control.ContainerWhy] = {}

    def get(self, ids: Iterable[str]) -> dict[str, control.ContainerWhy]:
        """Return what is known of these containers; those the daemon lacks are absent.

        Raises:
            ControlError: the user named a daemon, and it does not answer.
        """
        wanted = set(ids)
        new = wanted - self._asked
        self._asked |= new
        try:
            for beginning in sorted({one[:1] for one in new}):
                self._ask(beginning)
        except ControlError:
            if self._required:
                raise
        return {one: self._known[one] for one in wanted if one in self._known}

    def _ask(self, beginning: str) -> None:
        request = control.WhyRequest(what=beginning)
        try:
            answer = self._client.call("Why", request, control.WhyResponse)
        except ConfigError:
            return  # the daemon knows no container whose ID begins so
        self._known.update((one.id, one) for one in answer.containers)


class CgroupNames:
    """The names of the pods and containers in cgroups, as far as a daemon has them."""

    def __init__(self, args: argparse.Namespace, cgroups: Iterable[str]) -> None:
        """Ask about the containers among some cgroups.

        Raises:
            ConfigError: the address of the daemon is none.
            ControlError: the user named a daemon, and it does not answer.
        """
        pods = {}
        for cgroup in cgroups:
            place = identify(cgroup)
            if place is not None and place.container_id is not None:
                pods[place.container_id] = place.pod_uid
        found = ContainersOfDaemon(args).get(pods)
        self._containers = {one: why.container for one, why in found.items()}
        self._pods = {
            pods[one]: (why.namespace, why.pod) for one, why in found.items() if why.pod
        }

    def container(self, container_id: str) -> str | None:
        """Return the name of a container."""
        return self._containers.get(container_id) or None

    def pod(self, uid: str) -> tuple[str, str] | None:
        """Return the namespace and the name of a pod."""
        return self._pods.get(uid)
