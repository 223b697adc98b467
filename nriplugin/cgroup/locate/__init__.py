"""Where cgroups are: the version, the driver, and the paths of pods and containers.

`detect` looks at the node; `paths` and `node_paths` build paths, `identify` reads them,
and `walk` lists all cgroups of pods.
"""

from __future__ import annotations
