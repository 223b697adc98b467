"""`python -m nriplugin` is the same as the command `nriplugin`."""

from __future__ import annotations

import sys

from nriplugin.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
