"""The table of handlers: the one place that knows which there are.

The order is the order in which they decide. The first handler that sets a file wins,
and the conversion comes last, because it must not add a weight to a container that an
earlier handler has made idle. Whoever adds a handler writes one module in this package
and adds its declaration here, before the conversion's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.engine.handlers.cpu_burst import CPU_BURST
from nriplugin.engine.handlers.cpu_qos import CPU_QOS
from nriplugin.engine.handlers.memory_guard import MEMORY_GUARD
from nriplugin.engine.handlers.memory_qos import MEMORY_QOS
from nriplugin.engine.handlers.memory_qos_level import MEMORY_QOS_LEVEL
from nriplugin.engine.handlers.proactive_reclaim import PROACTIVE_RECLAIM
from nriplugin.engine.handlers.quota_burst import QUOTA_BURST
from nriplugin.engine.handlers.resources import CONVERSION
from nriplugin.engine.handlers.startup_boost import STARTUP_BOOST
from nriplugin.engine.handlers.unified_annotations import UNIFIED_ANNOTATIONS

if TYPE_CHECKING:
    from nriplugin.engine.handler import Handler

# Read it as `table.HANDLERS` when it is needed, and keep no copy: tests add handlers.
HANDLERS: tuple[Handler[Any], ...] = (
    UNIFIED_ANNOTATIONS,
    CPU_QOS,
    CPU_BURST,
    MEMORY_QOS,
    MEMORY_QOS_LEVEL,
    # The first policy that wants a file has it: a starting container has its boost.
    STARTUP_BOOST,
    QUOTA_BURST,
    MEMORY_GUARD,
    PROACTIVE_RECLAIM,
    CONVERSION,
)
