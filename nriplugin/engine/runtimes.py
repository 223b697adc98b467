"""What OCI and CRI runtimes do with a value that they are sent, by name and version.

The tables hold what was measured and read in the runtimes' sources. A value that a
runtime cannot take fails the container, and a value that it drops without a word has to
be written by nriplugin itself.

Which OCI runtime starts a pod's containers is decided by one rule, in `_runtime_of`:
the pod's own runtime handler names it; a pod of the default handler has the node's
runtime, or crun if the node's is not known, because a default is runc or crun, and crun
accepts less. A runtime that is neither of the two, or of which no door knows the name,
is trusted with nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.engine.model import NodeFacts, Pod

SYSTEMD = "systemd"

# The runtime of a pod that names no handler. No handler can have this name.
DEFAULT_RUNTIME = "(default)"

# Pairs of OCI runtime and cgroup driver that take `unified` cpu.idle = 1 if shares are
# 0, which both runtimes read as "not given". runc writes a weight made of shares after
# systemd has made the unit idle, and the kernel refuses it. crun with systemd refuses
# idle beside shares whatever their number.
_IDLE_WITHOUT_SHARES = {
    ("runc", "cgroupfs"),
    ("runc", SYSTEMD),
    ("crun", "cgroupfs"),
}

_CRIO_APPLIES_UNIFIED = (1, 36)


def oci_runtime_of(handler: str) -> str:
    """Return the OCI runtime behind a pod's runtime handler, taken by its name."""
    return handler or DEFAULT_RUNTIME


def takes_idle(facts: NodeFacts, pod: Pod) -> bool:
    """Return whether cpu.idle can go through the door, with shares cleared."""
    return (_runtime_of(facts, pod), facts.driver) in _IDLE_WITHOUT_SHARES


def has_inner_cgroup(facts: NodeFacts, pod: Pod) -> bool:
    """Return whether `unified` goes into a cgroup below the container's scope."""
    return facts.driver == SYSTEMD and _runtime_of(facts, pod) == "crun"


def _runtime_of(facts: NodeFacts, pod: Pod) -> str | None:
    if pod.oci_runtime == DEFAULT_RUNTIME:
        return facts.oci_runtime or "crun"
    return pod.oci_runtime or facts.oci_runtime


def drops_unified_on_update(runtime: str, runtime_version: str) -> bool:
    """Return whether `unified` in the answer to an update is lost: CRI-O before 1.36.

    A version that cannot be read counts as an old one.
    """
    if runtime not in ("cri-o", "crio"):
        return False
    version = parse_version(runtime_version)
    return version is None or version < _CRIO_APPLIES_UNIFIED


@lru_cache(maxsize=8)
def parse_version(text: str) -> tuple[int, int] | None:
    """Return major and minor of a version or kernel release such as v1.36.0-rc1."""
    found = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None
