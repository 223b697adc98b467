"""Kubernetes' control plane on this machine, on loopback, for the nodes of a run.

`shared` starts it, or joins the one that another process has started in the same
directory. All users hold a shared lock; a process of its own (`python -m
nodes.control_plane DIRECTORY`) runs the four programs, stops them when nobody holds the
lock any more, and removes the directory. So it ends with its last user, however that
user ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from nodes.cache import REPOSITORY, say
from nodes.catalog import NODES
from nodes.ports import free_ports
from nodes.programs import program
from nodes.shell import NodeError, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The kernel kills a program when the process that started it ends, however it ends.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
# Only a failure waits so long; a machine that also builds the nodes needs minutes.
READY_S = 600
STOP_S = 20
SERVICES = "10.96.0.0/16"
POLL_S = 0.2


class Endpoint(NamedTuple):
    """Where the API server listens, on loopback, and the token of its one user."""

    port: int
    token: str


class ControlPlane(NamedTuple):
    """A control plane that serves."""

    directory: Path
    endpoint: Endpoint

    @property
    def kubeconfig(self) -> Path:
        """Return the file with which kubectl reaches it."""
        return self.directory / "kubeconfig"

    def kubectl(self, *args: str, stdin: str = "", timeout_s: float = 600) -> str:
        """Run kubectl, which must succeed; return what it printed."""
        argv = [str(program("kubectl") / "kubectl"), *args]
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        if done.returncode != 0:
            raise NodeError(
                f"kubectl {' '.join(args)}: exit code {done.returncode}\n"
                f"{done.stdout}{done.stderr}"
            )
        return done.stdout


@contextlib.contextmanager
def shared(directory: Path) -> Iterator[ControlPlane]:
    """Use the control plane of a directory, which is started if it is not there."""
    # To build these programs takes longer than `_start` waits for an API server.
    for name in ("control-plane", "kubectl"):
        program(name)
    users = _join(directory)
    try:
        with _locked(directory / "starting"):
            if not (directory / "ready").exists():
                _start(directory)
        endpoint = Endpoint(*json.loads((directory / "ready").read_text()))
        yield ControlPlane(directory, endpoint)
    finally:
        users.close()


def _join(directory: Path) -> TextIO:
    """Take the users' lock; it is given back when the result is closed."""
    path = directory / "users"
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
        fcntl.flock(file, fcntl.LOCK_SH)
        # The last user may have gone, and the file with it, since it was opened.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(directory: Path) -> None:
    """Start the process that runs the programs; wait until the API server serves."""
    say("control plane: starting etcd, the API server, controllers and the scheduler")
    (directory / "failure").unlink(missing_ok=True)
    # A session of its own: Ctrl-C is for the user, who then gives back the lock.
    script = 'exec setsid --fork "$@" </dev/null >"$0" 2>&1'
    run(
        *("sh", "-c", script, directory / "control-plane.log"),
        *(sys.executable, "-m", "nodes.control_plane", directory),
        cwd=REPOSITORY / "hack",
    )
    deadline = time.monotonic() + READY_S + STOP_S
    while not (directory / "ready").exists():
        if (directory / "failure").exists():
            raise NodeError((directory / "failure").read_text())
        if time.monotonic() > deadline:
            raise NodeError(f"the control plane does not serve; see {directory}")
        time.sleep(POLL_S)


class Programs:
    """The running programs of a control plane, each with a log of its own."""

    def __init__(self, directory: Path, home: Path) -> None:
        self._directory = directory
        self._home = home
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *options: str, prefix: Sequence[str] = ()) -> None:
        """Start a program."""
        with (self._directory / f"{name}.log").open("w") as log:
            self._running[name] = subprocess.Popen(
                [*DIE_WITH_PARENT, *prefix, str(self._home / name), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )

    def check(self) -> None:
        """Raise an error that names the program which has ended, if one has."""
        for name, process in self._running.items():
            if process.poll() is not None:
                log = (self._directory / f"{name}.log").read_text(errors="replace")
                raise NodeError(f"{name} has ended:\n{log[-2000:]}")

    def stop(self) -> None:
        """Stop all programs, the last one first."""
        for process in reversed(self._running.values()):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def _launch(programs: Programs, directory: Path) -> Endpoint:
    """Start the programs; return when the API server says that it is ready."""
    etcd, peers, api = free_ports(3)
    endpoint = Endpoint(api, secrets.token_hex(16))
    _write_private(directory / "tokens", f"{endpoint.token},admin,1,system:masters\n")
    _write_private(directory / "kubeconfig", _kubeconfig(endpoint))
    run("openssl", "genrsa", "-out", directory / "service-account.key", "2048")
    address = f"http://127.0.0.1:{etcd}"
    programs.start(
        "etcd",
        *("--data-dir", "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
        *("--listen-client-urls", address, "--advertise-client-urls", address),
        *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
    )
    programs.start(
        "kube-apiserver",
        *("--etcd-servers", address, "--secure-port", str(api)),
        *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
        *("--endpoint-reconciler-type", "none", "--cert-dir", "certificates"),
        *("--token-auth-file", "tokens", "--authorization-mode", "AlwaysAllow"),
        *("--service-account-issuer", "https://nriplugin.example"),
        *("--service-account-signing-key-file", "service-account.key"),
        *("--service-account-key-file", "service-account.key"),
        *("--disable-admission-plugins", "ServiceAccount"),
        *("--service-cluster-ip-range", SERVICES, "--allow-privileged=true"),
        *("--kubelet-preferred-address-types", "Hostname"),
        prefix=_with_hosts(directory),
    )
    # On a busy machine it takes longer than the 10 s for which the others wait for it.
    _await(lambda: _serves(endpoint), programs)
    for name, *options in (
        ("kube-controller-manager", "--controllers=*,-nodeipam"),
        ("kube-scheduler",),
    ):
        programs.start(
            *(name, "--kubeconfig", "kubeconfig", "--leader-elect=false"),
            *("--secure-port", "0", *options),
        )
    return endpoint


def _with_hosts(directory: Path) -> Sequence[str]:
    """Return a prefix with which a program finds all nodes on this machine.

    kubelet's port in a guest is forwarded from the same port of loopback, so every
    node's name means 127.0.0.1; only for this program, in a mount namespace of its own.
    """
    names = "".join(f"127.0.0.1 {name}\n" for name in ("localhost", *NODES))
    (directory / "hosts").write_text(names)
    script = 'mount --bind hosts /etc/hosts && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def _kubeconfig(endpoint: Endpoint) -> str:
    cluster = {
        "server": f"https://127.0.0.1:{endpoint.port}",
        "insecure-skip-tls-verify": True,
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "nodes",
            "contexts": [
                {"name": "nodes", "context": {"cluster": "nodes", "user": "admin"}}
            ],
            "clusters": [{"name": "nodes", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": endpoint.token}}],
        }
    )


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def get(address: str, token: str = "", timeout_s: float = 5) -> str:
    """Return what a server of ours on loopback answers."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310
    # The servers have made their own certificates, which nobody else vouches for.
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(  # noqa: S310
        request, timeout=timeout_s, context=trusting
    ) as answer:
        return str(answer.read().decode())


def _serves(endpoint: Endpoint) -> bool:
    try:
        get(f"https://127.0.0.1:{endpoint.port}/readyz", endpoint.token)
    except OSError:
        return False
    return True


def _await(true: Callable[[], bool], programs: Programs) -> None:
    deadline = time.monotonic() + READY_S
    while not true():
        programs.check()
        if time.monotonic() > deadline:
            raise NodeError(f"the API server is not ready after {READY_S} s")
        time.sleep(POLL_S)


def main(directory: Path) -> int:
    """Run the programs until nobody uses them."""
    programs = Programs(directory, program("control-plane"))
    # Its users' locks say when to stop; a signal means at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        endpoint = _launch(programs, directory)
        ready = directory / "ready.new"
        _write_private(ready, json.dumps(endpoint))
        ready.rename(directory / "ready")
        with (directory / "users").open("a") as users:
            while not _nobody_uses(users):
                programs.check()
                time.sleep(POLL_S)
            # Under the lock: who comes now starts anew, in a directory of that name.
            programs.stop()
            shutil.rmtree(directory)
    except NodeError as exc:
        # The logs stay for whoever wants to know more.
        (directory / "ready").unlink(missing_ok=True)
        failure = directory / "failure.new"
        failure.write_text(str(exc))
        failure.rename(directory / "failure")
        return 1
    finally:
        programs.stop()
    return 0


def _nobody_uses(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
