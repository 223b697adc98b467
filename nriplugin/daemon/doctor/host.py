"""`ExaminedHost`: what several checks need to know, found out once and when needed.

The NRI socket, the control socket, the state directory and the configuration file are
paths of this process, as they are for `nriplugin run`. All other files are the host's,
below the host root.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.daemon.doctor.answers import LISTENING, ask, dial
from nriplugin.daemon.doctor.cri_sockets import (
    CRI_SOCKETS,
    find_cri_sockets,
    is_socket,
)
from nriplugin.daemon.doctor.host_files import HostFiles
from nriplugin.daemon.doctor.processes import daemon_command, processes_in
from nriplugin.daemon.doctor.runtime_files import (
    CONTAINERD,
    CONTAINERD_FILE,
    CRIO,
    CRIO_DIRECTORY,
    CRIO_FILE,
    containerd_settings,
    crio_settings,
)
from nriplugin.daemon.doctor.unix_sockets import listeners_in
from nriplugin.engine.runtimes import parse_version
from nriplugin.errors import ConfigError
from nriplugin.node.kubelet import read_kubelet

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.config import Config
    from nriplugin.daemon.doctor.answers import Answers
    from nriplugin.daemon.doctor.processes import HostProcess
    from nriplugin.daemon.doctor.runtime_files import RuntimeSettings
    from nriplugin.node.kubelet import NodeKubelet

# containerd 2.0.0 to 2.0.3 call themselves so.
NAMES_IN_NRI = {"v2": CONTAINERD}
PROGRAMS = {"containerd": CONTAINERD, "crio": CRIO}


class HostOptions(NamedTuple):
    """What the command line says."""

    nri_socket: str
    control: str | None  # the path of the control socket; None for `off`
    state_directory: str
    config: str | None = None


class RuntimeVersion(NamedTuple):
    """The version of a runtime, and who told it; builds from source have any text."""

    version: tuple[int, int] | None
    text: str
    source: str


class ExaminedHost:
    """One node."""

    def __init__(self, node: DetectedNode, options: HostOptions) -> None:
        """Look at a node that was detected."""
        self.node = node
        self.options = options
        self.files = HostFiles(node.host_root)
        below = f"{self.files.root}/proc"
        # With hostPID, a pod's own /proc shows the node's processes.
        self.proc = below if os.path.isdir(below) else "/proc"

    @cached_property
    def processes(self) -> list[HostProcess]:
        """Return the processes that can be seen."""
        return processes_in(self.proc)

    @cached_property
    def daemons(self) -> dict[str, list[HostProcess]]:
        """Return the processes of nriplugin, by `run` and `cri-proxy`."""
        found: dict[str, list[HostProcess]] = {}
        for process in self.processes:
            command = daemon_command(process.arguments)
            if command is not None:
                found.setdefault(command, []).append(process)
        return found

    @cached_property
    def kubelet(self) -> NodeKubelet:
        """Return kubelet's settings."""
        return read_kubelet(self.node.host_root)

    @cached_property
    def cri_sockets(self) -> dict[str, str]:
        """Return path on the host -> path for this process, of CRI sockets."""
        endpoint = self.kubelet.settings.runtime_endpoint
        return find_cri_sockets(self.files, endpoint)

    @cached_property
    def answers(self) -> Answers:
        """Return what the daemon and the runtimes answer."""
        return ask(self.options.control, list(self.cri_sockets.values()))

    @cached_property
    def nri_state(self) -> str:
        """Return LISTENING if the runtime listens on the NRI socket, else why not.

        The runtime logs an error for every connection that does not register. So the
        socket is dialled only if neither the kernel's list of listening sockets shows
        it, which has those of one network namespace, nor a daemon that is connected.
        """
        path = self.options.nri_socket
        if not os.path.lexists(path):
            return "it does not exist"
        if not is_socket(path):
            return "it is not a socket"
        if not os.access(path, os.W_OK):
            return "this user may not write to it"
        status = self.answers.status
        connected = status is not None and status.door == "nri" and status.ready
        if connected or self.aliases(path) & self.listeners:
            return LISTENING
        return dial(path)

    @cached_property
    def listeners(self) -> set[str]:
        """Return the names of the listening sockets that the kernel shows."""
        for file in (f"{self.proc}/1/net/unix", f"{self.proc}/net/unix"):
            try:
                with open(file, encoding="utf-8", errors="surrogateescape") as text:
                    return listeners_in(text.read())
            except OSError:
                continue
        return set()

    def aliases(self, path: str) -> set[str]:
        """Return the names under which a process may have made a socket."""
        names = {path, os.path.realpath(path)}
        return names | {f"/var{name}" for name in names if name.startswith("/run/")}

    @cached_property
    def runtimes(self) -> list[RuntimeSettings]:
        """Return the settings of the runtimes that the node has."""
        found = []
        for name in (CONTAINERD, CRIO):
            process = self._process_of(name)
            config = process.flag("-c", "--config") if process else None
            if name == CONTAINERD:
                known = self.runtime_version(CONTAINERD)
                one = containerd_settings(
                    self.files,
                    config or CONTAINERD_FILE,
                    merges=known is None or (known.version or (2, 0)) >= (2, 0),
                )
            else:
                directory = process.flag("-d", "--config-dir") if process else None
                one = crio_settings(
                    self.files, config or CRIO_FILE, directory or CRIO_DIRECTORY
                )
            socket = any(CRI_SOCKETS.get(path) == name for path in self.cri_sockets)
            known = self.runtime_version(name)
            if one.files or one.errors or process or socket or known:
                found.append(one)
        return found

    def _process_of(self, runtime: str) -> HostProcess | None:
        for process in self.processes:
            # A program in a pod may have any name and any options.
            if PROGRAMS.get(process.program) == runtime and not process.in_pod():
                return process
        return None

    def runtime_version(self, name: str) -> RuntimeVersion | None:
        """Return the version of a runtime; None if nobody tells."""
        for path, answer in self.answers.runtimes.items():
            if answer.runtime_name == name:
                text = answer.runtime_version
                return RuntimeVersion(parse_version(text), text, path)
        status = self.answers.status
        if status is not None and status.runtime.version:
            told, text = status.runtime.name, status.runtime.version
            if NAMES_IN_NRI.get(told, told) == name:
                return RuntimeVersion(parse_version(text), text, "the daemon")
        return None

    @cached_property
    def config_path(self) -> str | None:
        """Return the configuration file: the option's, else that of the daemon."""
        if self.options.config is not None:
            return self.options.config
        status = self.answers.status
        if status is not None:
            return status.configuration.path or None
        for processes in self.daemons.values():
            for process in processes:
                # The path of a process in a pod is one of that pod's.
                if not process.in_pod():
                    given = process.flag("--config", "-config")
                    return None if given is None else self.files.path(given)
        return None

    @cached_property
    def config(self) -> Config | ConfigError | None:
        """Return the configuration, or the mistake in it; None without a file."""
        if self.config_path is None:
            return None
        from nriplugin.config import read_config  # late: most nodes have no file

        try:
            return read_config(self.config_path)
        except ConfigError as exc:
            return exc
