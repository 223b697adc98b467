"""A handler in one module, as a new one would be: the number of processes.

The product knows nothing of it. `test_engine_new_handler.py` adds it to the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Why
from nriplugin.engine.handler import Handler, Option

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

NAME = "pidsLimit"
KEY = "pids-limit"
FOREIGN_KEY = "example.org/pids"

RULE = Rule(("pids limit",), "as given")


class PidsLimitSettings(NamedTuple):
    """How many processes a container may have."""

    enabled: bool = False
    fail: bool = False
    most: int | None = None


def decide_pids_limit(context: HandlerContext, settings: PidsLimitSettings) -> None:
    """Send pids.max."""
    ours = context.annotation(KEY)
    foreign = context.foreign_annotation(FOREIGN_KEY, NAME)
    if ours is not None:
        value, source = ours.value, f"annotation {ours.key}"
    elif foreign is not None:
        value, source = foreign, f"annotation {FOREIGN_KEY}"
    elif settings.most is not None:
        value, source = str(settings.most), context.settings.origin("pidsLimit.most")
    else:
        return
    context.send("pids.max", value, Why(NAME, RULE, source))


PIDS_LIMIT = Handler(
    NAME,
    PidsLimitSettings,
    decide_pids_limit,
    options=(Option("most", int, least=1, most=1000, nullable=True),),
    annotations=(KEY,),
    foreign_annotations=(FOREIGN_KEY,),
)
