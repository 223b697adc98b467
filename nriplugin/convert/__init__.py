"""From the v1-style numbers that Kubernetes sends to cgroup v2 files. Pure.

`convert` takes `Resources` and returns a `Conversion`: files in a fixed order, each
with the rule that it follows, and the fields that were dropped or clamped with the
reason. `readers` reads resources from NRI and CRI messages and from OCI JSON, `reverse`
goes the other way, and `validate` is the only place that knows what the kernel accepts.

The names below are imported at their first use: `nriplugin.cgroup` needs `validate` and
`cpu_list` alone, and each run of the OCI hook pays for every module that it imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.convert.conversion import convert
    from nriplugin.convert.curves import Curve
    from nriplugin.convert.model import UNLIMITED, Resources
    from nriplugin.convert.result import Conversion

__all__ = ["UNLIMITED", "Conversion", "Curve", "Resources", "convert"]

_HOMES = {
    "UNLIMITED": "model",
    "Conversion": "result",
    "Curve": "curves",
    "Resources": "model",
    "convert": "conversion",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
