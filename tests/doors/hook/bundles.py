"""A container as an OCI runtime shows it to a hook: cgroup, process, bundle, state."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.trees import UID, add_v2, make

from nriplugin.doors.hook.handle import handle
from nriplugin.doors.hook.host import find_host
from nriplugin.engine.settings import DEFAULT_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nriplugin.doors.hook.handle import HookResult
    from nriplugin.engine.settings import EngineConfig

ID = "0123456789abcdef" * 4
SANDBOX_ID = "fedcba9876543210" * 4
PID = 4711

QOS = "/kubepods/burstable"
POD = f"{QOS}/pod{UID}"
CGROUP = f"{POD}/crio-{ID}"

CRIO = "io.kubernetes.cri-o."
RESOURCES: Mapping[str, Any] = {
    "cpu": {"shares": 512, "quota": 50_000, "period": 100_000},
    "memory": {"limit": 1 << 27},
}
# The values that runc with the quadratic curve has written before hooks run.
WRITTEN = {"cpu.weight": "59", "cpu.max": "50000 100000", "memory.max": "134217728"}

# The annotations that CRI-O adds to those of the pod.
CRIO_ANNOTATIONS = {
    f"{CRIO}ContainerType": "container",
    f"{CRIO}Metadata": '{"name": "web"}',
    f"{CRIO}SandboxName": f"k8s_shop_prod_{UID}_0",
    f"{CRIO}SandboxID": SANDBOX_ID,
}


class Bundle:
    """One container on a node that is a directory of ordinary files."""

    def __init__(
        self,
        top: Path,
        *,
        cgroup: str = CGROUP,
        process: str | None = CGROUP,
        cgroups_path: str | None = CGROUP,
        resources: Mapping[str, Any] = RESOURCES,
        annotations: Mapping[str, str] = CRIO_ANNOTATIONS,
        version: int = 2,
    ) -> None:
        """Make cgroups, bundle and /proc; `process` is the cgroup of the process."""
        self.top = top
        self.root = top / "cgroup"
        self.cgroup = cgroup
        parents = [cgroup[:end] for end, sign in enumerate(cgroup) if sign == "/"][1:]
        make(version, self.root, [*parents, cgroup])
        for file, value in WRITTEN.items() if version == 2 else ():
            self.write(file, value)
        self.directory = top / "storage" / ID / "userdata"
        self.directory.mkdir(parents=True)
        linux: dict[str, Any] = {"resources": resources}
        if cgroups_path is not None:
            linux["cgroupsPath"] = cgroups_path
        self.spec: dict[str, Any] = {
            "ociVersion": "1.2.1",
            "process": {"oomScoreAdj": 900},
            "linux": linux,
            "annotations": dict(annotations),
        }
        self.save()
        proc = top / "host" / "proc" / str(PID)
        proc.mkdir(parents=True)
        if process is not None:
            text = f"0::{process}\n"
            if version == 1:
                text = f"5:memory:{process}\n4:cpu,cpuacct:{process}\n0::/\n"
            (proc / "cgroup").write_text(text)

    def save(self) -> None:
        """Write config.json."""
        (self.directory / "config.json").write_text(json.dumps(self.spec))

    @property
    def state(self) -> dict[str, Any]:
        """The state that the runtime writes to the hook's standard input."""
        return {
            "ociVersion": "1.2.1",
            "id": ID,
            "status": "creating",
            "pid": PID,
            "bundle": str(self.directory),
            "annotations": self.spec["annotations"],
        }

    @property
    def state_dir(self) -> Path:
        """The directory of the journal."""
        return self.top / "state"

    def add_sandbox(self, **annotations: str) -> None:
        """Make the bundle of the pod's sandbox with annotations of CRI-O."""
        directory = self.top / "storage" / SANDBOX_ID / "userdata"
        directory.mkdir(parents=True)
        noted = {f"{CRIO}{key}": value for key, value in annotations.items()}
        (directory / "config.json").write_text(json.dumps({"annotations": noted}))

    def add_cgroup(self, cgroup: str) -> None:
        """Make one more cgroup."""
        add_v2(self.root, cgroup)

    def write(self, file: str, value: str, cgroup: str | None = None) -> None:
        """Write a value to a file of a cgroup, by default the container's."""
        (self._in(cgroup) / file).write_text(f"{value}\n")

    def read(self, *files: str, cgroup: str | None = None) -> dict[str, str]:
        """Return the values of files of a cgroup, by default the container's."""
        return {file: (self._in(cgroup) / file).read_text().strip() for file in files}

    def contents(self) -> dict[str, str]:
        """Return the content of every file in the tree."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def options(self) -> list[str]:
        """Return the options that make the command use this directory."""
        return [
            *("--host-root", str(self.top / "host")),
            *("--cgroup-root", str(self.root)),
            *("--state-dir", str(self.state_dir)),
        ]

    def handle(
        self, config: EngineConfig = DEFAULT_CONFIG, checkpoint: str | None = None
    ) -> HookResult:
        """Run the hook in this process."""
        host, root = str(self.top / "host"), str(self.root)
        with feeding(json.dumps(self.state).encode()) as fd:
            return handle(
                fd,
                config,
                find_host({}, host, root),
                state_dir=str(self.state_dir),
                checkpoint=checkpoint,
            )

    def _in(self, cgroup: str | None) -> Path:
        return self.root / (cgroup or self.cgroup).strip("/")


@contextmanager
def feeding(content: bytes) -> Iterator[int]:
    """Return a descriptor from which some bytes can be read, up to their end."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()
