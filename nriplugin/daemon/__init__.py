"""The long-running process: assembled from the rooms below, watched and steered.

The daemon decides nothing. It puts a door and the life-cycle together, gives them a
background thread, watches the configuration file, and ends everything in order.
"""

from __future__ import annotations
