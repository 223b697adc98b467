"""`nriplugin config check FILE`: whether a configuration is valid, and what it enables.

The file is read by the same code as in `run`, so a file that passes here is accepted
there. Warnings are about what has no effect, or not the one that it seems to have.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nriplugin.cli.layout import Tone, Toned
from nriplugin.cli.printing import add_output_argument, print_document, table_page
from nriplugin.cli.standard_input import read_standard_input
from nriplugin.config import parse_config, read_text
from nriplugin.config.warnings import warnings_about
from nriplugin.convert.curves import AUTO
from nriplugin.documents import load_marked_documents
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from nriplugin.config import Config
    from nriplugin.engine.settings import Settings

STDIN = "standard input"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="check a file as `run` would read it; nothing is changed",
        description="Check a file as `run` would read it. All mistakes are shown, and "
        "the exit code is then 2. Warnings are about settings that have no effect.",
        allow_abbrev=False,
    )
    check.add_argument(
        "file", metavar="FILE", help="configuration file, YAML; - is standard input"
    )
    check.add_argument(
        "--strict", action="store_true", help="exit with 2 if there is a warning, too"
    )
    add_output_argument(check, "how the result is printed")


def main(args: argparse.Namespace) -> int:
    """Print what the configuration switches on; mistakes in it are raised."""
    source, text = _read(args.file)
    try:
        config = parse_config(text, source)
    except ConfigError as exc:
        if args.output == "table":
            raise
        found = {"file": source, "valid": False, "mistakes": list(exc.lines)}
        print_document("ConfigCheck", {**found, "warnings": []}, args.output)
        return 2
    documents = load_marked_documents(text, source)
    warnings: list[dict[str, Any]] = [
        {
            "line": documents[0].line_of(one.place) if documents else 1,
            "place": one.place,
            "text": one.text,
        }
        for one in warnings_about(config)
    ]
    warnings.sort(key=itemgetter("line"))
    facts = dict(_facts(config))
    if args.output == "table":
        _show(source, facts, warnings)
    else:
        found = {"file": source, "valid": True, "mistakes": [], "warnings": warnings}
        print_document("ConfigCheck", {**found, "settings": facts}, args.output)
    return 2 if warnings and args.strict else 0


def _read(path: str) -> tuple[str, str]:
    """Return what a configuration is called in messages, and its text."""
    if path != "-":
        return path, read_text(path)
    try:
        return STDIN, read_standard_input().decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"{STDIN}: cannot be read: {exc}, expected a configuration"
        ) from exc


def _show(source: str, facts: dict[str, str], warnings: list[dict[str, Any]]) -> None:
    page = table_page()
    page.text(f"{source}:", Toned("valid", Tone.GOOD))
    page.table([*facts.items()])
    for one in warnings:
        page.text(
            Toned("warning:", Tone.WARNING),
            f"line {one['line']}: {one['place']}: {one['text']}",
            hanging=2,
        )
    page.show()


def _facts(config: Config) -> list[tuple[str, str]]:
    curve = AUTO if config.engine.curve is None else config.engine.curve.value
    rules = [rule.settings for rule in config.engine.rules]
    return [
        ("curve", curve),
        ("failure policy", config.failure_policy.value),
        ("adopt", "on" if config.adopt.enabled else "off"),
        ("verify", "on" if config.verify.enabled else "off"),
        ("repair", "on" if config.repair.enabled else "off"),
        ("checkpoint", config.checkpoint_path or "not used"),
        ("handlers", _handlers(config.engine.base)),
        *((settings.rule, _handlers(settings)) for settings in rules),
    ]


def _handlers(settings: Settings) -> str:
    names = [
        f"{name} (fail)" if name in settings.failing else name
        for name in settings.active
    ]
    listed = ", ".join(sorted(names)) or "none"
    return f"{listed} (shadow mode)" if settings.shadow else listed
