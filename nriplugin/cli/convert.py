"""`nriplugin convert`: converts OCI resources to cgroup v2 files, or back.

The input is JSON, as in a container's config.json, or numbers in options. This command
converts and nothing more: handlers, annotations and the configuration have no part in
it. `nriplugin explain` shows what a pod really gets.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from nriplugin.cli.printing import print_json, print_line, print_table
from nriplugin.convert import Conversion, Curve, convert
from nriplugin.convert.curves import AUTO, curve_named
from nriplugin.convert.readers import from_oci
from nriplugin.convert.reverse import reverse
from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import value as quantity

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

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
BYTES = {
    "memory": ("memory", "limit"),
    "swap": ("memory", "swap"),
    "reservation": ("memory", "reservation"),
}
TEXTS = {"cpus": ("cpu", "cpus"), "mems": ("cpu", "mems")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="OCI linux.resources as JSON, or a whole config.json (default: standard "
        "input, unless options give the numbers; - is standard input)",
    )
    for option in NUMBERS:
        parser.add_argument(f"--{option}", metavar="N")
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
        "(default: all in the table, auto with --json and --reverse)",
    )
    parser.add_argument("--bfq", action="store_true", help="the node has io.bfq.weight")
    parser.add_argument(
        "--reverse",
        action="store_true",
        help='read cgroup v2 files, such as {"cpu.weight": "39"}, and print the '
        "v1-style numbers",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def main(args: argparse.Namespace) -> int:
    """Convert and print."""
    document = _from_options(args) or _from_json(args.file)
    if args.reverse:
        result = reverse(_files(document), _curves(args.curve or AUTO)[0])
        print_json(result, indent=None if args.json else 2)
        return 0
    resources = document
    if isinstance(document.get("linux"), dict):  # a whole config.json
        resources = document["linux"].get("resources")
    curves = _curves(args.curve or (AUTO if args.json else "all"))
    conversions = [
        convert(from_oci(resources), curve, bfq=args.bfq) for curve in curves
    ]
    if args.json:
        results = [_as_json(conversion) for conversion in conversions]
        print_json(results if args.curve == "all" else results[0])
    else:
        _print_table(conversions)
    return 0


def _curves(choice: str) -> list[Curve]:
    return list(Curve) if choice == "all" else [curve_named(choice)]


def _from_options(args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {}
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


def _bytes(text: str) -> int:
    return -1 if text == "-1" else quantity(text)


def _from_json(path: str | None) -> dict[str, Any]:
    source = "stdin" if path in (None, "-") else str(path)
    try:
        if source == "stdin":
            document = json.load(sys.stdin)
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
    rows = [["FILE", *(str(c.curve).upper() for c in conversions), "RULE"]]
    for number, (file, _, rule) in enumerate(first.derived):
        values = [c.derived[number].value.replace("\n", "; ") for c in conversions]
        text = "by the curve" if several and file == "cpu.weight" else rule.text
        rows.append([file, *values, f"{', '.join(rule.fields)}: {text}"])
    print_table(rows)
    for field, reason in first.dropped:
        print_line(f"dropped {field}: {reason}")
    for field, given, used, reason in first.clamped:
        print_line(f"clamped {field}: {given} to {used}, {reason}")
