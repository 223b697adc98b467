"""nriplugin's own configuration, and the curve that follows from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.finding import note, ok, problem
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.config import Config
    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say whether the configuration is valid, and which curve is in force."""
    yield _configuration(host)
    yield _curve(host)


def _configuration(host: ExaminedHost) -> CheckFinding:
    path, config = host.config_path, host.config
    status = host.answers.status
    if status is not None and status.configuration.error:
        return problem(
            "configuration",
            f"The daemon could not read its new configuration and keeps the old one: "
            f"{status.configuration.error}.",
            f"Correct it; `nriplugin config check {status.configuration.path}` checks "
            "the file.",
        )
    if path is None:
        return ok("configuration", "No configuration file is in use: the defaults.")
    if not isinstance(config, ConfigError):
        return ok("configuration", f"The configuration {path} is valid.")
    if host.options.config is None and not os.path.exists(path):
        return note(
            "configuration",
            f"The daemon reads {path}, which this process does not see.",
            "Run doctor in the daemon's pod, or give --config.",
        )
    return problem(
        "configuration",
        f"The configuration cannot be used: {config}.",
        f"Correct it; `nriplugin config check {path}` checks the file.",
    )


def _curve(host: ExaminedHost) -> CheckFinding:
    status = host.answers.status
    if status is not None and status.node.curve:
        return ok(
            "curve",
            f"The curve is {status.node.curve}: {status.node.curve_evidence}.",
        )
    config: Config | ConfigError | None = host.config
    configured = None
    if config is not None and not isinstance(config, ConfigError):
        configured = config.engine.curve
    if configured is not None:
        return ok("curve", f"The curve is {configured}, as {host.config_path} says.")
    return ok(
        "curve",
        "The curve is auto: it is recognised from the containers that the runtime "
        "made by itself when nriplugin connects, and is quadratic if there are none.",
    )
