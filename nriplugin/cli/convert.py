"""`nriplugin convert`: converts OCI resources to cgroup v2 files, or back.

The input is JSON, as in a container's config.json, or numbers in options. This command
converts and nothing more: handlers, annotations and the configuration have no part in
it. `nriplugin explain` shows what a pod really gets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.printing import (
    add_output_argument,
    print_document,
    print_json,
    table_page,
)
from nriplugin.cli.standard_input import read_standard_input
from nriplugin.convert import Conversion, Curve, convert
from nriplugin.convert.curves import AUTO, curve_named
from nriplugin.convert.readers import from_oci
from nriplugin.convert.reverse import reverse
from nriplugin.errors import ConfigError
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.quantity import byte_count, milli

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

# Option -> place in OCI's linux.resources.
NUMBERS = {
    "shares": ("cpu", "shares"),
    "quota": ("cpu", "quota"),
    "period": ("cpu", "period"),
    "burst": ("cpu", "burst"),
    "idle": ("cpu", "idle"),
    "pids": ("pids", "limit"),
    "io-weight": ("blockIO", "weight"),
}
_HELP = {
    "shares": "CPU shares, such as 1024",
    "quota": "microseconds of CPU time per period; -1 is no limit",
    "period": "microseconds",
    "burst": "microseconds of CPU time that may be saved",
    "idle": "1 is idle, 0 is not",
    "pids": "how many processes; -1 is no limit",
    "io-weight": "10 to 1000",
}
BYTES = {
    "memory": ("memory", "limit"),
    "swap": ("memory", "swap"),
    "reservation": ("memory", "reservation"),
}
TEXTS = {"cpus": ("cpu", "cpus"), "mems": ("cpu", "mems")}


# From this width on, the rules have a column of their own.
_WIDE = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="OCI linux.resources as JSON, or a whole config.json (default: standard "
        "input, unless options give the numbers; - is standard input)",
    )
    parser.add_argument(
        "--cpu",
        metavar="AMOUNT",
        help="CPU as request and limit, such as 500m: the shares, quota and period "
        "that kubelet sends for it",
    )
    for option in NUMBERS:
        parser.add_argument(f"--{option}", metavar="N", help=_HELP[option])
    for option in BYTES:
        parser.add_argument(
            f"--{option}", metavar="BYTES", help="such as 512Mi; -1 is no limit"
        )
    for option in TEXTS:
        parser.add_argument(f"--{option}", metavar="LIST", help="such as 0-3,8")
    parser.add_argument(
        "--curve",
        choices=[AUTO, *Curve, "all"],
        help="the curve from cpu shares to cpu.weight; `auto` is quadratic here "
        "(default: all in the table, auto with -o json, -o yaml and --reverse)",
    )
    parser.add_argument("--bfq", action="store_true", help="the node has io.bfq.weight")
    parser.add_argument(
        "--reverse",
        action="store_true",
        help='read cgroup v2 files, such as {"cpu.weight": "39"}, and print the '
        "v1-style numbers",
    )
    add_output_argument(parser, "how the files are printed", alias=True)


def main(args: argparse.Namespace) -> int:
    """Convert and print."""
    document = _from_options(args) or _from_json(args.file)
    if args.reverse:
        result = reverse(_files(document), _curves(args.curve or AUTO)[0])
        if args.output == "table":
            print_json(result, indent=2)
        else:
            print_document("Resources", result, args.output)
        return 0
    resources = document
    if isinstance(document.get("linux"), dict):  # a whole config.json
        resources = document["linux"].get("resources")
    shows_all = "all" if args.output == "table" else AUTO
    curves = _curves(args.curve or shows_all)
    conversions = [
        convert(from_oci(resources), curve, bfq=args.bfq) for curve in curves
    ]
    if args.output == "table":
        _print_table(conversions)
    elif args.curve == "all":
        results = [_as_json(conversion) for conversion in conversions]
        print_document("ConversionList", {"items": results}, args.output)
    else:
        print_document("Conversion", _as_json(conversions[0]), args.output)
    return 0


def _curves(choice: str) -> list[Curve]:
    return list(Curve) if choice == "all" else [curve_named(choice)]


def _from_options(args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if args.cpu is not None:
        document["cpu"] = _cpu(args.cpu)
    for option, (section, field) in (NUMBERS | BYTES | TEXTS).items():
        given = getattr(args, option.replace("-", "_"))
        if given is not None:
            read = str if option in TEXTS else _bytes if option in BYTES else int
            try:
                document.setdefault(section, {})[field] = read(given)
            except (ConfigError, ValueError):
                what = "bytes, such as 512Mi" if option in BYTES else "a whole number"
                raise ConfigError(f"--{option}: {given!r}, expected {what}") from None
    if document and args.file is not None:
        raise ConfigError(f"FILE: {args.file!r}, expected none beside options")
    return document


def _cpu(text: str) -> dict[str, Any]:
    """Return what kubelet sends for a CPU amount that is request and limit."""
    try:
        amount = milli(text)
    except ConfigError:
        raise ConfigError(f"--cpu: {text!r}, expected CPUs, such as 500m") from None
    if amount <= 0:
        raise ConfigError(f"--cpu: {text!r}, expected more than 0, such as 500m")
    period_us = KubeletCapacitySettings().cpu_cfs_quota_period_us
    return {
        "shares": milli_cpu_to_shares(amount),
        "quota": milli_cpu_to_quota(amount, period_us),
        "period": period_us,
    }


def _bytes(text: str) -> int:
    return -1 if text == "-1" else byte_count(text)


def _from_json(path: str | None) -> dict[str, Any]:
    source = "stdin" if path in (None, "-") else str(path)
    try:
        if source == "stdin":
            document = json.loads(read_standard_input())
        else:
            with open(source, encoding="utf-8") as file:
                document = json.load(file)
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError(f"{source}: {exc}, expected a JSON object") from exc
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise ConfigError(f"{source}: a {kind}, expected a JSON object")
    return document


def _files(document: Mapping[str, Any]) -> dict[str, str]:
    for file, value in document.items():
        if not isinstance(value, str):
            raise ConfigError(f"{file}: {value!r}, expected a string")
    return dict(document)


def _as_json(conversion: Conversion) -> dict[str, Any]:
    return {
        "curve": str(conversion.curve),
        "files": conversion.files,
        "dropped": [entry._asdict() for entry in conversion.dropped],
        "clamped": [entry._asdict() for entry in conversion.clamped],
    }


def _print_table(conversions: list[Conversion]) -> None:
    first = conversions[0]
    several = len(conversions) > 1
    page = table_page()
    wide = page.width >= _WIDE
    curves = [str(c.curve) for c in conversions]
    rows: list[Sequence[str]] = [titles("file", *curves, *(("rule",) if wide else ()))]
    notes: list[Sequence[str]] = [()]
    for number, (file, _, rule) in enumerate(first.derived):
        values = [c.derived[number].value.replace("\n", "; ") for c in conversions]
        text = "by the curve" if several and file == "cpu.weight" else rule.text
        told = f"{', '.join(rule.fields)}: {text}"
        rows.append([file, *values, *([told] if wide else [])])
        notes.append([] if wide else [Toned(told, Tone.FAINT)])
    page.table(rows, notes=notes)
    for field, reason in first.dropped:
        page.text(Toned("dropped", Tone.WARNING), f"{field}: {reason}", hanging=2)
    for field, given, used, reason in first.clamped:
        told = f"{field}: {given} to {used}, {reason}"
        page.text(Toned("clamped", Tone.WARNING), told, hanging=2)
    page.show()
