"""Find all differences between two models that no rewrite announced, and draw cuts around them.

The counterpart of a node produces values of the same names in the other model. A node is unchanged if its counterpart
has an operator with the same *meaning*, and equal attributes, inputs and stored tensors; the nodes of its bodies have
to be unchanged too. Every other node gets a cut of its own. The cut begins at the nearest values that exist in both
models and can be fed (`may_be_fed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx

from bnfold import ir, reference
from bnfold.ir.messages import FunctionKey, function_key
from bnfold.reference.operators import MAKING_SEQUENCES
from bnfold.reference.schedule import captured
from bnfold.verification.changes.extract import constant_of, producer_of_elements, walk
from bnfold.verification.changes.unchanged import same_value, signature, unchanged

_T = onnx.TensorProto


def uncovered(before: ir.Model, after: ir.Model, cuts_done: Sequence[ir.Cut]) -> Iterator[ir.Cut]:
    """Yield cuts around all changes that the given cuts do not contain."""
    pairs = graph_pairs(before, after)
    covered: dict[str, set[ir.Node]] = {}
    for cut in cuts_done:
        graph = pairs[cut.graph][1] if cut.graph in pairs else None
        covered.setdefault(cut.graph, set()).update(_inside(graph, cut))
    calls = changed_functions(before, after)
    with reference.keeping_constants(before), reference.keeping_constants(after):
        stops = stops_of(pairs.values())
        for path, (original, graph) in pairs.items():  # any other graph belongs to a node that has changed itself
            yield from _changed(graph, original, covered.get(path, set()), calls, stops)


def graph_pairs(before: ir.Model, after: ir.Model) -> dict[str, tuple[ir.Graph, ir.Graph]]:
    """Return the graphs of both models that have one path, by that path."""
    originals = {graph.path: graph for graph in before.graphs()}
    return {graph.path: (originals[graph.path], graph) for graph in after.graphs() if graph.path in originals}


def with_changes(before: ir.Model, after: ir.Model, cuts: Iterable[ir.Cut]) -> list[ir.Cut]:
    """Return the cuts that contain a difference.

    A rewrite may change nothing: a node that states a default equals one that leaves it out.
    """
    old, new = ({graph.path: graph for graph in model.graphs()} for model in (before, after))
    return [cut for cut in cuts if _differs(old.get(cut.graph), _inside(new.get(cut.graph), cut))]


def _differs(graph: ir.Graph | None, nodes: Collection[ir.Node]) -> bool:
    """Whether there are no nodes, or ``graph`` lacks an unchanged producer of some node's first output."""
    made = [(node, next((value.name for value in node.outputs if value is not None), "")) for node in nodes]
    originals = [(node, graph.values.get(name)) for node, name in made if graph is not None and name]
    return not originals or any(
        original is None or original.producer is None or not unchanged(original.producer, node)
        for node, original in originals
    )


def changed_defaults(before: ir.Model, after: ir.Model) -> set[str]:
    """Return inputs that have another default in the other model, or that callers can override in one model only."""
    old, new = (
        {value.name: value for value in model.graph.inputs if model.is_overridable(value)} for model in (before, after)
    )
    return {name for name in {*old, *new} if not (name in old and name in new and same_value(old[name], new[name]))}


def changed_unseen(before: ir.Model, after: ir.Model) -> bool:
    """Whether a changed node is never run by a comparison, because it is dead or computes a constant."""
    originals = {graph.path: graph for graph in before.graphs()}
    with reference.keeping_constants(before), reference.keeping_constants(after):
        return any(_changed_unseen(graph, originals.get(graph.path)) for graph in after.graphs())


def _changed_unseen(graph: ir.Graph, original: ir.Graph | None) -> bool:
    read = _read_nodes(graph)
    for node in (node for node in graph.nodes if not node.is_op("Constant")):
        if node in read and constant_of(node.output(0)) is None:
            continue
        made = next((value.name for value in node.outputs if value is not None), "")
        old = original.values.get(made) if original is not None else None
        if old is None or old.producer is None or not unchanged(old.producer, node):
            return True
    return False


def _read_nodes(graph: ir.Graph) -> dict[ir.Node, None]:
    """Return the nodes that some output depends on, in the order of the graph."""
    made_here = [value for value in graph.outputs if value.graph is graph]
    read = set(walk(made_here, set(captured(graph)))[0])
    return {node: None for node in graph.nodes if node in read}


def changed_functions(before: ir.Model, after: ir.Model) -> set[FunctionKey]:
    """Return the functions that have no counterpart of the same signature in the other model."""
    old, new = ({function_key(graph.proto): signature(graph) for graph in each.functions} for each in (before, after))
    return {key for key in {*old, *new} if old.get(key) != new.get(key)}


def _inside(graph: ir.Graph | None, cut: ir.Cut) -> set[ir.Node]:
    """Return the nodes inside a cut.

    A node whose result is also read outside the cut is left out. It is compared separately.
    """
    if graph is None:
        return set()
    outputs = {graph.values[name] for name in cut.outputs if name in graph.values}
    stops = {value for name in cut.inputs if (value := visible(graph, name)) is not None}
    nodes = set(walk(list(outputs), stops)[0])
    made = {node: [value for value in node.outputs if value is not None and value not in outputs] for node in nodes}
    return {
        node
        for node in nodes
        if not any(
            value.is_output or any(not _is_within(consumer, nodes) for consumer in value.consumers)
            for value in made[node]
        )
    }


def _is_within(node: ir.Node | None, nodes: Collection[ir.Node]) -> bool:
    """Whether a node is one of these, or in a body of one of these."""
    return node is not None and (node in nodes or _is_within(node.graph.parent, nodes))


_COUNTS = frozenset({_T.INT16, _T.INT32, _T.INT64, _T.UINT16, _T.UINT32, _T.UINT64, _T.BOOL, _T.STRING})


def may_be_fed(value: ir.Value) -> bool:
    """Whether a value may be replaced by numbers of our own.

    Integers that a node computes are sizes, indices and choices. Other integers would contradict the values that they
    were computed from, and would hide errors in using them. A dequantized value may not be replaced either: it takes
    few values only, and other numbers would be clipped when it is quantized again. Sequences are not drawn.
    """
    if value.is_input:
        return True
    is_sequence = value.producer is not None and value.producer.has_trait(MAKING_SEQUENCES)
    return value.dtype not in _COUNTS and not is_sequence and not _is_dequantized(value)


def visible(graph: ir.Graph, name: str) -> ir.Value | None:
    """Return the value that ``name`` means in the graph or around it; None if there is none."""
    while name not in graph.values and graph.parent is not None:
        graph = graph.parent.graph
    return graph.values.get(name)


def may_be_fed_in(graphs: Mapping[str, ir.Graph], cut: ir.Cut, name: str) -> bool:
    """Whether ``name`` at the boundary of a cut means a value that may be fed and is no constant."""
    value = visible(graphs[cut.graph], name) if cut.graph in graphs else None
    return value is not None and may_be_fed(value) and reference.constant(value) is None


def _is_dequantized(value: ir.Value | None) -> bool:
    producer = producer_of_elements(value)
    return producer is not None and producer.is_op("DequantizeLinear")


def _changed(
    graph: ir.Graph,
    original: ir.Graph,
    covered: Collection[ir.Node],
    calls: Collection[FunctionKey],
    stops: Sequence[set[ir.Value]],
) -> Iterator[ir.Cut]:
    """Yield cuts around the changed nodes of a graph.

    Outputs get a cut as well if they are an input or a weight in one model only.
    """
    common = {name for name in graph.values if is_activation(graph, original, name)}
    for node in _read_nodes(graph):
        if node in covered or constant_of(node.output(0)) is not None:  # a constant is compared with its consumers
            continue
        names = [value.name for value in node.outputs if value is not None]
        made = [name for name in names if name in common and original.values[name].producer is not None]
        old = original.values[made[0]].producer if made else None
        is_renewed = function_key(node.proto) in calls
        if old is None or len(made) < len(names) or is_renewed or not unchanged(old, node):
            # The outputs of a body, or of a recurrent operator, share one cut, so that it runs only once.
            is_long = node.subgraphs or node.is_op("LSTM", "GRU", "RNN")
            together = [made] if is_long and made else [[name] for name in made]
            yield from (around(graph, original, names, node.op_type, stops) for names in together)
    for value, former in zip(graph.outputs, original.outputs, strict=False):
        if value.graph is graph and former.graph is original and not _same_output(former, value):
            yield around(graph, original, [value.name], "output", stops)


def _same_output(old: ir.Value, new: ir.Value) -> bool:
    return (old.producer is None) == (new.producer is None) and same_value(old, new)


def stops_of(
    pairs: Iterable[tuple[ir.Graph, ir.Graph]], *, besides: Collection[str] = ()
) -> tuple[set[ir.Value], set[ir.Value]]:
    """Return the values at which cuts may begin, of either side of the graphs: those that may be fed in both models."""
    found: tuple[set[ir.Value], set[ir.Value]] = set(), set()
    for original, graph in pairs:
        for name, value in graph.values.items():
            if name in besides or not is_activation(graph, original, name):
                continue
            if may_be_fed(value) and may_be_fed(original.values[name]):
                found[0].add(original.values[name])
                found[1].add(value)
    return found


def around(
    graph: ir.Graph, original: ir.Graph, names: Sequence[str], what: str, stops: Sequence[set[ir.Value]]
) -> ir.Cut:
    """Return the smallest cut with the outputs ``names``; it begins at values of both models."""
    leaves: dict[str, None] = {}
    for side, stop in zip((original, graph), stops, strict=True):
        made = [side.values[name] for name in names]
        leaves.update(dict.fromkeys(leaf.name for leaf in walk(made, stop)[1] if leaf in stop))
    return ir.Cut(graph.path, tuple(leaves), tuple(names), f"{what} {names[0]}")


def is_activation(graph: ir.Graph, original: ir.Graph, name: str) -> bool:
    """Whether both graphs have the value, and in both it is an input or computed by a node."""
    return all(
        value is not None and value.tensor_proto is None and (value.is_input or value.producer is not None)
        for value in (graph.values.get(name), original.values.get(name))
    )
