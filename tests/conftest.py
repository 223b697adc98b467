"""How tests are divided between processes, and what holds for all property tests.

The tests of one node run in one process, so that the node is booted once, unless files
have a fresh one each. All other tests of a file run in one process too, so that its
fixtures are made once. The nodes come first, the longest first; the other files fill up
the process that is done early, and the time until the nodes are built.
"""

from __future__ import annotations

import os
import re
import signal
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from nodes.catalog import NODES

if TYPE_CHECKING:
    from collections.abc import Collection

    from xdist.scheduler import LoadScopeScheduling

# The longest name first, and the first place: the name of a node may begin or end with
# that of another.
_NAMES = "|".join(map(re.escape, sorted(NODES, key=len, reverse=True)))
OF_NODE = re.compile(rf"^tests/e2e/.*?[\[-]({_NAMES})[\]-]")

# From the longest to the shortest, as the table at the end of a run shows them.
BY_LENGTH = (
    *("kubernetes", "kubernetes-systemd", "kubernetes-crio", "containerd-2.4"),
    *("crio", "containerd-1.6", "containerd-2", "containerd-1.7", "systemd"),
    "v1",
)

# They restart the runtime, which takes longer the more pods there are.
EARLY = ("test_e2e_restarts.py", "test_e2e_hook.py")

# A shell that starts this run in the background has SIGINT ignored, and every process
# that a test starts would inherit that: Ctrl-C would not end it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="session")
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep processes that a test starts away from this machine's state directory."""
    directory = str(tmp_path_factory.mktemp("state"))
    os.environ.setdefault("NRIPLUGIN_STATE_DIR", directory)


def scope_of(test: str) -> str:
    """Return what a test must share a process with: its node, else its file."""
    node = OF_NODE.match(test)
    return node[1] if node else test.partition("::")[0]


def place_of(scope: str, tests: int, built: Collection[str]) -> tuple[int, int]:
    """Return the place of a scope in the queue.

    First the nodes that are built, the longest first, then files, those with many tests
    first, and last the nodes that are still being built.
    """
    if scope not in BY_LENGTH:
        return len(BY_LENGTH), -tests
    place = BY_LENGTH.index(scope)
    return (place if scope in built else 1 + len(BY_LENGTH) + place), 0


def built_nodes() -> Collection[str]:
    """Return the nodes that are built: all, unless hack/test is building them now."""
    file = os.environ.get("NRIPLUGIN_NODES_BUILT")
    return NODES if file is None else Path(file).read_text().split()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a node together, and among them those of a file.

    Files that restart the runtime come first.

    pytest groups by parameters, and tests of a file that are parametrized in different
    ways come apart: then the containers that they share would be made twice.
    """
    files = {item.path: place for place, item in reversed([*enumerate(items)])}

    def place(item: pytest.Item) -> tuple[int, bool, int]:
        scope = scope_of(item.nodeid)
        if scope not in BY_LENGTH:
            return -1, False, 0  # all others stay as they are, before the nodes
        late = item.path.name not in EARLY
        return BY_LENGTH.index(scope), late, files[item.path]

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: object, log: object) -> LoadScopeScheduling:
    """Divide tests by node and by file, the longest first."""
    from xdist.scheduler import LoadScopeScheduling

    class ByNode(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            # xdist has sorted by the number of tests alone, and only at the beginning.
            built = built_nodes()
            first = min(
                self.workqueue,
                key=lambda scope: place_of(scope, len(self.workqueue[scope]), built),
            )
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return ByNode(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print where the time of the nodes went, if any was booted."""
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for outcome in ("passed", "failed", "error", ""):  # "" is setup and teardown
        for report in terminalreporter.stats.get(outcome, []):
            if node := OF_NODE.match(getattr(report, "nodeid", "")):
                row = seconds[node[1]]
                row[report.when] += report.duration
                row["tests"] += report.when == "call"
                boots = dict(report.user_properties)
                row["boot"] = max(row["boot"], boots.get("boot_s", 0.0))
    if not seconds:
        return
    terminalreporter.section("seconds by node")
    columns = ("tests", "boot", "setup", "call", "teardown")
    terminalreporter.line(f"{'':18}" + "".join(f"{name:>10}" for name in columns))
    for node_name, row in seconds.items():
        # The boot is a part of the first test's setup.
        row["setup"] -= row["boot"]
        cells = "".join(f"{row[name]:10.0f}" for name in columns)
        terminalreporter.line(f"{node_name:18}{cells}")
