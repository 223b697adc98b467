"""`nriplugin hook`: the OCI hook, and its file in hooks.d.

As a hook it answers with its exit code, on which a container's start depends: whatever
goes wrong is one line on standard error and, unless it is to fail, 0.
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
Without an ACTION this is an OCI hook for the stage createRuntime. It reads the
container's state (JSON) from standard input and config.json from the bundle that the
state names, decides as `nriplugin run` would, and writes the files to the container's
cgroup, before its process starts. Nothing is printed if all went well.

exit code: 0, also when something went wrong, which is then one line on standard error;
1 if it went wrong and the failure policy is `fail`, which stops the container.
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
        help="in place of every failurePolicy in the configuration, and where there is "
        "no configuration, or a broken one (default: ignore)",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where the journal of original values is "
        "(default: $NRIPLUGIN_STATE_DIR, or /var/lib/nriplugin)",
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
    """Be a hook, or install or remove it."""
    return int(args.action(args))


def _add_install(parser: argparse.ArgumentParser) -> None:
    # What a hook takes, too, has no default here: given before `install` it counts.
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
        help="as of the hook itself",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="as of the hook itself",
    )
    parser.add_argument(
        "--stage",
        default="createRuntime",
        help="when it runs: createRuntime (default), prestart or poststart",
    )
    parser.add_argument(
        "--annotation",
        metavar="KEY=REGEX",
        action="append",
        default=[],
        help="only for pods with this annotation; may be given several times, and all "
        "have to match (default: every container)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a file that is not ours"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the file, write nothing"
    )


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hooks-dir",
        metavar="DIR",
        default="/etc/containers/oci/hooks.d",
        help="one of the runtime's hooks_dir (default: /etc/containers/oci/hooks.d)",
    )
    parser.add_argument(
        "--name",
        metavar="FILE",
        default="90-nriplugin.json",
        help="name of the file, which decides the order (default: 90-nriplugin.json)",
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
    """Return the program that is running, as a runtime can start it."""
    import shutil
    import sysconfig

    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(sysconfig.get_path("scripts"), "nriplugin")
    for path in (called, beside, shutil.which("nriplugin")):
        if path and os.path.basename(path) == "nriplugin" and os.path.isfile(path):
            return path
    raise ConfigError("nriplugin: no program of that name, expected it on PATH")
