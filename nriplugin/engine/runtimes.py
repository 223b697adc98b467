"""What runtimes do with what they are told, by name and version.

Measured and read, not hoped: a key that a runtime cannot take fails the container, and
one that it drops without a word has to be written by somebody else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.engine.model import NodeFacts, Pod

SYSTEMD = "systemd"

# (OCI runtime, cgroup driver) that take `unified` cpu.idle = 1 if shares are 0, which
# both read as "not given". runc writes a weight made of shares after systemd has made
# the unit idle, and the kernel refuses it. crun with systemd refuses idle beside shares
# whatever their number.
_IDLE_WITHOUT_SHARES = {
    ("runc", "cgroupfs"),
    ("runc", SYSTEMD),
    ("crun", "cgroupfs"),
}

_CRIO_APPLIES_UNIFIED = (1, 36)


def takes_idle(facts: NodeFacts, pod: Pod) -> bool:
    """Whether cpu.idle can go through the door, with shares cleared."""
    runtime = pod.oci_runtime or facts.oci_runtime
    return (runtime, facts.driver) in _IDLE_WITHOUT_SHARES


def has_inner_cgroup(facts: NodeFacts, pod: Pod) -> bool:
    """Whether `unified` goes into a cgroup of its own, below the container's scope."""
    runtime = pod.oci_runtime or facts.oci_runtime
    return facts.driver == SYSTEMD and runtime == "crun"


def oci_runtime_of(handler: str) -> str | None:
    """Return the OCI runtime behind a pod's runtime handler, by its usual name.

    Without a handler it is the node's default: runc or crun, and crun takes less.
    """
    if not handler:
        return "crun"
    return handler if handler in ("runc", "crun") else None


def drops_unified_on_update(runtime: str, runtime_version: str) -> bool:
    """Whether `unified` in the answer to an update is lost: CRI-O before 1.36."""
    if runtime not in ("cri-o", "crio"):
        return False
    version = parse_version(runtime_version)
    return version is None or version < _CRIO_APPLIES_UNIFIED


@lru_cache(maxsize=8)
def parse_version(text: str) -> tuple[int, int] | None:
    """Return major and minor of a version or kernel release such as v1.36.0-rc1."""
    found = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None
