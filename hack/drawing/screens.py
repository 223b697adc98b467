"""Runs the commands that docs/operating.md shows, and puts their output there.

A command stands in a comment, `<!-- screen: nriplugin status -->`. What follows up to
`<!-- end of screen -->` is replaced by the command and its output on a terminal of 80
columns. The daemon is a real one, `nriplugin run`; the runtime is the SDK's
EmbeddedRuntime and the cgroups are ordinary files, so that this needs neither root nor
a node.

`--check` compares without what differs each time: times, durations, sizes and widths.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.harness import wait_until
from support.live_daemon import LiveNode, resources, write
from support.terminals import on_terminal

from nriplugin.daemon.control_service import DEFAULT_CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"

SCREEN = re.compile(
    r"(<!-- screen: nriplugin (?P<command>.+?) -->\n)(?P<shown>.*?)"
    r"(<!-- end of screen -->\n)",
    re.DOTALL,
)

CONFIG = """\
memoryQoS:
  enabled: true
rules:
- name: web
  match:
    namespace: shop
    container: nginx
  cpuBurst:
    enabled: true
    percent: 20
"""
CONFIG_PATH = "/etc/nriplugin/nriplugin.yaml"
BROKEN_CONFIG = CONFIG.replace("percent: 20", "percent: 200")

WEB = "web-7f9c5d8b-x2x4z"

# What differs from run to run, and what stands in its place for a comparison.
VOLATILE = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\((now|\d+ (s|min|h) ago)\)", "(AGO)"),
    (r"\bfor \d+ s\b", "for SECONDS"),
    (r"[\d.e-]+ m?s\b", "LATENCY"),
    (r'"at": [\d.]+', '"at": TIME'),
    (r"pid \d+", "pid PID"),
    (r"[\d.]+ MB resident, \d+ threads, \d+ open files", "SIZES"),
    (r"(?m)kernel +\S+$", "kernel KERNEL"),
    (r"\d+ comparisons", "SOME comparisons"),
    (r"\s+", " "),
)


def play(node: LiveNode) -> None:
    """Bring about what the screens show."""
    node.create("shop", "db-0", "postgres", resources(2048, 200_000, 1024), qos="")
    web = node.create(
        *("shop", WEB, "nginx", resources(256, 50_000, 256)),
        annotations={
            "memory-request.cgroup2.nri.io": "128Mi",
            "cpu-burst.cgroup2.nri.io": "50%",
        },
    )
    node.create(
        *("batch", "train-0", "worker", resources(512, 0, 512)),
        annotations={"memory-throttling-factor.cgroup2.nri.io": "5"},
    )
    # Another program has written a file. The daemon finds it at its next comparison:
    # before that, the figures would depend on how long the commands take.
    write(web.directory, {"cpu.weight": "500"})
    wait_until(lambda: drifted(node))


def drifted(node: LiveNode) -> int:
    """Return how many containers the daemon knows to have drifted."""
    status = json.loads(node.command("status", "-o", "json").stdout)
    count: int = status["containers"]["drifted"]
    return count


def break_configuration(node: LiveNode) -> None:
    """Make a mistake in the configuration file."""
    node.config.write_text(BROKEN_CONFIG)


# What happens before a command is run.
BEFORE: dict[str, Callable[[LiveNode], None]] = {"reload": break_configuration}


def screens(commands: list[str]) -> dict[str, str]:
    """Return the output of each command, after a prompt with the command itself."""
    result = {}
    with (
        tempfile.TemporaryDirectory(prefix="nriplugin-") as directory,
        LiveNode(Path(directory), CONFIG) as node,
    ):
        play(node)
        for command in commands:
            if command in BEFORE:
                BEFORE[command](node)
            words = shlex.split(command)
            with on_terminal(
                *words, NRIPLUGIN_CONTROL=node.address, NO_COLOR="1"
            ) as running:
                running.wait()
            # A reader's daemon serves at the default address, from a file of its own.
            text = running.text.replace(node.address, DEFAULT_CONTROL)
            text = text.replace(str(node.config), CONFIG_PATH)
            shown = f"$ nriplugin {command}\n{text}"
            result[command] = f"```console\n{shown}```\n"
    return result


def shown_screens(page: str) -> dict[str, str]:
    """Return what a page shows, by command."""
    return {one["command"]: one["shown"] for one in SCREEN.finditer(page)}


def comparable(text: str) -> str:
    """Return a screen without what differs each time."""
    for pattern, instead in VOLATILE:
        text = re.sub(pattern, instead, text)
    return text


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    shown = shown_screens(page)
    made = screens(list(shown))
    if not check:
        text = SCREEN.sub(lambda one: one[1] + made[one["command"]] + one[4], page)
        PAGE.write_text(text, encoding="utf-8")
        print(f"screens: {len(shown)} in docs/{PAGE.name}")
        return 0
    old = [c for c in shown if comparable(shown[c]) != comparable(made[c])]
    for command in old:
        print(f"screens: nriplugin {command}: run hack/screens", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main())
