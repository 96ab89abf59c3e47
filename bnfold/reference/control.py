"""If, Loop, Scan and SequenceMap: operators that run graphs. A body sees outer values by sharing the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from bnfold import ir
from bnfold.reference.precision import Datum, Precision, computed_type
from bnfold.reference.registry import Attribute, CannotEvaluate, Misfit

RunBody = Callable[[ir.Graph, Sequence[Datum], float], list[Datum]]
"""Runs a body on its inputs; it sees outer values, and does not keep its results.

Its last argument counts how much was run before.
"""


def handles(node: ir.Node) -> bool:
    """Whether the node is one of the operators of this module."""
    return node.is_op(*_RUNNERS)


def run_control(
    node: ir.Node, attrs: Mapping[str, Attribute], inputs: Sequence[Datum], run_body: RunBody, precision: Precision
) -> Sequence[Datum]:
    """Return the node's outputs. All versions mean the same; they differ in types, and Scan-8 in its batch axis."""
    try:
        return _RUNNERS[node.op_type](_Bodies(node, attrs, run_body, precision), inputs)
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:  # as where kernels run
        reason = f"its inputs do not fit: {' '.join(str(error).split())}"
        raise Misfit(node.op_type, node.graph.opset(), node.label, reason) from error


class _Bodies:
    """A control flow node on its way: its attributes, and how to run one of its bodies."""

    def __init__(self, node: ir.Node, attrs: Mapping[str, Attribute], run_body: RunBody, precision: Precision) -> None:
        self.node, self.attrs, self._run_body, self._precision = node, attrs, run_body, precision

    def graph(self, name: str) -> ir.Graph:
        """Return the body of that name."""
        graph = self.attrs.get(name)
        if not isinstance(graph, ir.Graph):
            self.decline(f"no graph in attribute {name!r}")
        return graph

    def decline(self, reason: str) -> NoReturn:
        """Refuse the node."""
        raise CannotEvaluate(self.node.op_type, self.node.graph.opset(), self.node.label, reason)

    def none_of(self, result: ir.Value) -> Datum:
        """Return what is stacked of a body's result that is never computed."""
        dims, dtype = result.shape, result.dtype
        if dims is None or dtype is None or not all(isinstance(dim, int) for dim in dims):
            self.decline("it runs no iteration, so the shape of what it scans is unknown")
        return np.zeros((0, *dims), computed_type(dtype, self._precision))

    def run(self, name: str, inputs: Sequence[Datum], done: float = 0.0) -> list[Datum]:
        """Return the outputs of one run of a body; ``done`` is the share of all runs before it."""
        body = self.graph(name)
        if len(inputs) != len(body.inputs):
            self.decline(f"its body takes {len(body.inputs)} inputs, not {len(inputs)}")
        return self._run_body(body, inputs, done)


def _if(bodies: _Bodies, inputs: Sequence[Datum]) -> Sequence[Datum]:
    return bodies.run("then_branch" if inputs[0].item() else "else_branch", ())


def _loop(bodies: _Bodies, inputs: Sequence[Datum]) -> Sequence[Datum]:
    """Run a Loop: inputs M, cond, carried… -> final carried…, scan outputs stacked along a new first axis.

    The body's condition ends it, as in onnxruntime and onnx's evaluator, although the text ignores it if none is given.
    """
    trips = None if inputs[0] is None else int(inputs[0].item())
    going = True if len(inputs) < 2 or inputs[1] is None else bool(inputs[1].item())
    carried = list(inputs[2:])
    ends = bodies.graph("body").outputs[1 + len(carried) :]
    scans: list[list[Datum]] = [[] for _ in ends]
    if trips is None and (len(inputs) < 2 or inputs[1] is None):
        bodies.decline("neither a trip count nor a condition ends it")
    iteration = 0
    while going and (trips is None or iteration < trips):
        turn = [np.asarray(iteration, np.int64), np.asarray(going), *carried]
        results = bodies.run("body", turn, iteration / trips if trips else 0.0)
        going = bool(results[0].item())
        carried = results[1 : 1 + len(carried)]
        for scan, piece in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(piece)
        iteration += 1
    stacked = (np.stack(scan) if scan else bodies.none_of(end) for scan, end in zip(scans, ends, strict=True))
    return *carried, *stacked


def _stack(bodies: _Bodies, pieces: list[Datum], axis: int = 0) -> Datum:
    if not pieces:
        bodies.decline("it runs no iteration, so the shape of what it scans is unknown")
    return np.stack(pieces, axis)


def _sequence_map(bodies: _Bodies, inputs: Sequence[Datum]) -> Sequence[Datum]:
    """Return the body for every element of the first input, and of those of the other inputs that are sequences."""
    rows = [
        bodies.run("body", [value[place] if isinstance(value, list) else value for value in inputs])
        for place in range(len(inputs[0]))
    ]
    return [[row[slot] for row in rows] for slot in range(len(bodies.graph("body").outputs))]


def _scan(bodies: _Bodies, inputs: Sequence[Datum]) -> Sequence[Datum]:
    """Run a Scan: inputs: states…, scanned… (version 8: sequence_lens first, and everything batched on axis 0)."""
    if bodies.node.graph.opset() >= 9:
        return _scan_one(bodies, inputs, bodies.attrs)
    reverse = {"scan_input_directions": bodies.attrs["directions"]} if "directions" in bodies.attrs else {}
    attrs = {"num_scan_inputs": bodies.attrs["num_scan_inputs"], **reverse}
    states, longest = len(inputs) - 1 - attrs["num_scan_inputs"], inputs[-1].shape[1]
    lengths = np.full(len(inputs[1]), longest) if inputs[0] is None else inputs[0]
    items = []
    for item, length in enumerate(lengths):
        sequences = [value[item][:length] for value in inputs[1 + states :]]
        ends = _scan_one(bodies, [*(value[item] for value in inputs[1 : 1 + states]), *sequences], attrs)
        items.append([*ends[:states], *(_padded(end, longest) for end in ends[states:])])
    return [np.stack(group) for group in zip(*items, strict=True)]


def _padded(sequence: Datum, length: int) -> Datum:
    """Pad with zeros, as onnxruntime: the operator's text leaves open what comes behind a sequence's end."""
    return np.pad(sequence, [(0, length - len(sequence)), *[(0, 0)] * (np.ndim(sequence) - 1)])


def _scan_one(bodies: _Bodies, inputs: Sequence[Datum], attrs: Mapping[str, Attribute]) -> Sequence[Datum]:
    count = attrs["num_scan_inputs"]
    states, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    results_count = len(bodies.graph("body").outputs) - len(states)
    axes = attrs.get("scan_input_axes") or [0] * count
    backwards = attrs.get("scan_input_directions") or [0] * count
    tracks = [
        np.flip(np.moveaxis(value, axis, 0), 0) if back else np.moveaxis(value, axis, 0)
        for value, axis, back in zip(scanned, axes, backwards, strict=True)
    ]
    pieces: list[list[Datum]] = [[] for _ in range(results_count)]
    for turn, elements in enumerate(zip(*tracks, strict=True)):
        results = bodies.run("body", [*states, *elements], turn / len(tracks[0]))
        states = results[: len(states)]
        for piece, result in zip(pieces, results[len(states) :], strict=True):
            piece.append(result)
    axes = attrs.get("scan_output_axes") or [0] * results_count
    backwards = attrs.get("scan_output_directions") or [0] * results_count
    ends = zip(pieces, axes, backwards, strict=True)
    return *states, *(_stack(bodies, piece[::-1] if back else piece, axis) for piece, axis, back in ends)


_RUNNERS = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
_LAST_CHANGED = {"Scan": 9}
"""The first version without the batch axis; later ones, and all those of the others, differ in types alone."""


def runs_bodies(op_type: str) -> bool:
    """Whether this operator of the default domain runs graphs: evaluated in every version that onnx knows."""
    return op_type in _RUNNERS


def same_since(op_type: str, version: int) -> int:
    """Return the first version of an operator of this module that means the same as this one."""
    return min(version, _LAST_CHANGED.get(op_type, 1))
