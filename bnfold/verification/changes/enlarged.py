"""Other cuts around differences that the first cut does not decide: apart, further back, or behind a new name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bnfold import ir
from bnfold.reference.operators import BLIND_TO_ZERO_SIGN
from bnfold.verification.changes.boundaries import around, graph_pairs, is_activation, stops_of, visible
from bnfold.verification.changes.extract import constant_of, walk
from bnfold.verification.changes.partly import may_have_pole
from bnfold.verification.tolerance.discontinuities import discontinuous_slots
from bnfold.verification.tolerance.floats import is_float

_NEARBY = 256
"""Values that are followed to find a pole behind zeros of another sign, or whether one depends on others."""


def beyond(before: ir.Model, after: ir.Model, failed: Sequence[ir.Cut]) -> list[ir.Cut]:
    """Return the next larger cuts around unannounced changes whose values differ.

    A tool may give a name inside a graph to another value. That is no fault as long as everything computed from the
    value is equal, in bodies as well. So such values are hidden, and the first values behind them are compared instead.
    A value that is compared for that reason is not hidden itself. Outputs of graphs are never hidden, because callers
    read them by name.
    """
    if not failed:
        return []
    pairs = graph_pairs(before, after)
    hidden: dict[str, None] = {}
    values: list[ir.Value] = []
    shown: dict[tuple[str, str], None] = {}
    for path, sides in pairs.items():
        for cut in (cut for cut in failed if cut.graph == path):  # a compared value follows a hidden one
            name, own = cut.outputs[0], [side.values[cut.outputs[0]] for side in sides]
            if any(value.is_output for value in own) or not hidden.keys().isdisjoint(cut.inputs):
                shown[path, name] = None
            else:
                hidden[name] = None
                values += own
    common = {
        (path, name)
        for path, (original, graph) in pairs.items()
        for name in graph.values
        if name not in hidden and is_activation(graph, original, name)
    }
    shown |= dict.fromkeys(_first_behind(values, common))
    stops = stops_of(pairs.values(), besides=hidden)
    return [around(pairs[path][1], pairs[path][0], [name], "what makes", stops) for path, name in shown]


def _first_behind(values: Sequence[ir.Value], common: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield graphs and names of the first common values that are computed from ``values``."""
    stack, seen = list(values), set(values)
    while stack:
        value = stack.pop()
        readers = [*value.consumers, *([value.graph.parent] if value.is_output and value.graph.parent else [])]
        for made in (made for node in readers for made in node.outputs if made is not None):
            if (made.graph.path, made.name) in common:
                yield made.graph.path, made.name
            elif made not in seen:
                seen.add(made)
                stack.append(made)


def up_to_poles(before: ir.Model, after: ir.Model, cut: ir.Cut, inside: Collection[str]) -> list[ir.Cut]:
    """Return a cut for each of the first nodes behind a part that may make different numbers of -0.0 and 0.0.

    It begins where the part does, whose values ``inside`` may differ.
    """
    pairs = graph_pairs(before, after)
    if cut.graph not in pairs:
        return []
    original, graph = pairs[cut.graph]
    passed = dict.fromkeys(name for name in cut.outputs if name in graph.values)
    waiting = [graph.values[name] for name in passed]
    poles: dict[str, None] = {}
    while waiting and len(passed) < _NEARBY:
        for node in waiting.pop().consumers:
            made = node.output(0)
            if made is None or made.graph is not graph or made.name in passed or node.has_trait(BLIND_TO_ZERO_SIGN):
                continue
            if may_have_pole(node) and is_activation(graph, original, made.name):
                poles[made.name] = None
            else:
                passed[made.name] = None
                waiting.append(made)
    stops = stops_of(pairs.values(), besides={*passed, *inside}) if poles else ()
    return [around(graph, original, [name], "what makes", stops) for name in poles]


def apart(cut: ir.Cut) -> list[ir.Cut]:
    """Return a cut for each output of ``cut``."""
    if len(cut.outputs) == 1:
        return [cut]
    kind = cut.label.partition(" ")[0]
    return [cut._replace(outputs=(name,), label=f"{kind} {name}") for name in cut.outputs]


def further_back(before: ir.Model, after: ir.Model, cut: ir.Cut) -> Iterator[ir.Cut]:
    """Yield the cut with its boundary values replaced by those that they are computed from, step by step.

    First go all values that depend on others at the boundary: fed together, they could contradict each other. It ends
    at what no node of both models computes: inputs, of the model or of a body that runs several times.
    """
    sides = [next(graph for graph in model.graphs() if graph.path == cut.graph) for model in (before, after)]
    stops = stops_of(_outwards(*sides))

    def behind(names: Collection[str]) -> ir.Cut:
        for side, stop in zip(sides, stops, strict=True):
            read = (visible(side, name) for name in names)
            stop -= {value for value in read if value is not None and value.producer}
        return around(sides[1], sides[0], cut.outputs, "", stops)._replace(label=cut.label)

    first = cut
    while (further := behind(_depending(sides[0], cut.inputs))).inputs != cut.inputs:
        cut = further
    if cut is not first:
        yield cut
    while (further := behind(cut.inputs)).inputs != cut.inputs:
        yield (cut := further)


def has_discontinuity(before: ir.Model, after: ir.Model, cut: ir.Cut) -> bool:
    """Whether something inside a cut, in either model, is discontinuous in floats that it reads."""
    for model in (before, after):
        side = next(graph for graph in model.graphs() if graph.path == cut.graph)
        stops = {value for name in cut.inputs if (value := visible(side, name)) is not None}
        for node in walk([side.values[name] for name in cut.outputs], stops)[0]:
            read = [node.input(slot) for slot in discontinuous_slots(node)]
            if any(value is not None and is_float(value.dtype) for value in read):
                return True
    return False


def _outwards(original: ir.Graph, graph: ir.Graph) -> Iterator[tuple[ir.Graph, ir.Graph]]:
    """Yield two graphs, and the pairs around them as far as they have the same paths."""
    while True:
        yield original, graph
        if original.parent is None or graph.parent is None or original.parent.graph.path != graph.parent.graph.path:
            return
        original, graph = original.parent.graph, graph.parent.graph


def _depending(graph: ir.Graph, names: Collection[str]) -> list[str]:
    """Return names of values that nodes nearby compute from others of them and weights only."""
    values = {name: value for name in names if (value := visible(graph, name)) is not None}
    return [name for name, value in values.items() if _depends(value, {*values.values()} - {value})]


def _depends(value: ir.Value, others: set[ir.Value]) -> bool:
    stack, seen = [value], {value}
    while stack:
        producer = stack.pop().producer
        for read in producer.inputs if producer is not None else ():
            if read is None or read in seen or read in others or constant_of(read) is not None:
                continue
            if read.producer is None or len(seen) > _NEARBY:
                return False
            seen.add(read)
            stack.append(read)
    return value.producer is not None
