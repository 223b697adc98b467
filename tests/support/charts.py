"""The Helm chart, rendered by a real helm, and kustomize's objects beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from nodes.programs import program
from nodes.shell import NodeError

from support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHART = Path(__file__).parents[2] / "deploy/helm/nriplugin"
KUSTOMIZE = CHART.parents[1] / "kubernetes"
RELEASE, NAMESPACE = "nriplugin", "kube-system"
VARIANTS = sorted(CHART.glob("ci/*-values.yaml"))


@cache
def tool(name: str) -> Path:
    """Return a program that is built from the Go module proxy: helm or kubeconform."""
    if shutil.which("go") is None:
        need(name, "it is built with Go, which is not installed")
    try:
        return program(name) / name
    except NodeError as exc:
        need(name, str(exc))


def helm(*args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm, without the settings of whoever runs the tests."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [tool("helm"), *args],
        capture_output=True,
        text=True,
        input=stdin,
        env=environ,
        check=False,
    )


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects that helm makes of the chart, its notes left out."""

    objects: tuple[Any, ...]

    def of_kind(self, kind: str) -> dict[str, Any]:
        """Return the objects of a kind by their names, without those of tests."""
        return {
            one["metadata"]["name"]: one
            for one in self.objects
            if one["kind"] == kind
            and "helm.sh/hook" not in one["metadata"].get("annotations", {})
        }

    def tests(self) -> list[Any]:
        """Return the pods of `helm test`."""
        return [
            one
            for one in self.objects
            if one["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"
        ]


def template(
    values: Mapping[str, Any] | None = None, *files: Path, chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """Have helm render the chart with files of values, and with values over them."""
    options = [option for file in files for option in ("--values", str(file))]
    return helm(
        *("template", RELEASE, str(chart), "--namespace", NAMESPACE, *options),
        *("--values", "-"),
        stdin=json.dumps(values or {}),
    )


def rendered(values: Mapping[str, Any] | None = None, *files: Path) -> Rendered:
    """Return what helm renders, which must succeed."""
    done = template(values, *files)
    assert done.returncode == 0, done.stderr
    return Rendered(tuple(one for one in yaml.safe_load_all(done.stdout) if one))


def kustomized(directory: Path, components: Iterable[str] = ()) -> dict[str, Any]:
    """Return what kustomize makes of deploy/kubernetes and components, by kind."""
    if shutil.which("kubectl") is None:
        need("kubectl", "it is not installed")
    below = os.path.relpath(KUSTOMIZE, directory)
    overlay = {
        "resources": [below],
        "components": [f"{below}/components/{name}" for name in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    made = subprocess.run(
        ["kubectl", "kustomize", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return {one["kind"]: one for one in yaml.safe_load_all(made.stdout)}
