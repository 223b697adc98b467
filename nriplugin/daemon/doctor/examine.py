"""Runs all checks. A check that fails becomes a finding, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.daemon.doctor import (
    cgroups,
    configuration,
    conflicts,
    kernel,
    kubelet,
    python_environment,
    runtime_config,
    sockets,
    state,
)
from nriplugin.daemon.doctor.finding import warning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost


class CheckFamily(NamedTuple):
    """Checks of one family, under the title that people read."""

    title: str
    check: Callable[[ExaminedHost], Iterator[CheckFinding]]


FAMILIES = (
    CheckFamily("Sockets", sockets.check),
    CheckFamily("Runtime", runtime_config.check),
    CheckFamily("Cgroups", cgroups.check),
    CheckFamily("Kernel", kernel.check),
    CheckFamily("Kubelet", kubelet.check),
    CheckFamily("Conflicts", conflicts.check),
    CheckFamily("Configuration", configuration.check),
    CheckFamily("State", state.check),
    CheckFamily("Installation", python_environment.check),
)


def examine(
    host: ExaminedHost, families: tuple[CheckFamily, ...] = FAMILIES
) -> list[tuple[str, list[CheckFinding]]]:
    """Return the findings by the title of their family."""
    return [(family.title, list(_guarded(host, family))) for family in families]


def _guarded(host: ExaminedHost, family: CheckFamily) -> Iterator[CheckFinding]:
    try:
        yield from family.check(host)
    except Exception as exc:  # noqa: BLE001 - one check must not end the others
        yield warning(
            "check-failed",
            f"The checks of {family.title.lower()} failed: {type(exc).__name__}: {exc}",
            "Please report this as a defect of nriplugin, with the line above.",
        )
