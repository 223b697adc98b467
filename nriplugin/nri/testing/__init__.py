"""The runtime's side of NRI in Python, for demos and for tests of plugins."""

from __future__ import annotations
