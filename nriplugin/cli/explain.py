"""`nriplugin explain`: what becomes of the resources in a manifest, without a node."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nriplugin.convert.curves import AUTO, Curve, curve_named
from nriplugin.engine.explain import explain_pod
from nriplugin.errors import ConfigError
from nriplugin.kube.manifests import read_manifests

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from nriplugin.engine.explain import ExplainedContainer, ExplainedPod
    from nriplugin.kube.manifests import Manifests

LABEL_WIDTH = 15
FILE_WIDTH = 29


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="manifest with pods or workloads, YAML or JSON; - is standard input",
    )
    parser.add_argument(
        "--curve",
        choices=[AUTO, *Curve],
        default=AUTO,
        help=f"from shares to cpu.weight (default: auto, here {curve_named(AUTO)})",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of pods")


def main(args: argparse.Namespace) -> int:
    """Explain every pod of every file; nothing is printed if one of them is wrong."""
    curve = curve_named(args.curve)
    explained: list[ExplainedPod] = []
    skipped: list[str] = []
    for path in args.files:
        manifests = _read(path)
        for pod in manifests.pods:
            try:
                explained.append(explain_pod(pod, curve))
            except ConfigError as exc:
                raise ConfigError(f"{path}: {pod.kind} {pod.name}: {exc}") from exc
        skipped += [f"{entry.kind} {entry.name}" for entry in manifests.skipped]
    if args.json:
        print(json.dumps([dataclasses.asdict(pod) for pod in explained], indent=2))
        return 0
    for one in explained:
        _print_pod(one)
    if skipped:
        print(f"skipped, no pods: {', '.join(skipped)}")
    elif not explained:
        print("no pods")
    return 0


def _read(path: str) -> Manifests:
    from nriplugin.documents import load_documents

    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"{path}: cannot be read: {exc.strerror}, expected a manifest"
        ) from exc
    documents = load_documents(content, path)
    try:
        return read_manifests(documents)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def _print_pod(pod: ExplainedPod) -> None:
    name = pod.name if pod.namespace is None else f"{pod.namespace}/{pod.name}"
    print(f"{pod.kind} {name}")
    _print_line(2, "QoS class", pod.qos_class)
    for driver, path in pod.cgroups.items():
        _print_line(2, driver, path)
    for container in pod.containers:
        _print_container(container)
    print()


def _print_container(container: ExplainedContainer) -> None:
    role = "" if container.role == "app" else f" ({container.role})"
    print(f"  container {container.name}{role}")
    requests = _joined(container.requests)
    if container.defaulted:
        requests += f" ({', '.join(container.defaulted)} from limits)"
    _print_line(4, "requests", requests)
    _print_line(4, "limits", _joined(container.limits))
    _print_line(4, "kubelet sends", _joined(container.sent))
    for file in container.files:
        setting = f"{file.file} = {file.value}".ljust(FILE_WIDTH)
        print(f"    {setting} from {', '.join(file.fields)}; {file.rule}")
    for clamped in container.clamped:
        print(
            f"    {clamped['field']} {clamped['given']} taken as {clamped['used']}: "
            f"{clamped['reason']}"
        )
    for dropped in container.dropped:
        print(f"    {dropped['field']} dropped: {dropped['reason']}")


def _joined(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"


def _print_line(indent: int, label: str, text: str) -> None:
    print(f"{' ' * indent}{label.ljust(LABEL_WIDTH)} {text}")
