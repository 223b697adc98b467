"""Opens the journal for a daemon, which goes on if an earlier journal is damaged."""

from __future__ import annotations

import logging
from contextlib import suppress

from nriplugin.cgroup.journal.journal import Journal

_log = logging.getLogger(__name__)


def open_journal(directory: str) -> Journal:
    """Open the journal of a directory; one that is damaged is set aside.

    Raises:
        JournalError: the journal cannot be opened.
    """
    # Late, as in `Journal` itself: SQLite is large.
    from nriplugin.cgroup.journal.storage import set_aside_if_damaged

    with suppress(OSError):  # opening the journal will say what is wrong
        if aside := set_aside_if_damaged(directory):
            _log.warning(
                "the journal is damaged: it is kept as %s, and `restore` cannot write "
                "back what it held; a new journal begins",
                aside,
            )
    return Journal(directory)
