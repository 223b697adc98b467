"""What several tests and the benchmarks share."""

from __future__ import annotations
