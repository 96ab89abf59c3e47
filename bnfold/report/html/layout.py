"""Where the boxes and wires of a small graph go: layers from top to bottom, as few crossings as a few sweeps give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

CHARACTER, LINE, PADDING = 7.3, 16, 10
GAP_X, GAP_Y, MARGIN = 18, 34, 8
LONGEST = 22
"""Characters of a name that a box shows; the whole name is in its tooltip and in the text beside the drawing."""
SWEEPS = 6
CAPTIONS = {
    "batchnorm": "this one",
    "home": "takes it over",
    "passed": "the search passed",
    "stopped": "the search stopped",
    "rewritten": "",
    "changed": "differs",
    "only": "only here",
    "context": "",
    "port": "",
}


@dataclass(slots=True, eq=False)
class Box:
    """A node, the graph's edge (role ``port``), or a bend in a long wire (no lines of text)."""

    role: str
    lines: tuple[str, ...] = ()
    full: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    room: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)

    @property
    def width(self) -> float:
        return max((len(line) for line in self.lines), default=0) * CHARACTER + 2 * PADDING if self.lines else 6

    @property
    def height(self) -> float:
        """A bend is as high as its row, so that its wire goes past the boxes beside it."""
        return max(len(self.lines) * LINE + PADDING, self.room)

    @property
    def left(self) -> float:
        return self.x - self.width / 2


@dataclass(frozen=True, slots=True)
class Wire:
    """``path`` in SVG's words; ``value`` is the name that the graph has for it."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Diagram:
    """A drawing: ``description`` says in words what it shows."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    description: str
    left_out: int


def lay_out(drawing: Mapping[str, Any]) -> Diagram:
    """Place the nodes and edges of one drawing of a report (``drawing.before`` or ``drawing.after``)."""
    boxes = [_box(node) for node in drawing["nodes"]]
    routes = [(start, end, value) for start, end, value in _ends(boxes, drawing["edges"])]
    _layers(boxes, routes)
    lines = [(_route(boxes, start, end), value) for start, end, value in routes]
    rows = _rows(boxes)
    _order(rows)
    _place(rows)
    seen = [box for box in boxes if box.lines]
    return Diagram(
        width=max((box.x + box.width / 2 for box in boxes), default=0) + MARGIN,
        height=max((box.y + box.height for box in boxes), default=0) + MARGIN,
        boxes=tuple(seen),
        wires=tuple(Wire(_path(line), value) for line, value in lines),
        description=_describe(drawing),
        left_out=drawing["left_out"],
    )


def shorten(text: str, limit: int = LONGEST) -> str:
    """Return the two ends of a long name, because exporters put the distinguishing part at either end."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[head + 1 - limit :]}"


def _box(node: Mapping[str, Any]) -> Box:
    weights = ", ".join(_counted(node["weights"]))
    lines = (node["op"], shorten(node["name"]), shorten(weights), CAPTIONS[node["role"]])
    full = f"{node['op']} {node['name']}" + (f", constants {weights}" if weights else "")
    return Box(node["role"], tuple(line for line in lines if line), full)


def _counted(shapes: Iterable[str]) -> list[str]:
    return [f"{count}×[{shape}]" if count > 1 else f"[{shape}]" for shape, count in Counter(shapes).items()]  # noqa: RUF001


def _ends(boxes: list[Box], edges: Iterable[Mapping[str, Any]]) -> list[tuple[Box, Box, str]]:
    """Return edges between boxes.

    What comes from outside or goes there gets a box of its own, one for each value and way.
    """
    nodes, ports = list(boxes), dict[tuple[str, bool], Box]()
    routes = []
    for edge in edges:
        ends = []
        for position, incoming in ((edge["from"], True), (edge["to"], False)):
            if position >= 0:
                ends.append(nodes[position])
                continue
            key = edge["value"], incoming
            if key not in ports:
                word = "input" if incoming else "output"
                ports[key] = Box("port", (f"{word} {shorten(edge['value'])}",), f"{word} {edge['value']}")
                boxes.append(ports[key])
            ends.append(ports[key])
        routes.append((ends[0], ends[1], edge["value"]))
    return routes


def _layers(boxes: Sequence[Box], routes: Sequence[tuple[Box, Box, str]]) -> None:
    """Count layers by the longest way from the top. Bounded, so that a cycle in a broken model ends too."""
    for _ in boxes:
        moved = False
        for start, end, _value in routes:
            if end.layer <= start.layer < len(boxes):
                end.layer, moved = start.layer + 1, True
        if not moved:
            break
    for port in (box for box in boxes if box.role == "port"):
        consumers = [end.layer for start, end, _value in routes if start is port]
        if consumers:  # an input stands right above its first consumer, not at the top
            port.layer = min(consumers) - 1


def _route(boxes: list[Box], start: Box, end: Box) -> list[Box]:
    """Return the boxes a wire goes through: its ends, and a bend in every layer between them."""
    line = [start]
    for layer in range(start.layer + 1, end.layer):
        bend = Box("bend", layer=layer)
        boxes.append(bend)
        line.append(bend)
    line.append(end)
    for upper, lower in pairwise(line):
        upper.below.append(lower)
        lower.above.append(upper)
    return line


def _rows(boxes: Sequence[Box]) -> list[list[Box]]:
    rows: list[list[Box]] = [[] for _ in range(max((box.layer for box in boxes), default=-1) + 1)]
    for box in boxes:
        rows[box.layer].append(box)
    return [row for row in rows if row]


def _order(rows: Sequence[list[Box]]) -> None:
    """Sort every row by where its neighbours stand, downward and upward in turn."""
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        rank = {box: position / max(len(row), 1) for row in rows for position, box in enumerate(row)}
        for row in rows if down else reversed(rows):
            wanted = {
                box: _mean([rank[other] for other in (box.above if down else box.below)], rank[box]) for box in row
            }
            row.sort(key=wanted.__getitem__)
            rank.update({box: position / len(row) for position, box in enumerate(row)})


def _place(rows: Sequence[list[Box]]) -> None:
    """Return coordinates: rows below each other, boxes under the middle of their neighbours as far as there is room."""
    y = float(MARGIN)
    for row in rows:
        x, height = float(MARGIN), max(box.height for box in row)
        for box in row:
            box.x, box.y, box.room = x + box.width / 2, y, 0.0 if box.lines else height
            x += box.width + GAP_X
        y += height + GAP_Y
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(row, [_mean([other.x for other in (*box.above, *box.below)], box.x) for box in row])
    shift = MARGIN - min((box.left for row in rows for box in row), default=0)
    for row in rows:
        for box in row:
            box.x += shift


def _spread(row: Sequence[Box], wanted: Sequence[float]) -> None:
    """Spread boxes as near to ``wanted`` as the gaps allow.

    The mean of pushing from the left and pushing from the right.
    """
    rightward, leftward = list(wanted), list(wanted)
    for index in range(1, len(row)):
        rightward[index] = max(wanted[index], rightward[index - 1] + _distance(row[index - 1], row[index]))
    for index in range(len(row) - 2, -1, -1):
        leftward[index] = min(wanted[index], leftward[index + 1] - _distance(row[index], row[index + 1]))
    for box, right, left in zip(row, rightward, leftward, strict=True):
        box.x = (right + left) / 2


def _distance(left: Box, right: Box) -> float:
    return (left.width + right.width) / 2 + GAP_X


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _path(line: Sequence[Box]) -> str:
    start = line[0]
    path = f"M{start.x:.0f} {start.y + start.height:.0f}"
    for upper, lower in pairwise(line):
        bottom = upper.y + upper.height
        middle = (bottom + lower.y) / 2
        path += f"V{bottom:.0f}" if upper is not start else ""
        path += f"C{upper.x:.0f} {middle:.0f} {lower.x:.0f} {middle:.0f} {lower.x:.0f} {lower.y:.0f}"
    return path


def _describe(drawing: Mapping[str, Any]) -> str:
    """Describe the drawing in words, for screen readers."""
    nodes = drawing["nodes"]
    consumers: dict[int, list[str]] = {}
    for edge in drawing["edges"]:
        end = edge["to"]
        name = f"{nodes[end]['op']} {nodes[end]['name']}" if end >= 0 else f"graph output {edge['value']}"
        consumers.setdefault(edge["from"], []).append(name)
    parts = []
    for position, node in enumerate(nodes):
        caption = f" ({CAPTIONS[node['role']]})" if CAPTIONS[node["role"]] else ""
        goes = f" goes to {', '.join(consumers[position])}" if position in consumers else ""
        parts.append(f"{node['op']} {node['name']}{caption}{goes}.")
    return " ".join(parts)
