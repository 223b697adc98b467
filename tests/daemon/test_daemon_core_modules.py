"""What a daemon without services loads: memory that every node would have to spare."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S, PATIENT, container, pod
from support.processes import Place

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from nriplugin.cli.main import main
code = main(sys.argv[1:])
print(*sys.modules)
sys.exit(code)
"""
# Direct writes with their journal, services, a configuration file, and what protobuf
# needs for messages that upb does not parse.
UNUSED = {
    *("nriplugin.node.direct_writes", "nriplugin.cgroup.writing.executor"),
    *("nriplugin.cgroup.journal.restore", "nriplugin.state.policy_put_back"),
    *("nriplugin.daemon.write_thread", "nriplugin.cgroup.writing.queue", "sqlite3"),
    *("grpc", "prometheus_client", "nriplugin.daemon.status", "yaml", "msgspec"),
    *("google.protobuf.text_format", "google.protobuf.internal.decoder", "pickle"),
    *("urllib.parse", "ipaddress", "asyncio", "ssl"),
    *("nriplugin.kube.manifests", "nriplugin.kube.podspec"),
}


def test_a_daemon_that_only_answers_loads_no_more_than_that(tmp_path: Path) -> None:
    """It has registered and decided about a container."""
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *place.arguments()],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=ENVIRON,
        )
        try:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            runtime.run_pod_sandbox(pod())
            created = runtime.create_container(pod(), container(shares=512))
            assert created.adjust.linux.resources.unified["cpu.weight"] == "59"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0
    loaded = set(out.split())
    assert "nriplugin.doors.nri.plugin" in loaded
    assert loaded & UNUSED == set()


USE = """
from nriplugin.api import nri_pb2 as nri
pod = nri.PodSandbox(name="web")
assert nri.PodSandbox.FromString(pod.SerializeToString()) == pod
from google.protobuf import text_format
from google.protobuf.internal import api_implementation, python_message
print(api_implementation.Type(), text_format.MessageToString(pod).strip())
print(python_message.GeneratedProtocolMessageType.__name__)
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_the_pure_implementation_is_there_when_it_is_used(implementation: str) -> None:
    """Where upb is missing, and for who asks for it."""
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    done = subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ENVIRON, name: implementation},
    )
    assert done.stderr == ""
    said = f'{implementation} name: "web"\nGeneratedProtocolMessageType\n'
    assert done.stdout == said
