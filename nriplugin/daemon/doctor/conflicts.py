"""Who else may set the files that nriplugin sets: plugins, policies, itself twice."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.answers import LISTENING
from nriplugin.daemon.doctor.finding import note, ok, problem, warning
from nriplugin.daemon.doctor.instances import check_instances
from nriplugin.daemon.doctor.processes import OWN_PROGRAM, daemon_command
from nriplugin.daemon.doctor.unix_sockets import (
    clients_of,
    owners_of,
    sockets_of_kernel,
)
from nriplugin.daemon.doctor.ways import hook_files, launched_files, plugin_files
from nriplugin.nri.launch import DEFAULT_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

_PLUGIN_NAME = re.compile(r"[0-9]{2}-.+")

# The plugin with which OpenShift restricts what NRI plugins may change reads this file.
MUTATION_POLICY = "/etc/crio/nri_plugins/AllowMutations/config.yaml"


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say what else on this node may be in nriplugin's way."""
    yield from check_instances(host)
    yield from _hook(host)
    yield from _launched_plugins(host)
    yield from _connected_plugins(host)
    yield from _mutation_policy(host)


def _hook(host: ExaminedHost) -> Iterator[CheckFinding]:
    hooks = hook_files(host)
    if not hooks:
        return
    running = [command for command in ("run", "cri-proxy") if host.daemons.get(command)]
    if host.answers.status is not None and not running:
        running = ["daemon"]
    if running or launched_files(host):
        yield warning(
            "oci-hook",
            f"The OCI hook {hooks[0]} is installed beside nriplugin "
            f"{running[0] if running else 'launched by the runtime'}: both set the "
            "values of each container.",
            "Keep one: `nriplugin hook uninstall` removes the hook.",
        )
    else:
        yield ok("oci-hook", f"The OCI hook is installed: {hooks[0]}.")


def _launched_plugins(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Look at the plugins that the runtime starts itself."""
    for path in plugin_files(host):
        name = path.rpartition("/")[2]
        if not _PLUGIN_NAME.fullmatch(name):
            yield problem(
                "plugin-directory",
                f"The executable {path} has not a name such as 10-name; the runtime "
                "then starts no CRI service.",
                f"Rename it to two digits, a hyphen and a name, or chmod -x {path}.",
            )
        elif name.partition("-")[2] == OWN_PROGRAM:
            continue
        elif name[:2] >= DEFAULT_INDEX:
            yield warning(
                "plugin-directory",
                f"The runtime launches {path}, whose index is not below nriplugin's "
                f"({DEFAULT_INDEX}): shares, quotas and limits that it sets are lost.",
                "Give it an index of up to 98.",
            )
        else:
            yield note(
                "plugin-directory",
                f"The runtime launches another plugin, {path}.",
                "Nothing to do if it sets no cgroup v2 files: docs/coexistence.md.",
            )


def _connected_plugins(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Look at the processes that are connected to the NRI socket."""
    if host.nri_state != LISTENING:
        return
    clients = None
    with suppress(OSError):
        names = host.aliases(host.options.nri_socket)
        clients = clients_of(sockets_of_kernel(), names)
    if clients is None:
        yield note(
            "other-plugins",
            "The plugins that are connected to the NRI socket cannot be seen from "
            "here.",
            "Run doctor as root on the node itself, or read the runtime's log.",
        )
        return
    owners = owners_of(host.proc, clients)
    by_pid = {process.pid: process for process in host.processes}
    others, own = [], []
    for pid in sorted(set(owners.values())):
        process = by_pid.get(pid)
        if process is not None and daemon_command(process.arguments):
            own.append(pid)
        else:
            program = process.program if process is not None else "a process"
            others.append(f"{program} (process {pid})")
    unknown = len(clients - owners.keys())
    if unknown:
        others.append(f"{unknown} whose process cannot be seen")
    if not others:
        who = f"only nriplugin (process {own[0]})" if own else "nobody"
        yield ok("other-plugins", f"Connected to the NRI socket: {who}.")
        return
    yield note(
        "other-plugins",
        f"Other plugins are connected to the NRI socket: {', '.join(others)}.",
        "Nothing to do if they set no cgroup v2 files. Give them an index of up to 98. "
        "A conflict shows as `both tried to set CgroupsUnified` in the pod's events: "
        "docs/coexistence.md.",
    )


def _mutation_policy(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Look for OpenShift's policy about what NRI plugins may change."""
    text = host.files.read_or_none(MUTATION_POLICY)
    if text is None:
        return
    mode = re.search(r"^\s*(?:mode|enforcement)\s*:\s*[\"']?(\w+)", text, re.MULTILINE)
    shown = f" in mode {mode[1]}" if mode else ""
    if mode is not None and mode[1].lower() == "permissive":
        yield note(
            "mutation-policy",
            f"OpenShift's NRI mutation policy {MUTATION_POLICY} is there{shown}: it "
            "logs what it would reject.",
            "Allow the mutation `resources` for every namespace before it becomes "
            "strict.",
        )
        return
    yield warning(
        "mutation-policy",
        f"OpenShift's NRI mutation policy {MUTATION_POLICY} is there{shown}: it may "
        "reject containers to which nriplugin gives values.",
        "Allow the mutation `resources` in the namespaces of your pods, or exclude "
        "the other namespaces with a rule in nriplugin's configuration.",
    )
