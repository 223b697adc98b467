"""What docs/kubernetes.md shows of a resize is what `explain` says of it.

That the kernel holds what `explain` says after a real resize is tested on nodes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from support.workloads import container, cpu_memory, resources

PAGE = Path(__file__).parents[2] / "docs/kubernetes.md"
# By the first cell of a row.
CONFIGURATIONS = {
    "none": "{}",
    "cpuBurst, 50%": "cpuBurst: {enabled: true, percent: 50}",
    "memoryQoS": "memoryQoS: {enabled: true}",
}
# What a file holds that nobody sets.
UNSET = {"cpu.max.burst": "0", "memory.high": "max", "memory.low": "0"}
RESIZED = resources(cpu_memory("100m", "64Mi"), cpu_memory("1500m", "128Mi"))


def shown() -> dict[str, dict[str, str]]:
    """Return the rows of the table: by the first cell, values by file."""
    text = PAGE.read_text().partition("## What kubelet does at a resize\n")[2]
    lines = re.findall(r"^\|(.*)\|$", text.partition("\n## ")[0], re.M)
    head, _, *rows = [
        [cell.strip().replace("`", "") for cell in line.split("|")] for line in lines
    ]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def explained(config: Path) -> dict[str, str]:
    """Return the files of the container after the resize."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container("app", RESIZED)]},
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nriplugin", "explain", "-o", "json"),
            *("--config", str(config), "--node-memory", "2Gi", "-"),
        ],
        input=json.dumps(pod),
        capture_output=True,
        text=True,
        check=True,
    )
    ((only,),) = [one["containers"] for one in json.loads(done.stdout)["pods"]]
    return {
        one["file"]: one["value"]
        for one in (*only["files"], *only["writes"])
        if one.get("level", "container") == "container"
    }


def test_the_values_after_a_resize(tmp_path: Path) -> None:
    """For each handler of the table, and for no handler."""
    config = tmp_path / "nriplugin.yaml"
    rows = shown()
    assert rows.keys() == CONFIGURATIONS.keys()
    for name, text in CONFIGURATIONS.items():
        config.write_text(text)
        found = UNSET | explained(config)
        assert rows[name] == {file: found[file] for file in rows[name]}, name
