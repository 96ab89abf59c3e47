"""Whether an output of the model can depend on a value: a body may return what nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from bnfold import ir
from bnfold.ir.bodies import states_of


def reaches_output(value: ir.Value) -> bool:
    """Follow a value through its consumers, and out of bodies; a function's results may all be read."""
    reached: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in reached:
            continue
        reached.add(value)
        if value.is_output and value.graph.parent is None:
            return True
        for node, slot in value.uses:
            waiting += _behind_input(node, slot)
        if value.is_output:
            waiting += _behind_result(value)
    return False


def _behind_input(node: ir.Node, slot: int) -> Iterator[ir.Value]:
    """Yield what a node makes of an input: a Loop or Scan hands a state, or what it scans, to its body."""
    states = states_of(node) if node.is_op("Loop", "Scan") and len(node.bodies) == 1 else None
    first = 2 * node.is_op("Loop")
    if states is None or slot < first:
        yield from _made(node)
        return
    yield from node.bodies[0].inputs[slot : slot + 1]
    last = node.output(slot - first) if slot - first < states else None
    yield from [last] if last is not None else ()  # after no step


def _behind_result(value: ir.Value) -> Iterator[ir.Value]:
    """Yield what a result of bodies is handed on to: outputs of the nodes around them, and the next step's state."""
    for body in value.graph.subgraphs():
        for slot, made in enumerate(body.outputs):
            if made is value and body.parent is not None:
                yield from _behind_slot(body, body.parent, slot)


def _behind_slot(body: ir.Graph, node: ir.Node, slot: int) -> Iterator[ir.Value]:
    states = states_of(node) if node.is_op("Loop", "Scan") and len(node.bodies) == 1 else None
    own = int(node.is_op("Loop"))  # a Loop's condition
    if slot < own or (states is None and not node.is_op("If")):
        yield from _made(node)
        return
    made = node.output(slot - own)
    yield from [made] if made is not None else ()
    if states is not None and slot - own < states:
        yield from body.inputs[slot + own : slot + own + 1]


def _made(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.outputs if value is not None)
