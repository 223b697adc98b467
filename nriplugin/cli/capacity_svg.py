"""A capacity report as a drawing: who may use how much of the node, on four levels.

There is one panel for CPU and one for memory, and each has the same scale from left to
right in all of its rows. The rows are the node with its reservations, the QoS classes,
the pods and the containers by their requests, and below them the pods by their limits.
What lies to the right of the line `allocatable` in the last row is overcommitted.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cli.amount_texts import short_amount
from nriplugin.cli.printing import printable
from nriplugin.kube.capacity import hugepages_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.kube.level_tree import CapacityReport, CgroupLevel

# Not wider than a page of a document, so that its letters are not made smaller there.
WIDTH = 880
LEFT, RIGHT = 118, 20
ROW, GAP, TOP = 36, 6, 62
# Limits are drawn up to so many times the capacity; what is beyond is cut off.
MOST_SCALES = 2.0
# The width of a character of the labels, and the narrowest box that has one.
CHARACTER, LEAST_LABEL = 7.9, 42

# From one line of text to the next.
LINE = 18
_LEGEND = (
    "Widths of the first four rows are requests, those of the last row limits.",
    "Hatched: reserved for the system, kubelet and eviction.",
    "Green: Guaranteed, blue: Burstable, red: overcommitted.",
)

_COLOURS = {
    "Guaranteed": "#b7dfb9",
    "Burstable": "#b5d3f2",
    "BestEffort": "#e4e4e4",
    "allocatable": "#f2f6fa",
    "free": "#ffffff",
    "reserved": "url(#reserved)",
}
_STYLE = (
    "text{font-family:sans-serif;font-size:13px;fill:#1a1a1a}"
    ".title{font-size:15px;font-weight:bold}.faint{fill:#555}"
    ".over{fill:#a40000;font-weight:bold}"
    "rect{stroke:#5b6770;stroke-width:0.6}.veil{fill:#d33;fill-opacity:0.25;stroke:none}"
    ".free{stroke-dasharray:4 3}"
    ".mark{stroke:#a40000;stroke-width:1.4;stroke-dasharray:5 3}"
)
_HATCHING = (
    '<defs><pattern id="reserved" width="8" height="8" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="8" height="8" style="stroke:none" '
    'fill="#f6e3c8"/><line x1="0" y1="0" x2="0" y2="8" stroke="#dfb87f" '
    'stroke-width="3"/></pattern></defs>'
)


class _Box(NamedTuple):
    """A part of a row: where it begins, how much it is, and how it looks."""

    start: int
    amount: int
    label: str
    colour: str
    tip: str


def capacity_svg(report: CapacityReport) -> str:
    """Return the drawing as the text of an SVG file."""
    parts = [_HATCHING]
    y = 34
    parts.append(_text(20, 24, f"Node {report.node}", "title"))
    for name in ("cpu", "memory"):
        if report.capacity.capacity.get(name):
            panel = _Panel(report, name, y)
            parts += panel.parts()
            y += panel.height
    for line in _LEGEND:
        parts.append(_text(20, y + 14, line, "faint"))
        y += LINE
    height = y + 30 - LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}"><style>{_STYLE}</style>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff" style="stroke:none"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


class _Panel:
    """The rows of one resource."""

    def __init__(self, report: CapacityReport, name: str, y: int) -> None:
        self._report = report
        self._name = name
        self._y = y
        self._capacity = report.capacity.capacity[name]
        self._allocatable = report.capacity.allocatable.get(name, self._capacity)
        self._limits = report.limits.get(name, 0)
        largest = max(self._capacity, report.requests.get(name, 0), self._limits)
        self._end = min(largest, int(self._capacity * MOST_SCALES))
        self.height = TOP + 5 * (ROW + GAP) + 2 * LINE + 16

    def parts(self) -> Iterator[str]:
        """Yield the elements of the panel."""
        yield _text(20, self._y + 28, self._title(), "title")
        rows = [
            ("Node", list(self._node_boxes())),
            ("QoS classes", list(self._class_boxes())),
            ("Pods", list(self._pod_boxes())),
            ("Containers", list(self._container_boxes())),
            ("Limits of pods", list(self._limit_boxes())),
        ]
        for number, (label, boxes) in enumerate(rows):
            y = self._y + TOP + number * (ROW + GAP)
            yield _text(20, y + ROW / 2 + 4, label, "faint")
            for box in boxes:
                yield from self._draw(box, y)
        yield from self._overcommitted()
        yield from self._marks()
        yield from self._note()

    def _title(self) -> str:
        requests = self._report.requests.get(self._name, 0)
        share = self._report.percent(self._name, requests)
        over = self._report.percent(self._name, self._limits)
        title = "CPU" if self._name == "cpu" else self._name.capitalize()
        return (
            f"{title}: {self._short(requests)} of {self._short(self._allocatable)} "
            f"allocatable requested ({share} %), limits {self._short(self._limits)} "
            f"({over} %)"
        )

    def _node_boxes(self) -> Iterator[_Box]:
        start = self._allocatable
        yield self._box(0, start, "allocatable to pods", "allocatable")
        for label, amount in self._reserved():
            yield self._box(start, amount, label, "reserved")
            start += amount

    def _reserved(self) -> Iterator[tuple[str, int]]:
        found = self._report.capacity
        for label, amounts in (
            ("eviction", found.eviction),
            ("kube", found.kube_reserved),
            ("system", found.system_reserved),
        ):
            if amounts.get(self._name):
                yield label, amounts[self._name]
        huge = hugepages_bytes(found.capacity) if self._name == "memory" else 0
        if huge:
            yield "huge pages", huge

    def _class_boxes(self) -> Iterator[_Box]:
        start = 0
        best_effort = 0
        for level in self._report.tree.below:
            amount = level.requests.get(self._name, 0)
            if level.qos_class == "BestEffort":
                best_effort = len(level.below)
            if amount:
                yield self._box(start, amount, level.qos_class, level.qos_class)
            start += amount
        free = self._allocatable - start
        if free > 0:
            label = "not requested"
            if best_effort:
                label += f"; {best_effort} BestEffort pod{'s'[: best_effort != 1]}"
            yield self._box(start, free, label, "free")

    def _pods(self) -> Iterator[CgroupLevel]:
        for level in self._report.tree.below:
            yield from level.below

    def _pod_boxes(self) -> Iterator[_Box]:
        start = 0
        for pod in self._pods():
            amount = pod.requests.get(self._name, 0)
            if amount:
                yield self._box(start, amount, pod.name, pod.qos_class)
            start += amount

    def _container_boxes(self) -> Iterator[_Box]:
        start = 0
        for pod in self._pods():
            whole = pod.requests.get(self._name, 0)
            inside = 0
            # Init containers run before the others, not beside them.
            for one in pod.below:
                amount = 0 if one.is_init else one.requests.get(self._name, 0)
                if amount:
                    tip = f"{pod.name}: {one.name}"
                    yield self._box(
                        start + inside, amount, one.name, pod.qos_class, tip
                    )
                inside += amount
            start += whole

    def _limit_boxes(self) -> Iterator[_Box]:
        start = 0
        for pod in self._pods():
            amount = pod.limits.get(self._name, 0)
            if amount:
                yield self._box(start, amount, pod.name, pod.qos_class)
            start += amount

    def _box(
        self, start: int, amount: int, label: str, colour: str, tip: str = ""
    ) -> _Box:
        shown = self._short(amount)
        return _Box(
            start, amount, f"{label} {shown}", colour, f"{tip or label} {shown}"
        )

    def _draw(self, box: _Box, y: float) -> Iterator[str]:
        left, right = self._x(box.start), self._x(box.start + box.amount)
        width = right - left
        if width <= 0:
            return
        kind = ' class="free"' if box.colour == "free" else ""
        yield (
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{ROW}"'
            f' fill="{_COLOURS.get(box.colour, "#ffffff")}"{kind}>'
            f"<title>{_escaped(box.tip)}</title></rect>"
        )
        yield from _label(box, left, width, y)

    def _overcommitted(self) -> Iterator[str]:
        """Yield a veil over the limits that are beyond what is allocatable."""
        left, right = self._x(self._allocatable), self._x(self._limits)
        if right > left:
            y = self._y + TOP + 4 * (ROW + GAP)
            yield (
                f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" '
                f'height="{ROW}" class="veil"/>'
            )

    def _marks(self) -> Iterator[str]:
        top, bottom = self._y + TOP - 6, self._y + TOP + 5 * (ROW + GAP)
        x = self._x(self._allocatable)
        for at, amount, name in (
            (x, self._allocatable, "allocatable"),
            (self._x(self._capacity), self._capacity, "capacity"),
        ):
            yield f'<path class="mark" d="M{at:.1f} {top}V{bottom}"/>'
            text = f"{name} {self._short(amount)}"
            # The two lines may be close: one label is to the left, one to the right.
            if name == "allocatable":
                yield _text(at - 4, top - 2, text, "faint", "end")
            elif at + len(text) * CHARACTER < WIDTH - 4:
                yield _text(at + 4, top - 2, text, "faint")
            else:
                yield _text(WIDTH - 6, top - 16, text, "faint", "end")

    def _note(self) -> Iterator[str]:
        """Yield what the rows cannot show."""
        notes = []
        over = self._limits - self._allocatable
        if over > 0:
            notes.append(f"overcommitted by {self._short(over)}")
        if self._limits > self._end:
            notes.append("the limits go on to the right")
        unlimited = self._report.unlimited.get(self._name, 0)
        if unlimited:
            who = "1 pod has" if unlimited == 1 else f"{unlimited} pods have"
            notes.append(f"{who} no limit and may use all of it")
        y = self._y + TOP + 5 * (ROW + GAP) + 14
        # The boxes of reservations are often too narrow for a label.
        reserved = [f"{label} {self._short(one)}" for label, one in self._reserved()]
        if notes:
            yield _text(LEFT, y, "; ".join(notes), "over" if over > 0 else "faint")
            y += LINE
        if reserved:
            yield _text(LEFT, y, f"reserved: {', '.join(reserved)}", "faint")

    def _x(self, amount: int) -> float:
        room = WIDTH - LEFT - RIGHT
        return LEFT + room * min(amount, self._end) / self._end

    def _short(self, amount: int) -> str:
        return short_amount(self._name, amount)


def _label(box: _Box, left: float, width: float, y: float) -> Iterator[str]:
    """Yield the text in a box: on one line, on two, or cut off, or none.

    A pod's namespace is left out where it does not fit; the box's tip has it.
    """
    room = int((width - 6) / CHARACTER)
    if width < LEAST_LABEL or room < 3:
        return
    middle = y + ROW / 2 + 4
    if len(box.label) <= room:
        yield _text(left + 4, middle, box.label)
        return
    name, _, amount = box.label.rpartition(" ")
    if len(name) > room:
        name = name.rpartition("/")[2]
    lines = [
        one if len(one) <= room else one[: room - 1] + "…" for one in (name, amount)
    ]
    yield _text(left + 4, middle - 7, lines[0])
    yield _text(left + 4, middle + 7, lines[1])


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return escape(printable(text))
