"""`nriplugin hook`: the options of the OCI hook, and `install` and `uninstall`.

When an OCI runtime starts the hook, cli/hook_run.py reads its few options without this
module. This parser is for the help text, for the two actions, and for command lines
that hook_run.py does not understand.
"""

from __future__ import annotations

import argparse
import os
import sys

from nriplugin.cli.detect import add_node_arguments
from nriplugin.cli.printing import print_line
from nriplugin.errors import ConfigError
from nriplugin.policy import FailurePolicy

DESCRIPTION = """\
Without an ACTION, nriplugin runs as an OCI hook for the stage createRuntime.
It reads the container's state (JSON) from standard input and config.json from
the bundle that the state names, decides as `nriplugin run` would, and writes
the values to the container's cgroup before the container's process starts. If
all goes well, nothing is printed.

A failure is one line on standard error. The exit code is 0 all the same, so
that the container starts; it is 1 if the failure policy is `fail`, and the
container does not start.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.set_defaults(action=_hook)
    parser.add_argument("--config", metavar="FILE", help="configuration file, YAML")
    parser.add_argument(
        "--failure-policy",
        choices=[policy.value for policy in FailurePolicy],
        help="replaces every failurePolicy in the configuration; also holds if the "
        "configuration cannot be read (default: ignore)",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="directory of the journal, which keeps original values for "
        "`nriplugin restore` (default: $NRIPLUGIN_STATE_DIR, or /var/lib/nriplugin)",
    )
    add_node_arguments(parser)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _add_install(
        actions.add_parser(
            "install",
            help="write the file that makes CRI-O and podman run the hook",
            description="Write a file to hooks.d that makes CRI-O and podman run "
            "`nriplugin hook` for every container. CRI-O reads it when it starts.",
            allow_abbrev=False,
        )
    )
    remove = actions.add_parser(
        "uninstall",
        help="remove that file",
        description="Remove the file that `nriplugin hook install` wrote.",
        allow_abbrev=False,
    )
    remove.set_defaults(action=_uninstall)
    _add_file(remove)


def main(args: argparse.Namespace) -> int:
    """Run as the hook, or install or remove its file."""
    return int(args.action(args))


def _add_install(parser: argparse.ArgumentParser) -> None:
    # The hook has the same options, and they may stand before `install` as well. With
    # a default here, argparse would overwrite what was given there.
    parser.set_defaults(action=_install)
    _add_file(parser)
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="configuration file for the hook, YAML; it is checked now",
    )
    parser.add_argument(
        "--failure-policy",
        choices=[policy.value for policy in FailurePolicy],
        default=argparse.SUPPRESS,
        help="passed to the hook",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="passed to the hook",
    )
    parser.add_argument(
        "--stage",
        default="createRuntime",
        help="when the hook runs: createRuntime (default), prestart or poststart",
    )
    parser.add_argument(
        "--annotation",
        metavar="KEY=REGEX",
        action="append",
        default=[],
        help="run the hook only for containers of pods with this annotation; given "
        "several times, all have to match (default: run for every container)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a file that nriplugin did not write",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the file, write nothing"
    )


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hooks-dir",
        metavar="DIR",
        default="/etc/containers/oci/hooks.d",
        help="one of the directories in the runtime's setting hooks_dir "
        "(default: /etc/containers/oci/hooks.d)",
    )
    parser.add_argument(
        "--name",
        metavar="FILE",
        default="90-nriplugin.json",
        help="name of the file; hooks run in the order of their files' names "
        "(default: 90-nriplugin.json)",
    )


def _hook(args: argparse.Namespace) -> int:
    from nriplugin.cli.hook_run import run
    from nriplugin.doors.hook.run import HookOptions

    return run(HookOptions(*(getattr(args, name) for name in HookOptions._fields)))


def _install(args: argparse.Namespace) -> int:
    from nriplugin.doors.hook.hooksd import hook_document, install, rendered

    arguments: list[str] = []
    if args.config is not None:
        from nriplugin.config import read_config

        read_config(args.config)
        arguments += ["--config", os.path.abspath(args.config)]
    if args.failure_policy is not None:
        arguments += ["--failure-policy", args.failure_policy]
    if args.state_dir is not None:
        arguments += ["--state-dir", os.path.abspath(args.state_dir)]
    document = hook_document(_executable(), arguments, args.stage, args.annotation)
    if args.dry_run:
        for line in rendered(document).splitlines():
            print_line(line)
        return 0
    path = install(document, args.hooks_dir, args.name, force=args.force)
    print_line(
        f"{path}: written; CRI-O reads it when it starts, if this is its hooks_dir"
    )
    return 0


def _uninstall(args: argparse.Namespace) -> int:
    from nriplugin.doors.hook.hooksd import hook_file, uninstall

    removed = uninstall(args.hooks_dir, args.name)
    path = hook_file(args.hooks_dir, args.name)
    print_line(f"{path}: {'removed' if removed else 'not there, nothing to remove'}")
    return 0


def _executable() -> str:
    """Return the absolute path of the `nriplugin` program that is running."""
    import shutil
    import sysconfig

    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(sysconfig.get_path("scripts"), "nriplugin")
    for path in (called, beside, shutil.which("nriplugin")):
        if path and os.path.basename(path) == "nriplugin" and os.path.isfile(path):
            return path
    raise ConfigError("nriplugin: no program of that name, expected it on PATH")
