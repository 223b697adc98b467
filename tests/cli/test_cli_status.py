"""`nriplugin status` against a daemon with chosen answers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import yaml
from support.control_daemon import ControlDaemon, good_status, not_ready
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import ControlClient
from nriplugin.cli.main import main
from nriplugin.cli.status import GROUPINGS
from nriplugin.daemon.container_counts import _GROUPS
from nriplugin.daemon.health import WITHDRAWN
from nriplugin.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator

Captured = pytest.CaptureFixture[str]

HOSTILE = "a\x1b[31mb\nc"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ControlDaemon]:
    with ControlDaemon(tmp_path) as serving:
        serving.answers["Status"] = good_status()
        yield serving


def status(daemon: ControlDaemon, *options: str) -> int:
    return main(["status", "--control", daemon.address, *options])


def test_the_page_has_every_section(daemon: ControlDaemon, capsys: Captured) -> None:
    """Each figure of the answer is on the page."""
    assert status(daemon) == 0
    page = capsys.readouterr().out
    labels = [line[:15].strip() for line in page.splitlines() if line[:1].isupper()]
    assert labels == [
        *("Runtime", "Configuration", "Node", "Handlers", "Containers", "Requests"),
        *("Refusals", "Direct writes", "Verification", "Policies", "Shadow", "Gaps"),
        *("Serving", "Process"),
    ]
    for text in (
        "nriplugin 0.1.0: healthy, ready",
        "containerd v2.4.2, NRI 0.12.3",
        "connected since 2027-01-15T07:56:40Z",
        "/etc/nriplugin/config.yaml, SHA-256 0123456789ab",
        "v2: /sys/fs/cgroup is a cgroup2 file system",
        "direct writes  on: the configuration needs them",
        "14 managed, 2 skipped, 0 adopted, 1 missed, 1 drifted",
        "16, 1 failed, 0 answered late",
        "CreateContainer  15       1  0.31 ms  0.25 ms  2.5 ms",
        "memoryQoS: no-limit      7",
        "cpu.max.burst        3       1",
        "cpu.weight        2         1             0",
        "for 12 s, 1 container missed",
        "control API: unix:///run/nriplugin/nriplugin.sock",
        "HTTP: not served: 127.0.0.1:10799: Address already in use",
        "pid 4711",
        "24.3 MB resident, 5 threads, 21 open files",
    ):
        assert text in page, text
    assert "on by batch" in next(one for one in page.splitlines() if "memoryQoS" in one)


def test_no_line_is_longer_than_80_and_nothing_is_cut(
    daemon: ControlDaemon, capsys: Captured
) -> None:
    """Long texts are wrapped, at spaces or inside of words, also in tables."""
    path = "/a" * 100
    name = "namespace-of-a-team/" + "x" * 90
    words = "many words " * 30
    state = good_status(
        problems=[words.strip()],
        groups=[
            control.ContainerGroup(
                name=name, containers=control.ContainerCounts(managed=123456)
            )
        ],
    )
    state.healthy = False
    state.configuration.path = path
    state.configuration.error = words
    state.node.curve_evidence = words
    state.handlers[0].refusals.add(reason="r" * 100, count=3)
    daemon.answers["Status"] = state
    assert status(daemon, "--by", "pod") == 1
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    squeezed = "".join(page.split())
    assert path in squeezed
    assert "r" * 100 in squeezed
    assert squeezed.count("manywords") == 90
    assert page.count("x") >= 90
    assert "123456" in page
    assert daemon.requests[0].by == "pod"


def test_a_refused_configuration_is_shown(
    daemon: ControlDaemon, capsys: Captured
) -> None:
    """... with its error, and with the one that stays in force."""
    state = good_status()
    state.configuration.error = "config.yaml:3: curv: unknown field"
    state.configuration.failures = 1
    daemon.answers["Status"] = state
    assert status(daemon) == 0
    out = capsys.readouterr().out
    assert "config.yaml:3: curv: unknown field" in out
    assert "0 reloads, 1 refused" in out


def test_a_hostile_name_is_escaped(daemon: ControlDaemon, capsys: Captured) -> None:
    """A control sequence in an answer does not reach the terminal."""
    state = good_status(groups=[control.ContainerGroup(name=HOSTILE)])
    state.runtime.name = HOSTILE
    daemon.answers["Status"] = state
    for options in ([], ["--by", "pod"], ["--brief"], ["-o", "yaml"], ["-o", "json"]):
        assert status(daemon, *options) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "b\nc" not in out


def test_json_and_yaml_have_all_fields(daemon: ControlDaemon, capsys: Captured) -> None:
    """Numbers are numbers, and what is zero is there."""
    status(daemon, "-o", "json")
    as_json = json.loads(capsys.readouterr().out)
    status(daemon, "-o", "yaml")
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    assert as_json == as_yaml
    assert as_json["started_at"] == 1_799_996_000
    assert as_json["containers"]["adopted"] == 0
    assert as_json["process"]["resident_bytes"] == 24_300_000
    assert list(as_json)[:5] == ["apiVersion", "kind", "version", "door", "pid"]


def test_brief_is_one_line_and_a_probe(daemon: ControlDaemon, capsys: Captured) -> None:
    """The exit code is 1 unless the daemon is healthy and ready."""
    assert status(daemon, "--brief") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("nriplugin 0.1.0: healthy, ready; containerd")
    daemon.answers["Status"] = not_ready()
    assert status(daemon, "--brief") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("healthy, not ready: the runtime has closed the connection")
    unhealthy = good_status()
    unhealthy.healthy = False
    daemon.answers["Status"] = unhealthy
    assert status(daemon, "--brief") == 1
    assert status(daemon, "-o", "json") == 1


def test_withdrawn_is_said_once(daemon: ControlDaemon, capsys: Captured) -> None:
    """The page and the line have the daemon's sentence and no other one."""
    withdrawn = good_status()
    withdrawn.ready, withdrawn.withdrawn = False, True
    withdrawn.problems.append(WITHDRAWN)
    daemon.answers["Status"] = withdrawn
    for options in ((), ("--brief",)):
        assert status(daemon, *options) == 1
        assert capsys.readouterr().out.count("withdrawn") == 1


def test_brief_without_a_daemon(tmp_path: Path, capsys: Captured) -> None:
    """One line and exit code 1."""
    address = f"unix://{tmp_path}/none.sock"
    assert main(["status", "--brief", "--control", address]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"nriplugin: no daemon answers at {address}; ")
    assert captured.err == ""


def test_no_daemon_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    """No socket, or a socket that nobody serves: it says how to turn the daemon on."""
    path = f"{tmp_path}/s.sock"
    for _ in range(2):
        assert main(["status", "--control", f"unix://{path}"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert f"no daemon answers at unix://{path}" in line
        assert "start `nriplugin run` without `--control off`" in line
        with socket.socket(socket.AF_UNIX) as left_behind:
            if not os.path.exists(path):
                left_behind.bind(path)


def test_a_socket_that_does_not_speak_grpc(tmp_path: Path, capsys: Captured) -> None:
    """A server that hangs up is an error of one line."""
    path = f"{tmp_path}/s.sock"
    script = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('ready', flush=True)\n"
        "while True: s.accept()[0].close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        assert main(["status", "--control", f"unix://{path}"]) == 1
        server.kill()
    (line,) = capsys.readouterr().err.splitlines()
    ended = f"nriplugin: the daemon at unix://{path} has ended the connection"
    assert line == f"{ended}; if it runs, its log says why"


def test_a_daemon_that_is_stuck(tmp_path: Path) -> None:
    """A socket that accepts and never answers is told from one without a daemon."""
    path = f"{tmp_path}/s.sock"
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(path)
        stuck.listen()
        client = ControlClient(path)
        request = control.StatusRequest()
        with pytest.raises(ControlError, match=r"s.sock does not answer$"):
            client.call("Status", request, control.StatusResponse, patience_s=0.2)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_permission_denied() -> None:
    """Another user is told who may connect."""
    # Not pytest's directory, which nobody else may enter.
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chmod(directory, 0o711)  # noqa: S103
    with ControlDaemon(directory) as daemon:
        os.chmod(daemon.path, 0o600)
        script = (
            "import os, sys\n"
            "import nriplugin.cli.status, nriplugin.cli.main as m\n"
            "os.setuid(65534)\n"
            "os.stat(sys.argv[1])\n"
            "sys.exit(m.main(['status', '--control', 'unix://' + sys.argv[1]]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, daemon.path],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env=ENVIRON,
        )
    shutil.rmtree(directory)
    assert done.returncode == 1
    assert "permission denied; run this as root, or as a member of the group" in (
        done.stderr
    )


def test_grpcio_is_not_installed(
    daemon: ControlDaemon, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert status(daemon) == 2
    assert capsys.readouterr().err == (
        "nriplugin: grpcio is not installed, expected nriplugin[grpc]\n"
    )


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.PERMISSION_DENIED, 1),
        (grpc.StatusCode.INTERNAL, 1),
        (grpc.StatusCode.UNIMPLEMENTED, 1),
    ],
)
def test_the_daemons_words_are_passed_on(
    daemon: ControlDaemon, capsys: Captured, code: grpc.StatusCode, exit_code: int
) -> None:
    """... as one line, with 2 for a user's mistake and else 1."""
    daemon.answers["Status"] = (code, "the words of the daemon")
    assert status(daemon) == exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert "the words of the daemon" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--control", "/run/x.sock"], "--control: '/run/x.sock', expected unix://"),
        (["--wait", "--wait-duration", "5 m"], "--wait-duration: '5 m', expected a"),
        (["--wait-duration", ""], "--wait-duration: '', expected a duration"),
        (["--brief", "-o", "json"], "--brief: expected neither --output nor --by"),
    ],
)
def test_mistakes(options: list[str], message: str, capsys: Captured) -> None:
    """One line, exit code 2."""
    assert main(["status", *options]) == 2
    assert message in capsys.readouterr().err


def test_the_environment_names_the_socket(
    daemon: ControlDaemon, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NRIPLUGIN_CONTROL is used unless --control is given."""
    monkeypatch.setenv("NRIPLUGIN_CONTROL", daemon.address)
    assert main(["status", "--brief"]) == 0
    monkeypatch.setenv("NRIPLUGIN_CONTROL", "nonsense")
    assert main(["status", "--brief"]) == 2
    assert "NRIPLUGIN_CONTROL: 'nonsense'" in capsys.readouterr().err


def test_groups_are_those_of_the_daemon() -> None:
    """The option offers what the daemon can count by."""
    assert set(GROUPINGS) == set(_GROUPS)


def test_the_members_of_groups(daemon: ControlDaemon, capsys: Captured) -> None:
    """Members, the PodGroup object, sums, and what they suffer from; sums may lack."""
    group = control.ContainerGroup(
        name="ml/train",
        containers=control.ContainerCounts(managed=3),
        members=control.GroupMembers(
            pods=3,
            running=2,
            ended=1,
            preemptable=1,
            tasks=[
                control.TaskMembers(name="ps", pods=1, running=1),
                control.TaskMembers(pods=2),
            ],
            requests=control.Amounts(milli_cpu=1500, memory_bytes=3 << 30),
            limits=control.Amounts(milli_cpu=2000),
            unknown_containers=4,
            throttled_seconds=0.25,
            oom_kills=5,
            pressure=[control.GroupPressure(resource="memory", most_avg60=12.34)],
            pod_group=control.PodGroupObject(
                phase="Pending",
                queue="research",
                min_member=6,
                min_task_member={"ps": 1},
                min_resources={"cpu": "7"},
            ),
        ),
    )
    alone = control.ContainerGroup(
        name="(none)", containers=control.ContainerCounts(managed=1)
    )
    state = good_status(groups=[alone, group])
    state.pod_groups.source = "the API server of this cluster"
    state.pod_groups.objects = 8
    state.pod_groups.problem = "refused: HTTP status 403"
    state.pod_groups.failures.add(reason="refused", count=9)
    daemon.answers["Status"] = state
    assert status(daemon, "--by", "group") == 0
    page = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ml/train 3 2 1 1 ps 1, (no task) 2" in page
    assert "ml/train Pending research none 6 ps 1 cpu 7" in page
    assert "ml/train 1500m 2 3Gi none 4" in page
    assert "ml/train 250 ms 5 12.3%" in page
    assert "PodGroups 8 from the API server of this cluster" in page
    assert "refused: HTTP status 403" in page
    assert "refused: 9" in page
