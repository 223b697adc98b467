"""The options that `run` and `cri-proxy` both have, and the services they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR
from nriplugin.cli.parser import whole_number
from nriplugin.daemon.control_service import DEFAULT_CONTROL, serving_control
from nriplugin.daemon.event_log_lines import logging_decisions
from nriplugin.daemon.http_service import DEFAULT_HTTP, serving_http

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager
    from typing import Any

    from nriplugin.daemon.process import DaemonProcess


def add_daemon_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every daemon."""
    parser.add_argument(
        *("-v", "--verbose"),
        action="store_true",
        help="also log each decision: files, values, handlers, what was skipped",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how a line of the log looks (default: text)",
    )
    parser.add_argument(
        "--control",
        metavar="ADDRESS|off",
        default=None,
        help="socket of the control API, which status, why and events use "
        f"(default: {DEFAULT_CONTROL}; $NRIPLUGIN_CONTROL is for those commands "
        "alone); `off` also keeps gRPC out of the process",
    )
    parser.add_argument(
        "--control-group",
        metavar="GROUP",
        default=None,
        help="a group whose members may call what changes nothing on that socket, "
        "such as status (default: root alone)",
    )
    parser.add_argument(
        "--http",
        metavar="ADDRESS|off",
        default=None,
        help="where /metrics, /healthz, /readyz and /statusz are served "
        f"(default: {DEFAULT_HTTP}): HOST:PORT, a PORT of the loopback address, or "
        ":PORT for all addresses",
    )
    parser.add_argument(
        "--metrics-per-pod",
        metavar="N",
        type=whole_number(0),
        default=0,
        help="also serve throttling and OOM kills of single pods, of at most N of them",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="directory of the journal, of the records about containers and of the "
        f"lock against a second process (default: ${ENV_STATE_DIR}, or {STATE_DIR})",
    )
    parser.add_argument(
        "--shadow",
        action="store_true",
        help="decide, count and compare, but send and write nothing",
    )


def services_of(
    process: DaemonProcess, args: argparse.Namespace
) -> list[AbstractContextManager[Any]]:
    """Return the services that the options ask for, to be entered by `run_process`."""
    return [
        logging_decisions(process.lifecycle.events, on=args.verbose),
        serving_control(process, args.control, args.control_group),
        serving_http(process, args.http, args.metrics_per_pod),
    ]
