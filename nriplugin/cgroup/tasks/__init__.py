"""How many tasks of a cgroup run, sleep or wait.

`states` walks the threads; `taskstats` asks the kernel, on cgroup v1 only.
"""

from __future__ import annotations
