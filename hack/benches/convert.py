"""What converting one container costs.

A typical container, and one with every field that NRI or OCI has, are converted from
`Resources`, from OCI JSON and from an NRI message; the latter two are parsed before the
measurement. Each figure is printed next to the least that any converter must do: a dict
literal of the same files and values.

All measurements take turns, so that other work of the machine affects all of them. A
turn gives the best of its repeats, and a figure is the median over the turns.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import median
from timeit import Timer
from typing import Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import convert
from nriplugin.convert.readers import from_nri, from_oci

MIB = 1 << 20

TYPICAL: dict[str, Any] = {
    "cpu": {"shares": 512, "quota": 100_000, "period": 100_000, "cpus": "0-3"},
    "memory": {"limit": 512 * MIB},
    "pids": {"limit": 1024},
}
# What NRI has fields for.
EVERYTHING_IN_NRI: dict[str, Any] = {
    "cpu": {
        "shares": 2048,
        "quota": 150_000,
        "period": 100_000,
        "cpus": "0-3,8-11",
        "mems": "0-1",
        "realtimeRuntime": 1000,
        "realtimePeriod": 10_000,
    },
    "memory": {
        "limit": 512 * MIB,
        "swap": 768 * MIB,
        "reservation": 256 * MIB,
        "kernel": 64 * MIB,
        "kernelTCP": 16 * MIB,
        "swappiness": 60,
        "disableOOMKiller": True,
        "useHierarchy": True,
    },
    "pids": {"limit": 1024},
    "hugepageLimits": [
        {"pageSize": "2MB", "limit": 64 * MIB},
        {"pageSize": "1GB", "limit": 1024 * MIB},
    ],
    "unified": {
        "memory.high": str(480 * MIB),
        "memory.min": str(128 * MIB),
        "memory.oom.group": "1",
        "memory.swap.max": "0",
    },
}
# What OCI has on top of it.
EVERYTHING: dict[str, Any] = {
    **EVERYTHING_IN_NRI,
    "cpu": {**EVERYTHING_IN_NRI["cpu"], "burst": 50_000, "idle": 0},
    "memory": {**EVERYTHING_IN_NRI["memory"], "checkBeforeUpdate": True},
    "blockIO": {
        "weight": 500,
        "leafWeight": 300,
        "weightDevice": [{"major": 8, "minor": 0, "weight": 700}],
        "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 10 * MIB}],
        "throttleWriteBpsDevice": [{"major": 8, "minor": 0, "rate": 5 * MIB}],
        "throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 1000}],
        "throttleWriteIOPSDevice": [{"major": 8, "minor": 0, "rate": 500}],
    },
    "rdma": {"mlx5_0": {"hcaHandles": 3, "hcaObjects": 10_000}},
    "network": {"classID": 1, "priorities": [{"name": "eth0", "priority": 5}]},
}

Figures = dict[str, float]


def nri_message(document: dict[str, Any]) -> nri.LinuxResources:
    """Return what a runtime sends for a document, parsed from bytes like its."""
    message = nri.LinuxResources(
        hugepage_limits=[
            nri.HugepageLimit(page_size=entry["pageSize"], limit=entry["limit"])
            for entry in document.get("hugepageLimits", ())
        ],
        unified=document.get("unified", {}),
        pids=nri.LinuxPids(limit=document["pids"]["limit"]),
    )
    names = {
        "realtimeRuntime": "realtime_runtime",
        "realtimePeriod": "realtime_period",
        "kernelTCP": "kernel_tcp",
        "disableOOMKiller": "disable_oom_killer",
        "useHierarchy": "use_hierarchy",
    }
    for part, target in (("cpu", message.cpu), ("memory", message.memory)):
        for field, value in document[part].items():
            name = names.get(field, field)
            if isinstance(value, str):
                setattr(target, name, value)
            else:
                getattr(target, name).value = value
    return nri.LinuxResources.FromString(message.SerializeToString())


def timers(document: dict[str, Any], *, in_nri: bool) -> dict[str, Timer]:
    """Return what is timed for one container."""
    given = from_oci(document)
    names = {"convert": convert, "given": given, "document": document}
    result = {
        "dict_us": Timer(repr(convert(given).files)),
        "convert_us": Timer("convert(given)", globals=names),
        "from_oci_us": Timer(
            "convert(from_oci(document))", globals={**names, "from_oci": from_oci}
        ),
    }
    if in_nri:
        message = nri_message(document)
        if convert(from_nri(message)).files != convert(given).files:
            raise SystemExit("bench: OCI and NRI give different files")
        result["from_nri_us"] = Timer(
            "convert(from_nri(message))",
            globals={**names, "from_nri": from_nri, "message": message},
        )
    return result


def best_us(timer: Timer, number: int, repeats: int) -> float:
    """Return the microseconds of one execution in the best of the repeats."""
    return 1e6 * min(timer.repeat(repeats, number)) / number


def measure(turns: int, number: int, repeats: int) -> dict[str, Figures]:
    """Time everything in turns; return figures by container."""
    result: dict[str, Figures] = {}
    containers = {
        "typical": (TYPICAL, True),
        "all that NRI has": (EVERYTHING_IN_NRI, True),
        "all that OCI has": (EVERYTHING, False),
    }
    timed = {
        name: timers(document, in_nri=in_nri)
        for name, (document, in_nri) in containers.items()
    }
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(turns):
        for name, columns in timed.items():
            for column, timer in columns.items():
                figure = best_us(timer, number, repeats)
                taken.setdefault((name, column), []).append(figure)
    for name, (document, _) in containers.items():
        files = len(convert(from_oci(document)).files)
        result[name] = {"files": float(files)}
    for (name, column), figures in taken.items():
        result[name][column] = median(figures)
    return result


def print_table(result: dict[str, Figures]) -> None:
    """Print the figures for people."""
    titles = {
        "files": "files",
        "dict_us": "dict of them",
        "convert_us": "convert",
        "from_oci_us": "from_oci + convert",
        "from_nri_us": "from_nri + convert",
    }
    print(f"{sys.executable}: Python {sys.version}")
    print("\nmicroseconds per container")
    print(f"{'':18}" + "".join(f"{title:>20}" for title in titles.values()))
    for name, figures in result.items():
        cells = [f"{figures['files']:.0f}"]
        cells += [
            f"{figures[column]:.2f}" if column in figures else ""
            for column in titles
            if column != "files"
        ]
        print(f"{name:18}" + "".join(f"{cell:>20}" for cell in cells))


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="hack/bench convert", description=__doc__)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.turns, args.number, args.repeats)
    if args.json:
        print(json.dumps(result))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
