"""The `nriplugin` command: finds the subcommand and turns errors into exit codes.

0: success. 1: a failure of nriplugin or of the machine. 2: a mistake in the command
line, in a configuration file or in other input. 130: Ctrl-C. 141: the reader of the
output closed it early, as in `nriplugin cgroup tree | head -1`.

Each command is a module of its own, which is imported only if that command is asked
for. `nriplugin hook` has a way of its own through this module, because an OCI runtime
starts it for every container: it must be quick, and it must not stop a container.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from nriplugin.cli import output
from nriplugin.errors import ConfigError, ConversionError, NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command -> one line of help. The module of the same name in this package, with `_` for
# `-`, has `add_arguments(parser)` and `main(args) -> int`.
COMMANDS = {
    "run": "register with the node's container runtime and serve until stopped",
    "cri-proxy": "serve CRI between kubelet and a runtime that has no NRI",
    "demo": "show the plugin at work on an embedded runtime, without root",
    "convert": "turn OCI resources into cgroup v2 files, or back",
    "explain": "show which cgroup v2 files the pods in a manifest would get, and why",
    "config": "check a configuration file",
    "status": "show the state of the running daemon",
    "why": "show why the files of a container hold what they hold",
    "events": "stream the decisions and other events of the running daemon",
    "reload": "have the running daemon read its configuration again",
    "withdraw": "end all decisions of the running daemon and take back its writes",
    "restore": "write back what every cgroup file held before nriplugin changed it",
    "hook": "run as an OCI hook, for runtimes without NRI, or install the hook",
    "doctor": "check this node and say what is in nriplugin's way",
    "detect": "show this node's cgroup version and driver, and how they were found",
    "cgroup": "show or change values in the cgroups of the node's pods",
    "load": "show what the tasks of the node's pods are doing",
    "top": "show what the node's pods use, and what holds them back",
    "capacity": "show who may use how much of a node, and check its cgroups",
    "completion": "print a script that completes commands in bash, zsh or fish",
    "version": "print the version",
}


# With one of these words a person calls `nriplugin hook`, else a runtime does.
_BY_HAND = frozenset({"install", "uninstall", "-h", "--help"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    whole_process = argv is None
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["hook"] and _BY_HAND.isdisjoint(argv):
        return _run_hook(argv, whole_process)
    try:
        return output.finish(_run(argv))
    except SystemExit as exc:  # from the parser, after the help text or a mistake
        raise SystemExit(output.finish(int(exc.code or 0))) from None


def _run_hook(argv: list[str], whole_process: bool) -> int:
    """Run the hook for a runtime, which starts the container if the exit code is 0.

    This process lives for one container. Two things that would take a sixth of its time
    are left out: the garbage collector, and the teardown of the interpreter at the end.
    """
    if whole_process:
        gc.disable()
    code = _hook_code(argv)
    output.finish(code)
    if whole_process:
        os._exit(code)
    return code


def _hook_code(argv: list[str]) -> int:
    try:
        from nriplugin.cli.hook_run import parse_options, run

        options = parse_options(argv[1:])
        return _run(argv) if options is None else run(options)
    except SystemExit:
        # The file in hooks.d was written by another version, with other options. The
        # parser has said so; only a person at a terminal gets its exit code.
        if sys.stdin is not None and sys.stdin.isatty():
            raise
    except KeyboardInterrupt:
        return 130
    except Exception as exc:  # noqa: BLE001 - half an upgrade must not stop containers
        output.say(f"hook: {exc!r}")
    return int(not {"fail", "--failure-policy=fail"}.isdisjoint(argv))


def _run(argv: list[str]) -> int:
    # Late: the hook does without these, and half an upgrade must not stop containers.
    from nriplugin.cli.parser import parser_of
    from nriplugin.cli.printing import print_error

    # A parser costs a millisecond, so the others are made only to be listed by --help.
    called = [command for command in argv[:1] if command in COMMANDS]
    listed = {name: COMMANDS[name] for name in called} or COMMANDS
    parser, _ = parser_of(listed, called)
    try:
        args = parser.parse_args(argv)
    except OSError as exc:  # Python 3.11, if standard output or error is closed
        code = output.READER_GONE if output.is_reader_gone() else 2
        raise SystemExit(code) from exc
    try:
        return int(args.main(args))
    except (ConfigError, ConversionError) as exc:
        for line in exc.lines if isinstance(exc, ConfigError) else (str(exc),):
            print_error(line)
        return 2
    except (NRIPluginError, OSError) as exc:
        if isinstance(exc, BrokenPipeError) and output.is_reader_gone():
            return output.READER_GONE
        print_error(str(exc))
        return 1
    except KeyboardInterrupt:
        return 130
