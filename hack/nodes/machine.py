"""A booted node: qemu, its serial ports, and requests to the agent in the guest.

Everything that a guest writes to its disks is thrown away at its end. A guest ends at
the latest after a time limit, or with the process that booted it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nodes import kernels, roots
from nodes.accelerator import QEMU, accelerator
from nodes.cache import directory, say
from nodes.control_plane import DIE_WITH_PARENT, get
from nodes.disk import make_disk
from nodes.payload import payload
from nodes.ports import free_ports
from nodes.programs import program
from nodes.shell import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nodes.catalog import Node
    from nodes.control_plane import Endpoint

# Only a failure waits so long. An idle machine needs a tenth of it.
BOOT_S = 600
# The agent gives a command that it stops 90 seconds to end.
ANSWER_S = 300
# Without no_timer_check a kernel may hang at boot: the emulated timer is late at times.
# Without tsc=reliable a kernel on a busy machine takes the emulated TSC for broken, and
# everything is several times slower from then on: it asks the HPET for the time.
# DAMON and khugepaged look at memory all the time, for nothing here.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on no_timer_check "
    "tsc=reliable damon_stat.enabled=0 transparent_hugepage=never"
)


class Result(NamedTuple):
    """The exit code and the output of a command in the guest."""

    code: int
    stdout: str
    stderr: str


class Disks(NamedTuple):
    """Everything that a node is started from."""

    kernel: Path
    initrd: Path
    images: tuple[Path, ...]


def build(node: Node) -> Disks:
    """Build those parts of a node that are not in the cache.

    A node with kubelet needs a control plane, which is built with it.
    """
    if node.kubelet:
        program("control-plane")
    root, kernel = roots.root(node.root), kernels.kernel(node.kernel)
    images = (root / "root.img", kernel / "modules.img", payload(node) / "payload.img")
    return Disks(kernel / "vmlinuz", kernel / "initrd", images)


def qemu_command(disks: Disks, *options: str, append: str = "") -> list[str]:
    """Return qemu's command line; nothing that the guest writes is kept."""
    how = accelerator(disks.kernel, disks.initrd).options
    argv = [*DIE_WITH_PARENT, QEMU, *how, "-no-reboot", "-nodefaults"]
    argv += ["-display", "none", "-kernel", str(disks.kernel)]
    argv += ["-initrd", str(disks.initrd), "-append", f"{COMMAND_LINE} {append}"]
    for image in disks.images:
        argv += [
            "-drive",
            f"file={image},format=raw,if=virtio,snapshot=on,cache=unsafe",
        ]
    return [*argv, *options]


class Joining(NamedTuple):
    """What it takes a node to join a cluster: qemu's options and words for its kernel.

    The guest reaches this machine's loopback as 10.0.2.2. kubelet's port in the guest
    is forwarded from the same port of loopback, where the API server calls it.
    """

    options: tuple[str, ...] = ()
    append: str = ""
    kubelet_port: int = 0


def joining(node: Node, endpoint: Endpoint | None) -> Joining:
    """Return how a node joins a cluster; a node without kubelet has no network.

    Raises:
        NodeError: the node has a kubelet and there is no cluster.
    """
    if not node.kubelet:
        return Joining()
    if endpoint is None:
        raise NodeError(f"{node.name}: its kubelet needs a control plane")
    (port,) = free_ports(1)
    return Joining(
        (
            # kubelet and containerd have many threads, which wait for each other on
            # emulated processors that take turns: with one, a pod starts in half the
            # time. The last -smp counts.
            *("-smp", "1"),
            *("-device", "virtio-net-pci,netdev=net"),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:{port}"),
        ),
        f"node.api={endpoint.port} node.token={endpoint.token} node.kubelet={port}",
        port,
    )


class Machine:
    """A running guest. One user at a time: requests are answered in order."""

    def __init__(self, node: Node, process: subprocess.Popen[bytes], log: Path) -> None:
        self.node = node
        self.log = log
        self.boot_s = 0.0
        self.kubelet_port = 0
        self._process = process
        self._port = socket.socket(socket.AF_UNIX)
        self._pending = b""

    def run(
        self,
        *argv: str,
        stdin: str = "",
        timeout_s: float = 600,
        env: Mapping[str, str] | None = None,
        show: Callable[[str, str], None] | None = None,
    ) -> Result:
        """Run a command to its end; `show` gets the output as it comes."""
        self._send("run", argv=argv, stdin=stdin, timeout_s=timeout_s, env=env)
        output = {"stdout": "", "stderr": ""}
        for answer in self._answers(timeout_s + 30):
            for stream in output.keys() & answer.keys():
                output[stream] += answer[stream]
                if show is not None:
                    show(stream, answer[stream])
            if "done" in answer:
                return Result(answer["done"], output["stdout"], output["stderr"])
        raise AssertionError("the answers end with one that is done")

    def check(self, *argv: str, **options: Any) -> str:
        """Run a command that must succeed; return what it printed."""
        result = self.run(*argv, **options)
        if result.code != 0:
            raise NodeError(
                f"{' '.join(argv)}: exit code {result.code}\n"
                f"{result.stdout}{result.stderr}"
            )
        return result.stdout

    def spawn(
        self,
        *argv: str,
        log: str,
        env: Mapping[str, str] | None = None,
        answers: bool = False,
    ) -> int:
        """Start a command in the background and return its pid.

        Its output goes to a file; of a command that answers lines (see `ask`), only
        its errors do.
        """
        return int(self._ask("spawn", argv=argv, log=log, env=env, answers=answers))

    def ask(self, pid: int, line: str, timeout_s: float = 600) -> str:
        """Write a line to a background command; return the line that it answers."""
        self._send("ask", pid=pid, line=line, timeout_s=timeout_s)
        return str(self._answer(timeout_s + 30))

    def poll(self, pid: int) -> int | None:
        """Return the exit code of a background command, None while it runs."""
        code: int | None = self._ask("poll", pid=pid)
        return code

    def stop(self, pid: int, number: int = signal.SIGTERM) -> int:
        """Signal a background command, wait for its end and return its exit code."""
        return int(self._ask("stop", pid=pid, number=number))

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return the contents of files; None for what cannot be read."""
        contents: dict[str, str | None] = self._ask("read", paths=list(paths))
        return contents

    def write(self, path: str, content: str) -> None:
        """Write a file in the guest."""
        self._ask("write", path=path, content=content)

    def kubelet(self, path: str) -> str:
        """Return what kubelet serves at a path, such as metrics."""
        return get(f"https://127.0.0.1:{self.kubelet_port}/{path}", timeout_s=60)

    def console(self) -> str:
        """Return what the guest printed on its console."""
        return self.log.read_text(errors="replace")

    def _connect(self, path: Path) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self._port.connect(str(path))
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._failure("qemu did not start") from None
                time.sleep(0.05)

    def _await_ready(self) -> None:
        for answer in self._answers(BOOT_S, last="ready"):
            if answer.get("ready"):
                raise self._failure(answer["ready"])

    def _ask(self, operation: str, **fields: Any) -> Any:
        self._send(operation, **fields)
        return self._answer(ANSWER_S)

    def _answer(self, limit_s: float) -> Any:
        for answer in self._answers(limit_s):
            if "done" in answer:
                return answer["done"]
        raise AssertionError("the answers end with one that is done")

    def _send(self, operation: str, **fields: Any) -> None:
        self._port.sendall(
            json.dumps({"operation": operation, **fields}).encode() + b"\n"
        )

    def _answers(self, limit_s: float, last: str = "done") -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + limit_s
        while True:
            while b"\n" not in self._pending:
                self._port.settimeout(max(0.01, deadline - time.monotonic()))
                try:
                    chunk = self._port.recv(1 << 16)
                except TimeoutError:
                    raise self._failure(f"no answer after {limit_s:.0f} s") from None
                if not chunk:
                    raise self._failure("the guest is gone")
                self._pending += chunk
            line, self._pending = self._pending.split(b"\n", 1)
            answer = json.loads(line)
            if "error" in answer:
                raise NodeError(f"{self.node.name}: {answer['error']}")
            yield answer
            if last in answer:
                return

    def _failure(self, why: str) -> NodeError:
        last = "\n".join(self.console().strip().splitlines()[-15:])
        return NodeError(
            f"{self.node.name}: {why}; its console is in {self.log}\n{last}"
        )

    def power_off(self) -> None:
        """Ask the guest to power off, and kill it if it does not."""
        with contextlib.suppress(OSError):
            self._send("end")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        self._process.wait()
        self._port.close()


@contextlib.contextmanager
def booted(
    node: Node,
    share: Path | None = None,
    limit_s: float = 3600,
    *,
    endpoint: Endpoint | None = None,
) -> Iterator[Machine]:
    """Boot a node for a while; it is gone afterwards, at the latest after `limit_s`.

    `share` is a directory whose contents the guest finds in /with, `endpoint` the API
    server of the cluster that a node with kubelet joins.
    """
    joined = joining(node, endpoint)
    disks = build(node)
    log = directory() / f"{node.name}.log"
    scratch = Path(tempfile.mkdtemp(prefix="nriplugin-node-"))
    if share is not None:
        make_disk(share, scratch / "with.img")
        disks = disks._replace(images=(*disks.images, scratch / "with.img"))
    port = scratch / "port"
    # timeout(1) is the hard limit: a guest whose kernel panicked may spin for ever.
    qemu = qemu_command(
        disks,
        *("-serial", f"file:{log}", "-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=port,path={port},server=on,wait=off"),
        *("-device", "virtserialport,chardev=port,name=nriplugin.node"),
        *joined.options,
        append=joined.append,
    )
    argv = [*DIE_WITH_PARENT, "timeout", "--signal=KILL", str(int(limit_s)), *qemu]
    environ = {**os.environ, "TMPDIR": str(scratch)}
    began = time.monotonic()
    say(f"{node.name}: booting")
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=environ)
    machine = Machine(node, process, log)
    machine.kubelet_port = joined.kubelet_port
    try:
        machine._connect(port)
        machine._await_ready()
        machine.boot_s = time.monotonic() - began
        say(f"{node.name}: up after {machine.boot_s:.0f} s")
        yield machine
    finally:
        machine.power_off()
        shutil.rmtree(scratch)
