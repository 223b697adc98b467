"""What `nriplugin explain` says of pods as an API server shows them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nodes.machine import Machine

    from support.cluster import Levels


PAGE = 4096


def explain(
    machine: Machine, pods: Sequence[Mapping[str, Any]], config: Path | None = None
) -> list[dict[str, dict[str, str]]]:
    """Return for each pod the files of each container, as `explain` prints them.

    The files that the plugin writes itself, such as cpu.max.burst, are among them.
    """
    items = {"apiVersion": "v1", "kind": "List", "items": list(pods)}
    options = [] if config is None else ["--config", str(config)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nriplugin", "explain", "--json", *options),
            *("--driver", machine.node.driver, "--oci-runtime", "runc"),
            *("--node-memory", str(memory_of(machine)), "-"),
        ],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        {each["name"]: _files(each) for each in pod["containers"]}
        for pod in json.loads(done.stdout)["pods"]
    ]


def _files(explained: Mapping[str, Any]) -> dict[str, str]:
    return {
        each["file"]: _as_kept(each["file"], each["value"])
        for each in (*explained["files"], *explained["writes"])
        if each.get("level", "container") == "container"
    }


def _as_kept(file: str, value: str) -> str:
    """Return a value as the kernel shows it, which keeps memory in whole pages."""
    if file.startswith("memory.") and value.isdecimal() and int(value) >= PAGE:
        return str(int(value) // PAGE * PAGE)
    return value


def differing(
    levels: Mapping[str, Levels],
    expected: Mapping[str, Mapping[str, Mapping[str, str]]],
) -> dict[str, tuple[str | None, str]]:
    """Return what a container's file holds and should hold, where these differ."""
    return {
        f"{pod}, {name}: {file}": (files.get(file), value)
        for pod, held in levels.items()
        for name, files in held.containers.items()
        for file, value in expected[pod][name].items()
        if files.get(file) != value
    }


def memory_of(machine: Machine) -> int:
    """Return the memory of a node in bytes."""
    text = machine.read(["/proc/meminfo"])["/proc/meminfo"] or ""
    (line,) = [line for line in text.splitlines() if line.startswith("MemTotal:")]
    return int(line.split()[1]) * 1024
