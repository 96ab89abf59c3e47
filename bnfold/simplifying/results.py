"""Results of If, Loop, Scan and functions that nothing reads, and what only they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.ir.bodies import states_of
from bnfold.ir.messages import FunctionKey, function_key
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.rewrites import UNREAD_RESULT
from bnfold.simplifying.around import reached, with_inner

_LOOP_WITHOUT_STATE = 11
"""The first opset whose Loop may hand on nothing from step to step."""
_SCAN_WITHOUT_BATCH = 9
"""The first opset of the Scan whose inputs are those of its body."""


class _Slots(NamedTuple):
    """What a node with bodies may lose: outputs and inputs of it, and of each body, the highest first."""

    outputs: list[int]
    body_outputs: list[int]
    inputs: list[int]
    body_inputs: list[int]


class Purity:
    """Which nodes do nothing but compute, as far as is known: an operator of another domain may do more."""

    def __init__(self, model: ir.Model) -> None:
        self._functions: Mapping[FunctionKey, ir.Graph] = {_key(graph): graph for graph in reversed(model.functions)}
        self._pure: dict[FunctionKey, bool] = {}

    def only_computes(self, node: ir.Node) -> bool:
        """Whether neither a node nor one in its bodies may do more than compute."""
        return all(self._is_pure(inner) for inner in with_inner(node))

    def _is_pure(self, node: ir.Node) -> bool:
        key = function_key(node.proto) if self._functions else ("", "", "")
        if key not in self._functions:
            return not node.domain
        if key not in self._pure:
            self._pure[key] = all(map(self.only_computes, self._functions[key].nodes))
        return self._pure[key]


def drop_unread(model: ir.Model, purity: Purity) -> list[SimplifyEvent]:
    """Drop results that nothing reads, until none is left, and return what was dropped.

    A node keeps one result at least: one without any goes as a whole, unless it may do more than compute.
    """
    events: list[SimplifyEvent] = []
    while True:
        holders = [(node, _event(node.label, node.graph, node.op_type)) for node in model.nodes() if node.subgraphs]
        dropped = [event for node, event in holders if _drop_from(node, purity)]
        calls: dict[FunctionKey, list[ir.Node]] = {_key(graph): [] for graph in model.functions}
        for node in model.nodes() if calls else ():
            if (key := function_key(node.proto)) in calls:
                calls[key].append(node)
        once = Counter(map(_key, model.functions))
        functions = [
            graph
            for graph in model.functions
            if once[_key(graph)] == 1 and _drop_from_function(graph, model, calls[_key(graph)])
        ]
        dropped += [_event(graph.proto.name, graph, graph.proto.name) for graph in functions]
        model.remove_dead_nodes()
        if not dropped:
            return events
        events += dropped


def _event(label: str, graph: ir.Graph, name: str) -> SimplifyEvent:
    return SimplifyEvent(UNREAD_RESULT.of(name), label, graph.path, name, "")


def _drop_from(node: ir.Node, purity: Purity) -> bool:
    """Drop unread results of a node with bodies; return whether there were any."""
    unread = {slot for slot, value in enumerate(node.outputs) if value is None or value.is_unread}
    if node.removed or len(unread) == len(node.outputs) or not (unread or node.is_op("Loop", "Scan")):
        return False
    slots = _slots(node, unread, purity)
    if slots is None or not any(slots):
        return False
    if node.is_op("Scan"):
        _shorten_lists(node, slots)
    for body in node.bodies:
        for slot in slots.body_outputs:
            body.drop_output(slot)
    node.graph.model.remove_dead_nodes()
    for body in node.bodies:
        for slot in slots.body_inputs:
            body.drop_input(slot)
    for slot in slots.outputs:
        node.drop_output(slot)
    ir.update_paths(node)
    if slots.inputs:
        node.set_inputs([value for slot, value in enumerate(node.inputs) if slot not in slots.inputs])
    return True


def _slots(node: ir.Node, unread: Collection[int], purity: Purity) -> _Slots | None:
    """Return what a node may lose; None if that cannot be said."""
    bodies, outputs = node.bodies, len(node.outputs)
    if node.is_op("If"):
        dropped = sorted(unread, reverse=True)
        fits = len(bodies) == 2 and all(len(body.outputs) == outputs for body in bodies)
        return _Slots(dropped, dropped, [], []) if fits else None
    states = states_of(node) if node.is_op("Loop", "Scan") and len(bodies) == 1 else None
    if states is None or states < 0:
        return None
    body, own = bodies[0], node.is_op("Loop")  # a Loop has a condition before its states, and a count of its steps
    first = 2 * own
    if len(body.inputs) != len(node.inputs) or len(body.outputs) != outputs + own or states > outputs:
        return None
    if node.is_op("Scan") and node.graph.opset() < _SCAN_WITHOUT_BATCH:
        return None
    needed = _needed(node, body, states, unread, purity)
    results = sorted(
        {slot for slot in unread if slot >= states or body.inputs[first + slot] not in needed}, reverse=True
    )
    lost = [slot + first for slot in results if slot < states]
    if node.is_op("Scan"):
        scanned = [slot for slot in range(len(body.inputs) - 1, states - 1, -1) if body.inputs[slot] not in needed]
        lost = [*(scanned if len(scanned) < len(body.inputs) - states else scanned[:-1]), *lost]
    if any(body.inputs[slot].is_initializer for slot in lost):
        return None
    return _Slots(results, [slot + own for slot in results], lost, lost)


def _needed(node: ir.Node, body: ir.Graph, states: int, unread: Collection[int], purity: Purity) -> set[ir.Value]:
    """Return the values of a body that its condition, the results that are read, or nodes that may do more need.

    A state is needed if its last value is read, or if what it was a step before is needed.
    """
    own = node.is_op("Loop")
    ends = [value for slot, value in enumerate(body.outputs) if slot < own or slot - own not in unread]
    for inner in body.nodes:
        ends += _read(inner) if not inner.outputs or not purity.only_computes(inner) else []
    needed = _computed_from(ends, body)
    kept = any(slot not in unread or body.inputs[2 * own + slot] in needed for slot in range(states))
    if own and states and not kept and node.graph.opset() < _LOOP_WITHOUT_STATE:
        needed.add(body.inputs[2])
    while True:
        again = [body.outputs[own + slot] for slot in range(states) if body.inputs[2 * own + slot] in needed]
        more = _computed_from([*ends, *again], body) | needed
        if len(more) == len(needed):
            return needed
        needed = more


def _computed_from(ends: Iterable[ir.Value], body: ir.Graph) -> set[ir.Value]:
    """Return these values, and all within a body that they are computed from."""
    inside = {*body.subgraphs()}

    def sources(value: ir.Value) -> list[ir.Value]:
        return _read(value.producer) if value.producer is not None and value.graph in inside else []

    return reached(ends, sources)


def _read(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, and what its bodies read and return."""
    read = [value for inner in with_inner(node) for value in inner.inputs if value is not None]
    return read + [value for body in node.bodies for graph in body.subgraphs() for value in graph.outputs]


def _shorten_lists(node: ir.Node, slots: _Slots) -> None:
    """Take what a Scan loses out of the attributes that have an entry for each input or result along an axis."""
    scanned = int(node.attr("num_scan_inputs"))
    states = len(node.inputs) - scanned
    of_inputs = [slot - states for slot in slots.inputs if slot >= states]
    of_results = [slot - states for slot in slots.outputs if slot >= states]
    for what, places in (("input", of_inputs), ("output", of_results)):
        for name in (f"scan_{what}_axes", f"scan_{what}_directions"):
            stated = node.attr(name)
            kept = [number for place, number in enumerate(stated or ()) if place not in places]
            if kept:
                node.set_attr(name, kept)
            elif stated:
                node.del_attr(name)
    if of_inputs:
        node.set_attr("num_scan_inputs", scanned - len(of_inputs))


def _key(graph: ir.Graph) -> FunctionKey:
    assert isinstance(graph.proto, onnx.FunctionProto), "a function of the model"
    return function_key(graph.proto)


def _is_read(call: ir.Node, slot: int) -> bool:
    value = call.output(slot)
    return value is not None and not value.is_unread


def _drop_from_function(graph: ir.Graph, model: ir.Model, found: Iterable[ir.Node]) -> bool:
    """Drop what a function returns if no call that was ``found`` reads it, and what it takes if nothing reads it."""
    calls = [node for node in found if not node.removed]
    outputs = [slot for slot in reversed(range(len(graph.outputs))) if not any(_is_read(call, slot) for call in calls)]
    if not calls or len(outputs) == len(graph.outputs):
        return False
    for slot in outputs:
        graph.drop_output(slot)
        for call in calls:
            if slot < len(call.outputs):
                call.drop_output(slot)
    model.remove_dead_nodes()
    inputs = [slot for slot in reversed(range(len(graph.inputs))) if graph.inputs[slot].is_unread]
    for slot in inputs:
        graph.drop_input(slot)
    for call in calls if inputs else ():
        call.set_inputs([value for slot, value in enumerate(call.inputs) if slot not in inputs])
    return bool(outputs or inputs)
