"""A pod as a picture: its cgroup, the containers in it, and their files.

Boxes are as high as their lines. A text that is too long for its box is cut, and whole
in the tables below the picture and in its tool tip.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cli.explain_page import ignored, is_native, pod_title
from nriplugin.cli.printing import printable
from nriplugin.engine.decision import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.explained import ExplainedContainer, ExplainedPod

BOX, GAP, PADDING, LINE = 268, 14, 14, 20
# The containers of a row; more of them go into the next row.
COLUMNS = 4
# The widest text of a box: the width of a character of each kind of line.
_WIDTHS = {"file": 7.3, "name": 8.0}

# Every rule begins with `svg`: the style of a picture holds for the whole page.
_STYLE = (
    "svg text{font:12px sans-serif;fill:#1a1a1a}"
    "svg .name{font-weight:bold;font-size:13px}"
    "svg .file{font:12px monospace}svg .changed{fill:#175c2b;font-weight:bold}"
    "svg .same{fill:#666}svg .ignored{fill:#8a4b00}"
    "svg .pod{fill:#f4f7fa;stroke:#5b6770}svg .container{fill:#fff;stroke:#5b6770}"
)
_MARKS = {"changed": "#2e9e54", "same": "#c4c4c4", "ignored": "#d99a1c"}


class _Line(NamedTuple):
    kind: str
    text: str


def pod_svg(pod: ExplainedPod) -> str:
    """Return the picture of a pod."""
    boxes = [(container, _lines(container)) for container in pod.containers]
    columns = min(COLUMNS, max(len(boxes), 1))
    rows = [boxes[at : at + columns] for at in range(0, len(boxes), columns)]
    own = _pod_lines(pod)
    width = PADDING * 2 + columns * (BOX + GAP) - GAP
    parts: list[str] = []
    room = width - 2 * PADDING
    y = PADDING + 14
    parts.append(_text(PADDING, y, f"{pod.kind} {pod_title(pod)}", "name", room))
    for line in own:
        y += LINE
        parts += _marked(PADDING, y, line, room)
    y += 14
    for row in rows:
        height = max(len(lines) for _, lines in row) * LINE + 40
        for column, (container, lines) in enumerate(row):
            x = PADDING + column * (BOX + GAP)
            parts += _box(x, y, height, container, lines)
        y += height + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'viewBox="0 0 {width} {y}" role="img"><style>{_STYLE}</style>'
        f'<rect class="pod" x="0.5" y="0.5" width="{width - 1}" height="{y - 1}" '
        f'rx="8"/>{"".join(parts)}</svg>'
    )


def _pod_lines(pod: ExplainedPod) -> list[_Line]:
    """Return the files of the pod's own cgroup."""
    lines = [_Line("same", f"{file} = {value}") for file, value in pod.pod_v2.items()]
    written = set()
    for container in pod.containers:
        for write in container.writes:
            if write.level == Level.POD.value:
                written.add(f"{write.file} = {write.value}")
            elif write.level == Level.ANCESTORS.value:
                # The sum over the containers of each cgroup.
                written.add(f"{write.file} + {write.value} for {container.name}")
    return [*(_Line("changed", one) for one in sorted(written)), *lines]


def _lines(container: ExplainedContainer) -> list[_Line]:
    """Return the files of a container: what changes, what does not, what is ignored."""
    changed: list[str] = []
    same: list[str] = []
    for file in container.files:
        into = same if is_native(file) else changed
        into.append(f"{file.file} = {file.value}")
    for write in container.writes:
        one = f"{write.file} = {write.value}"
        if write.level == "container" and one not in changed:
            changed.append(one)
    return [
        *(_Line("changed", one) for one in changed),
        *(_Line("same", one) for one in same),
        *(_Line("ignored", f"{what} {why}") for what, why in ignored(container)),
    ]


def _box(
    x: int, y: int, height: int, container: ExplainedContainer, lines: list[_Line]
) -> Iterator[str]:
    role = "" if container.role == "app" else f" ({container.role})"
    yield (
        f'<rect class="container" x="{x}" y="{y}" width="{BOX}" height="{height}" '
        'rx="5"/>'
    )
    yield _text(x + 10, y + 22, container.name + role, "name", BOX - 20)
    for number, line in enumerate(lines, start=1):
        yield from _marked(x + 10, y + 24 + number * LINE, line, BOX - 20)


def _marked(x: int, y: int, line: _Line, room: int) -> Iterator[str]:
    colour = _MARKS[line.kind]
    yield (
        f'<rect class="mark" x="{x}" y="{y - 10}" width="4" height="13" '
        f'fill="{colour}"/>'
    )
    yield _text(x + 10, y, line.text, f"file {line.kind}", room - 10)


def _text(x: int, y: int, content: str, kind: str, room: int) -> str:
    shown = printable(content)
    most = int(room / _WIDTHS[kind.partition(" ")[0]])
    cut = shown if len(shown) <= most else f"{shown[: most - 1]}…"
    tip = f"<title>{escape(shown)}</title>" if cut != shown else ""
    return f'<text class="{kind}" x="{x}" y="{y}">{tip}{escape(cut)}</text>'
