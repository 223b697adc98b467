"""What `nriplugin doctor` looks at: this node, with or without a running daemon.

Each module has the checks of one family as a function `check(host)`, which yields
findings. `examine.py` runs all of them. Nothing here writes to the node.
"""

from __future__ import annotations
