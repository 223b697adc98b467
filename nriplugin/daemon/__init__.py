"""The long-running process of `nriplugin run` and `nriplugin cri-proxy`.

The daemon makes no decisions. It puts a door and the life-cycle together, runs their
background thread, watches the configuration file, and stops everything in order.
"""

from __future__ import annotations
