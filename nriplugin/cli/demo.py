"""`nriplugin demo`: the plugin on the embedded runtime, step by step.

demo_scenario.py plays the pods; this module prints what the runtime sent, what it would
write alone, and what the plugin answered.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from nriplugin.cli.demo_scenario import CONFIG, play, read_pods
from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.printing import add_output_argument, print_document, table_page
from nriplugin.cli.standard_input import read_standard_input
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from nriplugin.cli.demo_scenario import Step
    from nriplugin.kube.manifests import ManifestPod


# From this width on, the reasons have a column of their own.
_WIDE = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Shows the plugin at work on an embedded runtime, over a real socket and "
        "without root: what kubelet sends for a container, what the runtime would "
        "write alone, and what it writes with nriplugin."
    )
    parser.add_argument(
        "--config", metavar="FILE", help="configuration file, YAML (default: a sample)"
    )
    parser.add_argument(
        "--pods",
        metavar="FILE",
        help="manifest with pods or workloads; - is standard input (default: a sample)",
    )
    add_output_argument(parser, "how each step is printed", alias=True)


def main(args: argparse.Namespace) -> int:
    """Play the scenario and print every step as it happens."""
    # What is logged is part of the steps.
    logging.getLogger("nriplugin").addHandler(logging.NullHandler())
    config = None
    if args.config is not None:
        from nriplugin.config import read_config

        config = read_config(args.config)
    pods = _pods(args.pods) if args.pods is not None else []
    if args.output == "table":
        page = table_page()
        page.text(
            "Kubernetes still sends cgroup v1 numbers. The runtime makes cgroup v2 "
            "files of them; the plugin answers with the files that it writes instead."
        )
        if args.config is None:
            page.text("")
            page.text(Toned("The configuration:", Tone.TITLE))
            for line in CONFIG.splitlines():
                page.text(line, indent=2)
        page.text("")
        page.show(flush=True)
    for step in play(config, pods):
        if args.output != "table":
            content = dataclasses.asdict(step)
            print_document("DemoStep", content, args.output, stream=True)
        else:
            _show(step)
    return 0


def _pods(path: str) -> list[ManifestPod]:
    try:
        if path == "-":
            text = read_standard_input()
        else:
            with open(path, "rb") as file:
                text = file.read()
    except OSError as exc:
        raise ConfigError(
            f"--pods: {path!r}: {exc.strerror}, expected a manifest"
        ) from exc
    pods = read_pods(text, path)
    if not pods:
        raise ConfigError(f"--pods: {path!r}: no pods, expected a manifest with pods")
    return pods


def _show(step: Step) -> None:
    page = table_page()
    page.text(Toned(step.event, Tone.TITLE), step.subject)
    if step.came_in:
        sent = ", ".join(f"{name} {value}" for name, value in step.came_in.items())
        page.text(Toned("kubelet sends:", Tone.FAINT), sent, indent=2, hanging=2)
    if step.went_out or step.before:
        wide = page.width >= _WIDE
        rows: list[tuple[str, ...]] = []
        notes: list[tuple[str, ...]] = []
        for file in sorted({**step.before, **step.went_out}):
            alone = step.before.get(file, "-")
            now = step.went_out.get(file, "as alone")
            if file == "cpu.weight" and "cpu.shares" in step.cleared:
                now = "not set"
            tone = Tone.GOOD if now not in (alone, "as alone") else None
            why = step.rules.get(file, "")
            row = (file, alone, Toned(now, tone))
            rows.append((*row, why) if wide else row)
            notes.append(() if wide or not why else (Toned(why, Tone.FAINT),))
        head = ("file", "alone", "with it", *(("because",) if wide else ()))
        page.table([titles(*head), *rows], notes=[(), *notes], indent=2)
    for refusal in step.refused:
        page.text(Toned("refused:", Tone.WARNING), refusal, indent=2, hanging=2)
    page.text("")
    page.show(flush=True)
