"""`nriplugin explain --html`: one page with a picture of each pod, without any script.

The picture shows the pod's cgroup with its containers side by side, and in each the
files: those that nriplugin changes, those that the runtime writes anyway, and what is
ignored. The page refers to nothing outside of itself, and every text of a manifest in
it is escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nriplugin.cli.explain_page import (
    changes,
    ignored,
    is_native,
    joined,
    numbers,
    pod_title,
    reason,
)
from nriplugin.cli.explain_svg import pod_svg
from nriplugin.cli.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nriplugin.explained import ExplainedContainer, ExplainedPod

_STYLE = """
:root{color-scheme:light}
body{font:15px/1.45 sans-serif;margin:0 auto;max-width:1200px;padding:16px;
color:#1a1a1a;background:#fff}
h1{font-size:22px}h2{font-size:19px;margin-top:36px;border-top:1px solid #ccc;
padding-top:16px;overflow-wrap:anywhere}h3{font-size:16px;margin:20px 0 4px}
.picture{overflow-x:auto;margin:16px 0}
table{border-collapse:collapse;width:100%;table-layout:fixed}
td,th{text-align:left;vertical-align:top;padding:3px 12px 3px 0;
border-bottom:1px solid #eee;overflow-wrap:anywhere}
th{width:17em;font:13px/1.6 monospace}
.changed th{color:#175c2b;font-weight:bold}.ignored th{color:#8a4b00}
.same th{color:#555}p.warning{background:#fff3d6;border-left:4px solid #d99a1c;
padding:6px 10px;margin:6px 0;overflow-wrap:anywhere}
.faint{color:#555}summary{cursor:pointer;color:#555;margin-top:8px}
@media(max-width:640px){th,td{display:block;width:auto;border:0;padding:1px 0}
td{border-bottom:1px solid #eee;padding-bottom:6px}}
"""


def explained_html(pods: Sequence[ExplainedPod]) -> str:
    """Return the page as text."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>nriplugin explain</title><style>{_STYLE}</style></head><body>",
        "<h1>What nriplugin does with these pods</h1>",
        '<p class="faint">Green: a value that there would not be without nriplugin. '
        "Grey: what the runtime writes anyway. Orange: what is ignored, and why.</p>",
    ]
    for pod in pods:
        parts += _pod(pod)
    if not pods:
        parts.append("<p>No pods.</p>")
    return "\n".join([*parts, "</body></html>\n"])


def _pod(pod: ExplainedPod) -> Iterator[str]:
    count = pod.replicas
    replicas = "" if count is None else f", {count} replica{'s'[: count != 1]}"
    yield f"<h2>{text(pod.kind)} {text(pod_title(pod))}</h2>"
    yield f'<p class="faint">{text(pod.qos_class)}{replicas}</p>'
    for warning in pod.warnings:
        yield f'<p class="warning">{text(warning)}</p>'
    yield f'<div class="picture">{pod_svg(pod)}</div>'
    for container in pod.containers:
        yield from _container(container)
    rows = [
        ("curve", f"{pod.curve} ({pod.curve_evidence})"),
        *((f"cgroup ({driver})", path) for driver, path in pod.cgroups.items()),
        ("kubelet writes", joined(pod.pod_v2)),
    ]
    yield from _folded("The pod's cgroup", rows)


def _container(container: ExplainedContainer) -> Iterator[str]:
    role = "" if container.role == "app" else f" ({container.role})"
    yield f"<h3>Container {text(container.name)}{text(role)}</h3>"
    if container.settings:
        yield f'<p class="faint">settings of {text(container.settings)}</p>'
    if container.shadow:
        yield '<p class="warning">shadow mode: these values are only shown</p>'
    changed, refused = list(changes(container)), list(ignored(container))
    yield from _table("changed", changed)
    yield from _table("ignored", refused)
    if not changed and not refused:
        yield '<p class="faint">Everything is as without nriplugin.</p>'
    same = [
        (f"{one.file} = {one.value}", reason(one))
        for one in container.files
        if is_native(one)
    ]
    notes = [("note", note) for note in container.notes]
    yield from _folded(
        "Requests, limits and what the runtime writes anyway",
        [*numbers(container), *same, *notes],
    )


def _folded(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield from _table("same", rows)
    yield "</details>"


def _table(kind: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    lines = [
        f"<tr><th>{text(what)}</th><td>{text(why)}</td></tr>" for what, why in rows
    ]
    if lines:
        yield f'<table class="{kind}">{"".join(lines)}</table>'


def text(given: str) -> str:
    """Return a text of a manifest as HTML."""
    return escape(printable(given))
