"""Where cgroups are: the version, the driver, and the paths of pods."""

from __future__ import annotations
