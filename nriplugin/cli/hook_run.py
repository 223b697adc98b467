"""`nriplugin hook` as an OCI runtime calls it: its options without argparse.

A runtime starts this command for every container, and building a parser takes longer
than reading five options. `parse_options` understands exactly what `nriplugin hook
install` writes and nothing else; for every other command line it returns None, and the
parser of cli/hook.py reads it, explains a mistake, or prints the help.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.doors.hook.run import HookOptions, run_hook
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

STDIN = 0

# Option -> field of HookOptions. All of them take one value.
_FIELDS = {f"--{name.replace('_', '-')}": name for name in HookOptions._fields}


def parse_options(argv: Sequence[str]) -> HookOptions | None:
    """Read `--option VALUE` and `--option=VALUE`; None if there is anything else."""
    found: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        # argparse checks every value of an option that is given twice.
        if name not in _FIELDS or _FIELDS[name] in found:
            return None
        if not equals:
            value = next(words, "-")
            if value.startswith("-"):  # another option, or no value at all
                return None
        found[_FIELDS[name]] = value
    if found.get("failure_policy", "ignore") not in set(FailurePolicy):
        return None
    return HookOptions(**found)


def run(options: HookOptions) -> int:
    """Be the hook; print at most one line and return the exit code."""
    code, line = run_hook(options, STDIN, os.environ)
    if line:
        from nriplugin.cli.printing import print_error

        print_error(f"hook: {line}")
    return code
