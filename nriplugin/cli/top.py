"""`nriplugin top`: what the pods of this node use, and what holds them back.

It reads cgroups and needs no daemon. With one, pods and containers have names, else
UIDs and IDs.
"""

from __future__ import annotations

from contextlib import ExitStack
from time import sleep, time
from typing import TYPE_CHECKING

from nriplugin.cgroup.tasks.states import GONE
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cli.container_names import ContainersOfDaemon
from nriplugin.cli.control_client import add_control_argument
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.labels import SHORT_ID, unseen_tasks
from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.pod_metrics import container_name, pod_metrics_list, pod_name
from nriplugin.cli.printing import (
    Page,
    add_output_argument,
    on_terminal,
    print_error,
    print_json,
    print_yaml,
    table_page,
)
from nriplugin.cli.times import parse_duration
from nriplugin.engine.verdicts import Verdict
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.node.pod_usage import RESOURCES, UsageSampler
from nriplugin.node.task_readers import open_states_reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from nriplugin.api import control_pb2 as control
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.engine.verdicts import Judgement
    from nriplugin.node.pod_usage import CgroupUsage, NodeUsage, PodUsage

INTERVAL = "1s"
LEAST_INTERVAL_S = 0.1
TITLES = ("pod", "cpu", "memory", "throttled", "oom kills")
VERDICT = "verdict"
STATES = ("run", "sleep", "stop", "wait", "io")
_MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Shows what each pod of this node uses: CPU within an interval, memory, how "
        "often its quota held it back, OOM kills, pressure, what its tasks do, and "
        "what holds them back."
    )
    add_output_argument(parser, "how the use is printed; json is PodMetrics")
    parser.add_argument(
        "--sort-by",
        choices=("cpu", "memory"),
        default="cpu",
        help="which pods come first (default: cpu)",
    )
    parser.add_argument(
        "--containers", action="store_true", help="list the containers of each pod, too"
    )
    parser.add_argument(
        "--interval",
        metavar="DURATION",
        default=INTERVAL,
        help=f"how long CPU use is measured, such as 500ms or 5s (default: {INTERVAL})",
    )
    parser.add_argument(
        "--watch", action="store_true", help="print again every interval until Ctrl-C"
    )
    add_control_argument(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Measure and print, once or again and again."""
    interval_s = parse_duration("--interval", args.interval)
    if interval_s < LEAST_INTERVAL_S:
        raise ConfigError(f"--interval: {args.interval!r}, expected at least 100ms")
    daemon = ContainersOfDaemon(args)
    node = node_of(args)
    with ExitStack() as opened:
        sampler = _sampler(node, opened)
        told = 0
        while True:
            sleep(interval_s)
            usage = sampler.next()
            ids = [c.container_id for pod in usage.pods for c in pod.containers]
            _print(usage, daemon.get(ids), args)
            if usage.unseen_tasks > told:
                print_error(unseen_tasks(usage.unseen_tasks))
                told = usage.unseen_tasks
            if not args.watch:
                return 0


def _sampler(node: DetectedNode, opened: ExitStack) -> UsageSampler:
    """Return a sampler that has taken its first sample."""
    files = opened.enter_context(node.open_files())
    states = open_states_reader(node, files, opened)
    kubepods = node.paths.kubepods()
    tree = Tree(files, node.version.number)
    sampler = UsageSampler(tree, kubepods, states, host_root=node.host_root)
    try:
        sampler.begin()
    except CgroupError as exc:
        if exc.errno not in GONE:
            raise
        raise ConfigError(
            f"pods: {kubepods!r}, expected a cgroup below {node.cgroup_root}"
        ) from exc
    return sampler


def _print(
    usage: NodeUsage,
    names: Mapping[str, control.ContainerWhy],
    args: argparse.Namespace,
) -> None:
    pods = _sorted(usage, names, args.sort_by)
    if args.output == "json":
        # One line for each answer of --watch, so that a program can tell them apart.
        listed = pod_metrics_list(pods, names, time())
        print_json(listed, indent=None if args.watch else 2, flush=True)
        return
    if args.output == "yaml":
        print_yaml(pod_metrics_list(pods, names, time()), flush=True)
        return
    page = table_page()
    _draw(page, pods, names, containers=args.containers)
    if not args.watch:
        page.show()
    elif on_terminal():
        page.redraw()
    else:
        page.text("")
        page.show(flush=True)


def _sorted(
    usage: NodeUsage, names: Mapping[str, control.ContainerWhy], sort_by: str
) -> list[PodUsage]:
    """Return the pods, those that use most first, and equal ones by their names."""

    def order(pod: PodUsage) -> tuple[int, tuple[str, str]]:
        use = pod.use
        amount = use.cpu_nanocores if sort_by == "cpu" else use.working_set_bytes
        return -(amount or 0), pod_name(pod, names)

    return sorted(usage.pods, key=order)


def _draw(
    page: Page,
    pods: list[PodUsage],
    names: Mapping[str, control.ContainerWhy],
    *,
    containers: bool,
) -> None:
    if not pods:
        page.text("no pods run on this node")
        return
    with_pressure = any(pod.use.pressure for pod in pods)
    head = [*TITLES, *(f"{name} %" for name in RESOURCES if with_pressure), *STATES]
    head.append(VERDICT)
    rows = [titles(*head)]
    for pod in pods:
        name = "/".join(part for part in pod_name(pod, names) if part)
        rows.append(_row(name, pod.use, with_pressure))
        for one in pod.containers if containers else ():
            name = container_name(one, names)
            shown = name[:SHORT_ID] if name == one.container_id else name
            rows.append(_row(f"  {shown}", one.use, with_pressure))
    page.table(rows, numbers=True)


def _row(name: str, use: CgroupUsage, with_pressure: bool) -> tuple[str, ...]:
    cells = [
        name,
        "-" if use.cpu_nanocores is None else f"{use.cpu_nanocores / 1e6:.0f}m",
        "-" if use.working_set_bytes is None else _mib(use.working_set_bytes),
        _throttled(use),
        Toned("-" if use.oom_kills is None else str(use.oom_kills), _tone(use)),
    ]
    if with_pressure:
        stalls = [use.pressure.get(name) for name in RESOURCES]
        cells += ["-" if one is None else f"{one.some.avg10:.2f}" for one in stalls]
    tasks = use.tasks
    # The order of STATES, which is also that of the fields; `unseen` is not shown.
    states = ["-"] * len(STATES) if tasks is None else map(str, tasks[: len(STATES)])
    return (*cells, *states, _verdict(use.judgement))


def _verdict(judgement: Judgement) -> str:
    """Return the verdicts that hold; `-` is for "not all could be told"."""
    found = [one.verdict.value for one in judgement.findings]
    if found:
        tone = None if found == [Verdict.IDLE] else Tone.WARNING
        return Toned(", ".join(found), tone)
    return "-" if judgement.untold else "none"


def _tone(use: CgroupUsage) -> Tone | None:
    return Tone.BAD if use.oom_kills else None


def _throttled(use: CgroupUsage) -> str:
    """Return the share of the quota's periods in the window that were cut short."""
    if use.periods is None or use.throttled is None:
        return "-"
    share = 100 * use.throttled / use.periods if use.periods else 0
    return Toned(f"{share:.0f} %", Tone.WARNING if use.throttled else None)


def _mib(amount: int) -> str:
    return f"{amount / _MIB:.1f}Mi"
