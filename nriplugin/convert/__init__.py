"""From the v1-style numbers that Kubernetes sends to cgroup v2 files. Pure.

`convert` takes `Resources` and returns a `Conversion`: files in a fixed order, each
with the rule it follows, and what was dropped or clamped and why. `sources` reads
resources from NRI and CRI messages and from OCI JSON, `reverse` goes the other way.
"""

from __future__ import annotations

from nriplugin.convert.conversion import convert
from nriplugin.convert.curves import Curve
from nriplugin.convert.model import UNLIMITED, Resources
from nriplugin.convert.result import Conversion

__all__ = ["UNLIMITED", "Conversion", "Curve", "Resources", "convert"]
