"""`did you mean ...?` for a misspelt word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggestion(word: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean ...?` for a word that resembles a known one, else nothing.

    Upper and lower case make no difference for that. `cutoff` is how near a word has to
    be: 1 is equal.
    """
    from difflib import get_close_matches  # late: only mistakes need it

    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(str(word).lower(), by_lower, n=1, cutoff=cutoff)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
