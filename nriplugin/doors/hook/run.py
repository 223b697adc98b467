"""One run of the hook: from its options to an exit code and at most one line of text.

The exit code decides whether the container starts. It is 0 unless a failure policy says
`fail`: the option --failure-policy where it is given, else the configuration, else
`ignore`. Whatever goes wrong, defects of nriplugin included, becomes one line; no
exception leaves `run_hook`, and it ends in time (see deadline.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.doors.hook import deadline
from nriplugin.errors import NRIPluginError, RequestFails
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Mapping


class HookOptions(NamedTuple):
    """The options of `nriplugin hook`; None is an option that was not given."""

    config: str | None = None
    failure_policy: str | None = None
    state_dir: str | None = None
    host_root: str | None = None
    cgroup_root: str | None = None


def run_hook(
    options: HookOptions, fd: int, environ: Mapping[str, str]
) -> tuple[int, str]:
    """Be the hook for the container whose state is read from a file descriptor.

    Returns:
        The exit code, and the line to print, which is empty if all went well.
    """
    given = options.failure_policy
    policy = FailurePolicy(given or FailurePolicy.IGNORE)
    try:
        with deadline.limit(deadline.SECONDS):
            # These imports are most of the work, so they happen inside the deadline,
            # and half an upgrade (a module that is missing) is caught below.
            from nriplugin.engine.settings import DEFAULT_CONFIG

            config, checkpoint = DEFAULT_CONFIG, None
            if options.config is not None:
                from nriplugin.config import read_config

                read = read_config(options.config)
                config, checkpoint = read.engine, read.checkpoint_path
                policy = FailurePolicy(given or read.failure_policy)
            if given is not None:
                config = config.with_failure_policy(fail=policy is FailurePolicy.FAIL)
            from nriplugin.doors.hook.handle import handle
            from nriplugin.doors.hook.host import find_host

            host = find_host(environ, options.host_root, options.cgroup_root)
            result = handle(
                *(fd, config, host),
                state_dir=options.state_dir,
                checkpoint=checkpoint,
            )
    except RequestFails as exc:
        return 1, _one_line(str(exc))
    except (NRIPluginError, deadline.DeadlinePassed) as exc:
        return int(policy is FailurePolicy.FAIL), _one_line(str(exc))
    except Exception as exc:  # noqa: BLE001 - a defect must not stop containers
        return int(policy is FailurePolicy.FAIL), _one_line(repr(exc))
    # A failure of a handler that has the policy `fail` was raised above. What is left
    # here failed under `ignore`, and only the option overrides that.
    failed = bool(result.failures) and given == FailurePolicy.FAIL
    return int(failed), _one_line("; ".join([*result.failures, *result.remarks]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
