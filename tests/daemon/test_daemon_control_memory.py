"""What the control API loads into the process."""

from __future__ import annotations

import subprocess
import sys

from support.gopeers import ENVIRON

PROGRAM = """
import sys
from nriplugin.daemon.control_service import _import_grpc
before = "ssl" in sys.modules
_import_grpc()
print(before, "grpc" in sys.modules, "asyncio" in sys.modules, "_ssl" in sys.modules)
import ssl
print(ssl.OPENSSL_VERSION[:7])
"""


def test_grpc_is_loaded_without_openssl() -> None:
    """It would be loaded for asyncio; a later import of `ssl` works all the same."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRON,
    )
    assert done.stdout == "False True True False\nOpenSSL\n"
