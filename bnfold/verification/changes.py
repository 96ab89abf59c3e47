"""What differs between two models outside the cuts: nothing may hide where no rewrite said it happened.

A node counts as unchanged if its twin, the maker of the same values in the other model, has the same operator
*version*, attributes, inputs and weights. Every other node becomes a cut of its own, bounded by the nearest values that
both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import onnx

from bnfold import ir
from bnfold.verification.extract import walk
from bnfold.verification.request import Request
from bnfold.verification.rounding import same

_NEARBY = 256
"""Nodes looked at to tell whether one boundary value depends on the others."""


def uncovered(request: Request) -> list[ir.Cut]:
    """Cuts around all changes that the request's cuts do not contain."""
    before = {graph.path: graph for graph in request.before.graphs()}
    covered: dict[str, set[ir.Node]] = {}
    for cut in request.cuts:
        covered.setdefault(cut.graph, set()).update(_inside(request.after, cut))
    cuts: list[ir.Cut] = []
    for graph in request.after.graphs():
        twin = before.get(graph.path)
        cuts += _changed(graph, twin, covered.get(graph.path, set())) if twin is not None else [_lost(graph)]
    return cuts


def _lost(graph: ir.Graph) -> ir.Cut:
    """A graph without a counterpart: a cut that no comparison will find on both sides."""
    return ir.Cut(graph.path, (), tuple(value.name for value in graph.outputs), f"graph {graph.path}")


def _inside(model: ir.Model, cut: ir.Cut) -> list[ir.Node]:
    graph = next((graph for graph in model.graphs() if graph.path == cut.graph), None)
    if graph is None:
        return []
    outputs = [graph.values[name] for name in cut.outputs if name in graph.values]
    stops = {graph.values[name] for name in cut.inputs if name in graph.values}
    return walk(outputs, stops)[0]


def beyond(request: Request, failed: Sequence[ir.Cut]) -> list[ir.Cut]:
    """The next larger cuts around unannounced changes whose values differ.

    Names inside a graph are its maker's business: a value that means something else on either side is no fault if all
    that is made of it is the same. So the first such values are hidden, and what is behind them is compared instead.
    Outputs of graphs are not hidden, callers read them by their names.
    """
    before = {graph.path: graph for graph in request.before.graphs()}
    cuts: list[ir.Cut] = []
    for graph in request.after.graphs():
        inputs = {cut.outputs[0]: set(cut.inputs) for cut in failed if cut.graph == graph.path}
        twin = before.get(graph.path)
        if not inputs or twin is None:
            continue
        first = [name for name, read in inputs.items() if not read & set(inputs)]
        hidden = {name for name in first if not (graph.values[name].is_output or twin.values[name].is_output)}
        common = {name for name in graph.values if name not in hidden and _is_activation(graph, twin, name)}
        stops = [{side.values[name] for name in common} for side in (twin, graph)]
        shown = dict.fromkeys(name for name in inputs if name not in hidden)
        for side in (twin, graph):
            shown |= dict.fromkeys(_first_behind([side.values[name] for name in hidden], common))
        cuts += [_around(graph, twin, name, "what makes", stops) for name in shown]
    return cuts


def _first_behind(values: Sequence[ir.Value], common: set[str]) -> Iterator[str]:
    """Names of the first common values that are made from ``values``."""
    stack, seen = list(values), set(values)
    while stack:
        made = [output for node in stack.pop().readers for output in node.outputs if output is not None]
        for value in made:
            if value.name in common:
                yield value.name
            elif value not in seen:
                seen.add(value)
                stack.append(value)


def _changed(graph: ir.Graph, twin: ir.Graph, covered: set[ir.Node]) -> Iterator[ir.Cut]:
    """Cuts around the changed nodes of a graph, and around outputs that are no longer (or newly) inputs or weights."""
    common = {name for name in graph.values if _is_activation(graph, twin, name)}
    stops = [{side.values[name] for name in common} for side in (twin, graph)]
    for node in graph.nodes:
        if node in covered or node.is_op("Constant"):
            continue
        names = [value.name for value in node.outputs if value is not None]
        made = [name for name in names if name in common and twin.values[name].producer is not None]
        old = twin.values[made[0]].producer if made else None
        if old is None or len(made) < len(names) or not unchanged(old, node):
            yield from (_around(graph, twin, name, node.op_type, stops) for name in made)
    for value, original in zip(graph.outputs, twin.outputs, strict=False):
        if (value.producer is None) != (original.producer is None):
            yield _around(graph, twin, value.name, "output", stops)


def unchanged(old: ir.Node, new: ir.Node) -> bool:
    """Whether two nodes compute the same from values of the same names."""
    if (old.domain, old.op_type) != (new.domain, new.op_type) or _version(old) != _version(new):
        return False
    if _names(old.outputs) != _names(new.outputs) or _names(old.inputs) != _names(new.inputs):
        return False
    if _attributes(old) != _attributes(new):
        return False
    return all(_same_value(a, b) for a, b in zip(old.inputs, new.inputs, strict=False))


def _same_value(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Activations mean the same under one name; weights are compared."""
    held = ir.constant(new) if new is not None else None
    if held is None:
        return old is None or ir.constant(old) is None
    return same(ir.constant(old) if old is not None else None, held)


def _names(values: list[ir.Value | None]) -> list[str]:
    names = [value.name if value is not None else "" for value in values]
    while names and not names[-1]:
        names.pop()
    return names


def _attributes(node: ir.Node) -> dict[str, bytes | int]:
    """Attributes as bytes; of those that hold graphs only the kind, for graphs are compared by themselves."""
    kinds: Mapping[str, onnx.AttributeProto] = node.attrs
    return {
        name: attribute.type if name in node.subgraphs else attribute.SerializeToString(deterministic=True)
        for name, attribute in kinds.items()
    }


def _version(node: ir.Node) -> int:
    return since_version(node.domain, node.op_type, node.graph.opset(node.domain))


@cache
def since_version(domain: str, op_type: str, opset: int) -> int:
    """The operator version in force at an opset; the opset itself where onnx has no schema for it."""
    try:
        version: int = onnx.defs.get_schema(op_type, opset, domain).since_version
    except onnx.defs.SchemaError:
        return opset
    return version


def _around(graph: ir.Graph, twin: ir.Graph, name: str, what: str, stops: Sequence[set[ir.Value]]) -> ir.Cut:
    """The smallest cut with the output ``name``: back to values of both models, without those that depend on others."""
    leaves: dict[str, None] = {}
    for side, stop in zip((twin, graph), stops, strict=True):
        leaves.update(dict.fromkeys(leaf.name for leaf in walk([side.values[name]], stop)[1] if leaf in stop))
    originals = {twin.values[leaf] for leaf in leaves}
    inputs = tuple(leaf for leaf in leaves if not _depends(twin.values[leaf], originals))
    return ir.Cut(graph.path, inputs, (name,), f"{what} {name}")


def _is_activation(graph: ir.Graph, twin: ir.Graph, name: str) -> bool:
    """Whether both graphs have the value, and compute or are given it on both sides."""
    old = twin.values.get(name)
    return old is not None and all(
        value.tensor_proto is None and (value.is_input or value.producer is not None)
        for value in (graph.values[name], old)
    )


def _depends(value: ir.Value, others: set[ir.Value]) -> bool:
    """Whether a value is made, within a few nodes, from nothing but other boundary values and weights."""
    stops = others - {value}
    if value.producer is None or not stops:
        return False
    stack, seen = [value], {value}
    while stack:
        producer = stack.pop().producer
        for read in producer.inputs if producer is not None else ():
            if read is None or read in seen or read in stops or ir.constant(read) is not None:
                continue
            if read.producer is None or len(seen) > _NEARBY:
                return False
            seen.add(read)
            stack.append(read)
    return True
