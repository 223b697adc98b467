"""How a cluster on loopback gets its ports, and how tests wait for what it does."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from nodes import ports as nodes_ports
from nodes.ports import PORTS, free_ports
from nodes.shell import NodeError
from support import cluster
from support.cluster import wait_for


def test_ports_stay_free_until_their_programs_listen() -> None:
    """The kernel gives none of them to a connection or to a server of a test."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert PORTS.stop <= int(given[0])
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert set(ports) <= set(PORTS)
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_with_a_listener_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too few others, the error says so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(nodes_ports, "PORTS", range(taken, taken + 1))
        with pytest.raises(NodeError, match="fewer than 1 ports"):
            free_ports(1)


def test_a_look_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the time is over; the error then says why the last look was not good."""
    monkeypatch.setattr(cluster, "POLL_S", 0)
    answers = ["timed out", {"ready": False}, {"ready": True}]

    def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, str):
            raise NodeError(answer)
        return answer

    assert wait_for(look, lambda seen: seen["ready"]) == {"ready": True}
    monkeypatch.setattr(cluster, "PATIENCE_S", -1)
    answers[:] = ["timed out"]
    with pytest.raises(NodeError, match="timed out"):
        wait_for(look, lambda seen: seen["ready"])
    answers[:] = [{"ready": False}]
    with pytest.raises(NodeError, match='"ready": false'):
        wait_for(look, lambda seen: seen["ready"])
