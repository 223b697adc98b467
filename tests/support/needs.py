"""Skips or fails a test that needs something this machine does not have."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def need(what: str, why_not: str) -> NoReturn:
    """Skip the test, or fail it where NRIPLUGIN_REQUIRE says that this must be there.

    The variable holds `all`, or a comma-separated list such as `go`.
    """
    required = os.environ.get("NRIPLUGIN_REQUIRE", "").split(",")
    missing = f"needs {what}: {why_not}"
    if "all" in required or what in required:
        pytest.fail(f"{missing} (required by NRIPLUGIN_REQUIRE)", pytrace=False)
    pytest.skip(missing)
