"""Python, protobuf and optional packages of this installation."""

from __future__ import annotations

import importlib.util
import os
import platform
import sysconfig
from typing import TYPE_CHECKING

from nriplugin import __version__
from nriplugin.daemon.doctor.finding import note, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

# Module -> what it is for, and the name to install.
OPTIONAL_PACKAGES = {
    "grpc": ("the control API, cri-proxy and status", "grpcio"),
    "prometheus_client": ("/metrics", "prometheus-client"),
}


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say whether this installation is complete and fast."""
    del host
    yield _python()
    yield _protobuf()
    yield from _packages()
    yield _user(os.geteuid())


def _python() -> CheckFinding:
    text = f"nriplugin {__version__} on Python {platform.python_version()}"
    if "musl" in (sysconfig.get_config_var("SOABI") or ""):
        return warning(
            "python",
            f"{text} with musl: protobuf has no fast parser there.",
            "Use an image with glibc, such as python:3.13-slim.",
        )
    return ok("python", f"{text}.")


def _protobuf() -> CheckFinding:
    import google.protobuf
    from google.protobuf.internal import api_implementation

    kind = api_implementation.Type()
    text = f"protobuf {google.protobuf.__version__} uses its {kind} implementation"
    if kind == "upb":
        return ok("protobuf", f"{text}.")
    return warning(
        "protobuf",
        f"{text}, which is many times slower than upb: requests may be late.",
        "Use an image with glibc and install protobuf from a wheel; unset "
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION.",
    )


def _packages() -> Iterator[CheckFinding]:
    for module, (purpose, name) in OPTIONAL_PACKAGES.items():
        if importlib.util.find_spec(module) is not None:
            yield ok("packages", f"The optional package {name} is installed.")
        else:
            yield note(
                "packages",
                f"The optional package {name} is not installed: no {purpose}.",
                f"pip install {name}, if that is wanted.",
            )


def _user(uid: int) -> CheckFinding:
    if uid == 0:
        return ok("user", "doctor runs as root, as nriplugin has to.")
    return warning(
        "user",
        f"doctor runs as user {uid}: it cannot look at everything, and nriplugin "
        "itself has to run as root to use the NRI socket.",
        "Run it as root: sudo nriplugin doctor.",
    )
