"""NRI in the configuration of the container runtime: on, off, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.answers import LISTENING
from nriplugin.daemon.doctor.finding import note, ok, problem, warning
from nriplugin.daemon.doctor.runtime_files import (
    CONTAINERD,
    CRIO_DIRECTORY,
    NRI_PLUGIN,
)
from nriplugin.daemon.doctor.ways import launched_files, other_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost
    from nriplugin.daemon.doctor.runtime_files import RuntimeSettings

# The first releases in which NRI is there, and in which it is on by default.
CONTAINERD_NRI, CONTAINERD_ON = (1, 7), (2, 0)
CRIO_NRI, CRIO_ON = (1, 26), (1, 30)


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say for each runtime of the node whether its NRI is on."""
    if not host.runtimes:
        yield note(
            "runtime",
            "No containerd and no CRI-O is to be seen below "
            f"{host.node.host_root}: no configuration, no socket, no process.",
            "Run doctor on a node. A pod needs the node's /etc and /run below the host "
            "root.",
        )
    for settings in host.runtimes:
        yield _runtime(host, settings)
        for error in settings.errors:
            yield warning(
                "runtime-config",
                f"A file of {settings.name}'s configuration cannot be used: {error}.",
                "Correct the file: the runtime does not start with a mistake in it.",
            )
        yield _nri(host, settings)
        yield from _connections(host, settings)
        yield from _socket_path(host, settings)


def _runtime(host: ExaminedHost, settings: RuntimeSettings) -> CheckFinding:
    known = host.runtime_version(settings.name)
    files = ", ".join(settings.files) or f"not to be seen ({settings.main_file})"
    if known is None:
        program = {CONTAINERD: "containerd"}.get(settings.name, "crio")
        return note(
            "runtime",
            f"The node has {settings.name}, whose version is not known; its "
            f"configuration is {files}.",
            f"Run `{program} --version` on the node, or install grpcio, with which "
            "doctor asks the runtime itself.",
        )
    text = f"{settings.name} {known.text}, by {known.source}; configuration: {files}."
    oldest = CONTAINERD_NRI if settings.name == CONTAINERD else CRIO_NRI
    if known.version is not None and known.version < oldest and not other_way(host):
        return problem(
            "runtime",
            f"{text} It has no NRI in the form that nriplugin speaks.",
            f"Upgrade to {settings.name} {'.'.join(map(str, oldest))} or newer, or use "
            "the CRI proxy: docs/cri-proxy.md.",
        )
    return ok("runtime", text)


def nri_by_configuration(
    host: ExaminedHost, settings: RuntimeSettings
) -> tuple[bool | None, str]:
    """Return whether NRI is on, and why; None if that depends on the version."""
    if settings.nri is not None:
        return settings.nri, f"in {settings.nri_file}"
    known = host.runtime_version(settings.name)
    version, text = (None, "") if known is None else (known.version, known.text)
    if settings.name == CONTAINERD:
        if version is not None:
            return version >= CONTAINERD_ON, f"by default of containerd {text}"
        if (settings.version or 0) >= 3:
            return True, "by default: only containerd 2 reads a configuration version 3"
        return None, "containerd 1.7 has it off by default, containerd 2 on"
    if version is not None and version < CRIO_ON:
        return False, f"by default of CRI-O {text}"
    return True, "by default of CRI-O from 1.30 on"


def _nri(host: ExaminedHost, settings: RuntimeSettings) -> CheckFinding:
    on, why = nri_by_configuration(host, settings)
    live = host.nri_state == LISTENING
    name = settings.name
    if live and not settings.files:
        # In a pod, the node's configuration may be there without being seen.
        return ok("nri-enabled", f"NRI is on in {name}: its socket is there.")
    if on or (on is None and live):
        return ok("nri-enabled", f"NRI is on in {name}, {why}.")
    if on is None:
        return warning(
            "nri-enabled",
            f"It is not known whether NRI is on in {name}: {why}.",
            f"Set it: {_how_to_turn_on(settings)}",
        )
    text = f"NRI is off in {name}, {why}."
    advice = f"Turn it on: {_how_to_turn_on(settings)}"
    if live:
        return warning(
            "nri-enabled",
            f"{text} The NRI socket is there all the same, so the running {name} has "
            "NRI on until it is restarted.",
            advice,
        )
    other = other_way(host)
    if other:
        return note(
            "nri-enabled", text, f"Nothing to do, because {other} needs no NRI."
        )
    return problem("nri-enabled", text, advice)


def _how_to_turn_on(settings: RuntimeSettings) -> str:
    if settings.name != CONTAINERD:
        file = f"{CRIO_DIRECTORY}/10-nri.conf"
        if settings.nri_file.startswith(f"{CRIO_DIRECTORY}/"):
            file = settings.nri_file  # a file of another name might be read before it
        return (
            f"write [crio.nri] and enable_nri = true to {file}, then run "
            "`systemctl restart crio`."
        )
    file = settings.nri_file or settings.main_file
    version = "version = 2 at the top, and " if settings.version == 1 else ""
    return (
        f"write {version}[plugins.'{NRI_PLUGIN}'] and disable = false to {file}, and "
        "take it out of disabled_plugins if it is there; then run `systemctl restart "
        "containerd`. Running containers are not affected."
    )


def _connections(
    host: ExaminedHost, settings: RuntimeSettings
) -> Iterator[CheckFinding]:
    if settings.connections:
        return
    key = "disable_connections"
    if settings.name != CONTAINERD:
        key = "nri_disable_connections"
    text = f"{settings.name} lets no plugin connect by itself: {key} = true."
    if launched_files(host) or other_way(host):
        yield ok("nri-connections", f"{text} nriplugin does not need to.")
        return
    yield problem(
        "nri-connections",
        text,
        f"Set {key} = false in {settings.main_file} and restart the runtime, or let "
        "the runtime launch nriplugin from its plugin directory.",
    )


def _socket_path(
    host: ExaminedHost, settings: RuntimeSettings
) -> Iterator[CheckFinding]:
    wanted = settings.socket_path
    if wanted is None or wanted in host.aliases(host.options.nri_socket):
        return
    if other_way(host):
        return
    yield warning(
        "nri-socket-path",
        f"{settings.name} makes its NRI socket at {wanted}, and doctor was told "
        f"{host.options.nri_socket}.",
        f"Start nriplugin and doctor with --nri-socket {wanted}.",
    )
