"""Writes values.schema.json and files/dashboard.json of the Helm chart.

With `--check` nothing is written, and the exit code is 1 if one of them is out of date.
With `--tools` what the chart's tests run is built, and where it is gets printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nodes.programs import program
from nodes.shell import NodeError

from charts.dashboard import dashboard
from charts.kube_schemas import kube_schemas
from charts.values import values_schema

TOP = Path(__file__).resolve().parents[2]
CHART = TOP / "deploy/helm/nriplugin"


def derived() -> dict[Path, str]:
    """Return the texts of the files by their paths."""
    return {
        CHART / "values.schema.json": _text(values_schema()),
        CHART / "files/dashboard.json": _text(dashboard()),
    }


def main(argv: list[str]) -> int:
    """Write or check; return 2 for a mistake in the command line."""
    if argv not in ([], ["--check"], ["--tools"]):
        told = f"chart: {' '.join(argv)}, expected --check, --tools or nothing"
        print(told, file=sys.stderr)
        return 2
    if argv == ["--tools"]:
        return _build_tools()
    code = 0
    for path, text in derived().items():
        if path.exists() and path.read_text() == text:
            continue
        name = path.relative_to(TOP)
        if argv:
            print(f"chart: {name}: out of date: run ./hack/chart", file=sys.stderr)
            code = 1
        else:
            path.write_text(text)
            print(f"chart: wrote {name}", file=sys.stderr)
    return code


def _build_tools() -> int:
    try:
        for name in ("helm", "kubeconform"):
            print(program(name) / name)
        print(kube_schemas())
    except NodeError as exc:
        print(f"chart: {exc}", file=sys.stderr)
        return 1
    return 0


def _text(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
