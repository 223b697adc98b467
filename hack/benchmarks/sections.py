"""What is measured: the sections of the page, in its order, and their benches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What is drawn of a table.

    The names of `columns` are those of the lines or bars. Lines need rows that are
    numbers; `x_title` names them.
    """

    file: str
    unit: str
    columns: dict[str, str]
    x_title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a bench.

    `part` is its key in the bench's JSON; `columns` are titles and the bench's keys,
    where a bench that gives a number instead of a row has the key `""`. With `rows`
    only these are shown, under the titles that they have there.
    """

    title: str
    part: str
    first: str
    columns: dict[str, str]
    rows: dict[str, str] | None = None
    plot: Plot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A bench, how it is called, and how its figures are shown.

    `minutes` says how long it takes on two cores, and with `quick` options.
    """

    name: str
    title: str
    text: str
    bench: str
    options: tuple[str, ...] = ()
    quick: tuple[str, ...]
    minutes: tuple[float, float]
    tables: tuple[Table, ...]


_PLUGINS = {
    "nriplugin": "nriplugin",
    "all handlers": "every handler on",
    "go": "Go stub",
    "floor": "floor",
}
# All rows of the NRI bench.
_SCENARIOS = {
    "nriplugin": "nriplugin",
    "all differ": "nriplugin, all differ",
    "all handlers": "every handler on",
    "annotated": "annotated",
    "annotated, all differ": "annotated, all differ",
    "and writes": "and writes",
    "go": "Go stub",
    "floor": "floor",
}
_DAEMONS = {
    **{name: name for name in ("core", "metrics", "everything", "handlers")},
    "policies": "policies",
    "go": "Go stub",
}
_PERCENTILES = {"p50, µs": "p50_us", "p90, µs": "p90_us", "p99, µs": "p99_us"}
_BOTH = {"nriplugin": "nriplugin", "go": "Go stub"}

_NRI = Section(
    name="nri",
    title="Requests through NRI",
    text="""\
Plugins take turns on one runtime, which is the released Go library that containerd
and CRI-O link. *Go stub* is a plugin on the same library that does the conversions
alone. *Floor* is a Python plugin that parses nothing and answers a constant: what
is left is the runtime, the kernel, and waking a process. *All differ* means that no
two containers are alike, so that every decision is made anew; *and writes* that
files of the pod's cgroup are written before the answer. Shares are medians of the
shares within a turn.""",
    bench="nri",
    quick=("--turns", "2", "--requests", "200"),
    minutes=(12, 3),
    tables=(
        Table(
            title="Latency of CreateContainer, next to the Go reference",
            part="request",
            first="plugin",
            columns=_PERCENTILES,
            rows=_SCENARIOS,
            plot=Plot(
                file="latency",
                unit="µs",
                columns={"p50": "p50_us", "p90": "p90_us"},
            ),
        ),
        Table(
            title="Shares of the Go reference and of the floor",
            part="share",
            first="plugin",
            columns={
                "p50 ÷ Go's": "p50_of_go",
                "p99 ÷ Go's": "p99_of_go",
                "p50 ÷ the floor's": "p50_of_floor",
            },
            rows=_SCENARIOS,
        ),
        Table(
            title="Latency as containers grow",
            part="present",
            first="containers on the node",
            columns={
                "nriplugin p50, µs": "nriplugin_p50_us",
                "nriplugin p99, µs": "nriplugin_p99_us",
                "Go stub p50, µs": "go_p50_us",
                "Go stub p99, µs": "go_p99_us",
                "nriplugin, MB": "nriplugin_rss_after_mb",
                "Go stub, MB": "go_rss_after_mb",
            },
            plot=Plot(
                file="containers",
                unit="µs",
                columns={
                    "nriplugin p50": "nriplugin_p50_us",
                    "Go stub p50": "go_p50_us",
                },
                x_title="containers on the node",
            ),
        ),
        Table(
            title="Synchronize",
            part="synchronize",
            first="containers",
            columns={
                "nriplugin, ms": "nriplugin_ms",
                "Go stub, ms": "go_ms",
                "share": "share_of_go",
            },
        ),
        Table(
            title="Memory",
            part="request",
            first="plugin",
            columns={
                "resident after start, MB": "rss_mb",
                "after the requests, MB": "rss_after_mb",
            },
            rows=_PLUGINS,
            plot=Plot(
                file="memory",
                unit="MB",
                columns={
                    "after start": "rss_mb",
                    "after the requests": "rss_after_mb",
                },
            ),
        ),
        Table(
            title="Start",
            part="start",
            first="process",
            columns={
                "from exec to synchronized, ms": "to_synchronized_ms",
                "from exec to exit, ms": "to_exit_ms",
            },
            rows={
                **_PLUGINS,
                "python -c pass": "`python -c pass`",
            },
            plot=Plot(
                file="start",
                unit="ms",
                columns={
                    "to synchronized": "to_synchronized_ms",
                    "to exit": "to_exit_ms",
                },
            ),
        ),
    ),
)

_DAEMON = Section(
    name="daemon",
    title="The daemon around the requests",
    text="""\
*Core* serves neither metrics nor the control API. *Metrics* is scraped;
*everything* is scraped and watched by a client; *handlers* has every handler on
that decides, and *policies* also those that act while containers run. A look is one
round of the policies over all containers.""",
    bench="daemon",
    quick=("--turns", "2", "--requests", "500"),
    minutes=(15, 4),
    tables=(
        Table(
            title="Memory with 500 containers",
            part="memory",
            first="daemon",
            columns={
                "resident, MB": "rss_mb",
                "proportional, MB": "pss_mb",
                "threads": "threads",
                "file descriptors": "descriptors",
                "CPU of a look, ms": "policy_ms",
            },
            rows=_DAEMONS,
            plot=Plot(
                file="daemon-memory",
                unit="MB",
                columns={"resident": "rss_mb", "proportional": "pss_mb"},
            ),
        ),
        Table(
            title="CreateContainer with 500 containers",
            part="request",
            first="daemon",
            columns={
                **_PERCENTILES,
                "p50 ÷ Go's": "p50_of_go",
                "p50 above core ÷ Go's": "p50_above_core",
            },
            rows=_DAEMONS,
            plot=Plot(
                file="daemon-latency",
                unit="µs",
                columns={"p50": "p50_us", "p90": "p90_us"},
            ),
        ),
    ),
)

_PROXY = Section(
    name="proxy",
    title="The CRI proxy",
    text="""\
Calls straight to a runtime that answers at once, through `nriplugin cri-proxy`, and
through koord-runtime-proxy 1.8.0 of the Koordinator project, in turns. *Passed on*
is Status; *rewritten* is CreateContainer, about which nriplugin decides.
koord-runtime-proxy has no hook server here: it reads the call and its own record of
the pod, and decides nothing. With 16 clients that call as fast as they can,
clients, proxy and runtime share the processors, so these figures mostly show time
spent waiting for one.""",
    bench="cri",
    options=("--calls", "--koord"),
    quick=("--turns", "1", "--count", "400"),
    minutes=(10, 2),
    tables=(
        Table(
            title="Latency of a call",
            part="calls",
            first="call",
            columns={
                "straight p50, µs": "direct_p50_us",
                "nriplugin p50, µs": "nriplugin_p50_us",
                "koord p50, µs": "koord_p50_us",
                "straight p99, µs": "direct_p99_us",
                "nriplugin p99, µs": "nriplugin_p99_us",
                "koord p99, µs": "koord_p99_us",
            },
            plot=Plot(
                file="proxy",
                unit="µs, p50",
                columns={
                    "straight": "direct_p50_us",
                    "nriplugin": "nriplugin_p50_us",
                    "koord-runtime-proxy": "koord_p50_us",
                },
            ),
        ),
        Table(
            title="Memory of the proxy",
            part="memory",
            first="proxy",
            columns={"idle, MB": "idle_mb", "after the calls, MB": "loaded_mb"},
            rows={"nriplugin": "nriplugin", "koord": "koord-runtime-proxy"},
        ),
    ),
)

_HOOK = Section(
    name="hook",
    title="The OCI hook",
    text="""\
The cold start of the hook for one container, next to that of Python alone.""",
    bench="cri",
    options=("--starts",),
    quick=("--runs", "5"),
    minutes=(0.3, 0.1),
    tables=(
        Table(
            title="From exec to exit",
            part="starts_ms",
            first="process",
            columns={"ms": ""},
            plot=Plot(file="hook", unit="ms", columns={"ms": ""}),
        ),
    ),
)

_NODE = Section(
    name="node",
    title="Creating a container on a node",
    text="""\
`crictl create` on a real containerd, timed in the guest: without a plugin, with
nriplugin and with the Go stub, in turns. Without KVM the node is emulated, so that
only the comparison means anything, not the milliseconds.""",
    bench="node",
    quick=("--turns", "1", "--count", "3"),
    minutes=(20, 6),
    tables=(
        Table(
            title="`crictl create`",
            part="",
            first="plugin",
            columns={"p50, ms": "p50_ms", "added to none, ms": "added_ms"},
            rows={"none": "none", **_BOTH},
            plot=Plot(file="node", unit="ms", columns={"p50": "p50_ms"}),
        ),
    ),
)

_EXECUTOR = Section(
    name="executor",
    title="Reading and writing cgroup files",
    text="""\
What goes through `nriplugin.cgroup`, next to the bare system calls, on a tree of
plain files in memory: without the kernel's part, which is the same for both. The
journal is on the disk. *Leveled* moves the cpusets of a QoS class, its pods and
their containers.""",
    bench="cgroup",
    quick=("--turns", "2", "--pods", "100"),
    minutes=(3, 0.3),
    tables=(
        Table(
            title="Reads of `cpu.max`",
            part="reads",
            first="way",
            columns={"µs each": ""},
        ),
        Table(
            title="Writes of `cpu.weight`",
            part="writes",
            first="way",
            columns={"µs each": ""},
            plot=Plot(file="executor", unit="µs each", columns={"µs": ""}),
        ),
        Table(
            title="Updates that change nothing",
            part="no-ops",
            first="10,000 of them",
            columns={"ms": ""},
        ),
        Table(
            title="Leveled updates",
            part="leveled",
            first="way",
            columns={"ms": ""},
        ),
    ),
)

_CONVERSION = Section(
    name="conversion",
    title="A conversion alone",
    text="""\
From v1-style numbers to cgroup v2 files, next to a dict literal of the same result.""",
    bench="convert",
    quick=("--turns", "2", "--number", "200"),
    minutes=(0.5, 0.1),
    tables=(
        Table(
            title="One container",
            part="",
            first="container",
            columns={
                "files": "files",
                "dict of them, µs": "dict_us",
                "convert, µs": "convert_us",
                "from OCI, µs": "from_oci_us",
                "from NRI, µs": "from_nri_us",
            },
        ),
    ),
)

_CHECKPOINT = Section(
    name="checkpoint",
    title="kubelet's checkpoint",
    text="""\
What reading memory requests from a checkpoint of 500 pods costs. *Alike* and
*different* say whether the pods have the same request. The parser holds the
interpreter's lock; the time from a rename until the requests are published is that
of a thread of its own.""",
    bench="checkpoint",
    quick=(),
    minutes=(1, 1),
    tables=(
        Table(
            title="CreateContainer in the process",
            part="request",
            first="checkpoint",
            columns={"µs": "us"},
        ),
        Table(
            title="The file",
            part="file",
            first="",
            columns={"ms": "ms"},
        ),
    ),
)

_CAPACITY = Section(
    name="capacity",
    title="`nriplugin capacity`",
    text="""\
The command on a node with 500 pods, each time as a process of its own: without
options, with a comparison of all cgroups, and with pods from a file.""",
    bench="capacity",
    quick=(),
    minutes=(1, 1),
    tables=(
        Table(
            title="500 pods",
            part="capacity",
            first="pods from",
            columns={"ms": "ms", "processor time, ms": "cpu_ms"},
        ),
    ),
)

SECTIONS = {
    section.name: section
    for section in (
        *(_NRI, _DAEMON, _PROXY, _HOOK, _NODE, _EXECUTOR, _CONVERSION, _CHECKPOINT),
        _CAPACITY,
    )
}
