"""Runs in a node: cases of steps, each in a branch of cgroups of its own.

Standard input has the cases as JSON, a name and its steps; standard output gets a line
of JSON for each case. A step is the name of a function of `Case` and its arguments, its
answer what that function returns. `qos`, `pod` and `container` name the three cgroups:
new ones, or those of a real pod, if the input has them for the case.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from errno import errorcode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.types.reader import Reader
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.kube import kubelet_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Outcome, Writer

# Files that the kernel changes by itself, or that show another file's value.
_USE = (
    *("stat", "current", "peak", "usage", "events", "pressure", "procs", "threads"),
    *("tasks", "failcnt", "io_", "numa", "reclaim", "kmem", "slabinfo", "freez"),
    *("effective", "nice", "exclusive"),
)
_PATIENCE_S = 180
KUBEPODS = "/kubepods"


class Branch:
    """A QoS class, a pod and a container, made as the kubelet and runc make them."""

    def __init__(self, tree: Tree, roots: list[Path], given: dict[str, str]) -> None:
        self.tree, self.roots, self.ours = tree, roots, not given
        self.processes: list[subprocess.Popen[bytes]] = []
        self.cgroups = given
        if not given:
            qos = f"{KUBEPODS}/qos{uuid.uuid4().hex[:8]}"
            pod = f"{qos}/pod{uuid.uuid4()}"
            container = f"{pod}/{uuid.uuid4().hex * 2}"
            self.cgroups = {"qos": qos, "pod": pod, "container": container}
            self.make()

    def make(self) -> None:
        for root in self.roots:
            for cgroup in (KUBEPODS, *self.cgroups.values()):
                directory = root / cgroup[1:]
                directory.mkdir(exist_ok=True)
                if self.tree.version == 2 and cgroup != self.cgroups["container"]:
                    names = (directory / "cgroup.controllers").read_text().split()
                    text = " ".join(f"+{name}" for name in names)
                    (directory / "cgroup.subtree_control").write_text(text)

    def directories(self, name: str) -> list[Path]:
        """Return the directories of a cgroup: one, or on v1 one per hierarchy."""
        return [root / self.cgroups[name][1:] for root in self.roots]

    def directory(self, name: str, file: str) -> Path:
        """Return the directory that has a file."""
        if self.tree.version == 2:
            return self.directories(name)[0]
        root = Path("/sys/fs/cgroup") / file.partition(".")[0]
        return root / self.cgroups[name][1:]

    def fill_cpusets(self) -> None:
        """Fill the cpusets of v1, as runtimes do: no task may enter an empty one."""
        if self.tree.version == 2:
            return
        top = Path("/sys/fs/cgroup/cpuset")
        for file in ("cpuset.cpus", "cpuset.mems"):
            everything = (top / file).read_text()
            for cgroup in (KUBEPODS, *self.cgroups.values()):
                path = top / cgroup[1:] / file
                if not path.read_text().strip():
                    path.write_text(everything)

    def remove(self) -> None:
        """End the processes of the branch and remove its cgroups."""
        for process in self.processes:
            process.kill()
            process.send_signal(signal.SIGCONT)
            process.wait()
        if not self.ours:
            return
        for pid in (
            (self.directories("container")[0] / "cgroup.procs").read_text().split()
        ):
            os.kill(int(pid), signal.SIGKILL)
        for name in reversed(self.cgroups):
            for directory in self.directories(name):
                _until(lambda: _removed(directory))  # noqa: B023 # called at once


class Case:
    """The steps that a case can have, one method each; answers are values of JSON."""

    def __init__(self, tree: Tree, branch: Branch, writer: Writer | None) -> None:
        self.tree, self.branch = tree, branch
        self.traced: list[tuple[str, str]] = []
        self.executor = Executor(tree, writer=writer, trace=self._trace)

    def _trace(self, path: str, content: str) -> None:
        self.traced.append((path, content))

    # --- the kernel itself, without nriplugin

    def write(self, name: str, file: str, text: str) -> str:
        """Write a file directly; answer with the error's name."""
        path = self.branch.directory(name, file) / file
        try:
            fd = os.open(path, os.O_WRONLY)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        except OSError as exc:
            return errorcode[exc.errno or 0]
        return ""

    def read(self, name: str, file: str) -> str | None:
        """Read a file directly."""
        try:
            return (self.branch.directory(name, file) / file).read_text().strip()
        except OSError as exc:
            return errorcode[exc.errno or 0]

    def task(self, name: str, code: str = "sleep(1000)") -> str:
        """Start a Python process in a cgroup, and wait until it is there."""
        text = f"from time import *; import os; {code}"
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", f"input(); {text}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.branch.processes.append(process)
        self.branch.fill_cpusets()
        for directory in self.branch.directories(name):
            (directory / "cgroup.procs").write_text(str(process.pid))
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        return ""

    def wait(self) -> int:
        """Wait for the end of the last process; answer with its exit code."""
        return self.branch.processes[-1].wait(_PATIENCE_S)

    def printed(self) -> str:
        """Wait until the last process prints a line."""
        stdout = self.branch.processes[-1].stdout
        assert stdout is not None
        return stdout.readline().decode().strip()

    def use(self, name: str, amount: int) -> str:
        """Start a process that uses so many bytes, and wait until it does."""
        self.task(name, f"b=b'x'*{amount}; print('y', flush=True); sleep(1000)")
        return self.printed()

    def becomes(self, letter: str) -> str:
        """Wait until the last process is in a state."""
        stat = Path(f"/proc/{self.branch.processes[-1].pid}/stat")
        _until(lambda: stat.read_text().rpartition(")")[2].split()[0] == letter)
        return ""

    def stop(self) -> str:
        """Stop the last process."""
        self.branch.processes[-1].send_signal(signal.SIGSTOP)
        return self.becomes("T")

    def command(self, *argv: str) -> str:
        """Run a command and answer with what it prints; {pod} is the pod's cgroup."""
        argv = tuple(word.format(**self.branch.cgroups) for word in argv)
        return subprocess.run(
            argv, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def property(self, name: str, key: str) -> str:
        """Answer with a property of the systemd unit that a cgroup is."""
        unit = self.branch.cgroups[name].rpartition("/")[2]
        return self.command("systemctl", "show", "--value", "-p", key, unit).strip()

    # --- the kernel through nriplugin

    def supported(self, type: str, name: str) -> list[Any]:
        """Answer whether this kernel has a type, and the evidence."""
        support = self.tree.supported(type, self.branch.cgroups[name])
        return [support.supported, support.reason]

    def get(self, type: str, name: str) -> Any:
        """Answer with the typed value."""
        try:
            value = self.tree.get(type, self.branch.cgroups[name])
        except (CgroupError, ConfigError) as exc:
            return str(exc)
        return value if not isinstance(value, tuple) else list(value)

    def set(self, type: str, name: str, value: Any) -> str:
        """Set a value without the executor; answer with the error."""
        try:
            self.tree.set(type, self.branch.cgroups[name], value)
        except ConfigError as exc:
            return str(exc)
        except CgroupError as exc:
            return errorcode[exc.errno]
        return ""

    def update(self, type: str, name: str, value: Any) -> Any:
        """Update one value: status, error, what the file holds, what else changed."""
        update = Update(type, self.branch.cgroups[name], value)
        before = self._settings(type)
        (told,) = self._told([self.executor.update(update, cacheable=False)])
        path = self._path(type, name)
        now = self._settings(type)
        changed = {one: now[one] for one in now if now[one] != before[one]}
        held = changed.pop(path, self._read(path))
        return [*told, held, {self._short(one): to for one, to in changed.items()}]

    def why(self, type: str, name: str, value: Any) -> str:
        """Update one value: only the reason."""
        update = Update(type, self.branch.cgroups[name], value)
        return self.executor.update(update, cacheable=False).reason

    def batch(self, *updates: tuple[str, str, Any]) -> Any:
        """Update several values: the outcome of each."""
        return self._told(self.executor.update_batch(self._updates(updates)))

    def leveled(self, *levels: list[tuple[str, str, Any]]) -> Any:
        """Update a branch: the outcome of each."""
        self.traced.clear()
        given = [
            [Update(u.type, u.cgroup, u.value) for u in self._updates(level)]
            for level in levels
        ]
        return self._told(self.executor.leveled_update_batch(given))

    def trace(self) -> list[Any]:
        """Answer with what was written since the last time, by name."""
        names = {cgroup: name for name, cgroup in self.branch.cgroups.items()}
        traced, self.traced[:] = [*self.traced], []
        answer = []
        for path, content in traced:
            cgroup = path.rpartition("/")[0]
            if self.tree.version == 1:
                cgroup = "/" + cgroup.lstrip("/").partition("/")[2]
            answer.append([names.get(cgroup, cgroup), path.rpartition("/")[2], content])
        return answer

    def reader(self, method: str, name: str, *args: str) -> Any:
        """Answer with what the typed reader says, as text."""
        value = getattr(Reader(self.tree), method)(self.branch.cgroups[name], *args)
        return repr(value)

    def _updates(self, given: Any) -> list[Update]:
        return [Update(t, self.branch.cgroups[name], value) for t, name, value in given]

    def _told(self, outcomes: list[Outcome]) -> list[Any]:
        return [
            [
                str(one.status) + " by systemd" * one.by_writer,
                errorcode[one.errno] if one.errno else "",
            ]
            for one in outcomes
        ]

    def _path(self, type: str, name: str) -> str:
        file = self.tree.registry.get(type).file
        return str(self.branch.directory(name, file) / file)

    def _short(self, path: str) -> str:
        directory, _, file = path.rpartition("/")
        names = [
            n for n, cgroup in self.branch.cgroups.items() if directory.endswith(cgroup)
        ]
        return f"{names[0]} {file}"

    def _settings(self, type: str) -> dict[str, str | None]:
        """Return what the files of a type's controller hold, in all three cgroups."""
        controller = self.tree.registry.get(type).file.partition(".")[0]
        return {
            str(path): self._read(str(path))
            for name in self.branch.cgroups
            for path in self.branch.directory(name, controller).iterdir()
            if path.name.partition(".")[0] == controller
            if not any(part in path.name for part in _USE)
        }

    @staticmethod
    def _read(path: str) -> str | None:
        try:
            return Path(path).read_text().strip()
        except OSError:
            return None


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def keep_patches(root: Path) -> None:
    """Leave a cgroup with a quota behind.

    The kernel patches its own code when the first cgroup gets one and when the last
    one loses it. Emulated CPUs may trip over that: the kernel then dies of an int3.
    """
    keeper = root / "keeper"
    keeper.mkdir(exist_ok=True)
    for file, text in (("cpu.max", "50000 100000"), ("cpu.cfs_quota_us", "50000")):
        if (keeper / file).exists():
            (keeper / file).write_text(text)


def answers(given: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the answers to every case."""
    node = detect_node(os.environ, kubelet=kubelet_config)
    tree, writer = node.open_tree(), node.writer()
    bus: Any = getattr(writer, "_bus", None)
    if bus is not None:
        # A systemd that reloads on a busy machine may need more than the usual 2 s, and
        # the value would be written directly.
        bus._timeout_s = _PATIENCE_S
    mounts = dict.fromkeys(node.mounts.hierarchies.values()) or [node.cgroup_root]
    keep_patches(Path(node.mounts.hierarchies.get("cpu", node.cgroup_root)))
    for name, steps in given["cases"].items():
        cgroups = given["cgroups"].get(name, {})
        branch = Branch(tree, [Path(mount) for mount in mounts], cgroups)
        case = Case(tree, branch, writer)
        try:
            yield name, [getattr(case, step)(*args) for step, *args in steps]
        finally:
            branch.remove()


if __name__ == "__main__":
    for name, answer in answers(json.load(sys.stdin)):
        print(json.dumps([name, answer]), flush=True)
