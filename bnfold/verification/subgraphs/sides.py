"""The two regions of one cut, extracted from both models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.schedule import read_by
from bnfold.verification.changes.boundaries import may_be_fed_in, visible
from bnfold.verification.changes.extract import Subgraph, fed_apart, walk
from bnfold.verification.changes.from_constants import are_one_constant
from bnfold.verification.changes.partly import known_of
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.coverage import read_for_sizes
from bnfold.verification.obstacles import NotCompared

Graphs = Mapping[str, ir.Graph]


def sides_of(graphs: Sequence[Graphs], cut: ir.Cut, defaults: Collection[str]) -> tuple[Subgraph, Subgraph]:
    """Return both regions of a cut; inputs named in ``defaults`` keep theirs. Raises NotCompared if there is none.

    ``graphs`` has the graphs of the original and of the rewritten model by path.
    """
    # What only one side has, because another rewrite made or named it, or computes, is no boundary for either.
    inputs = [name for name in cut.inputs if all(may_be_fed_in(each, cut, name) for each in graphs)]
    old, new = (_extracted(each, cut, inputs, defaults) for each in graphs)
    apart = fed_apart(old, new, inputs)
    shared = tuple(name for name in inputs if name not in apart)
    if apart:
        return sides_of(graphs, ir.Cut(cut.graph, shared, cut.outputs, cut.label), defaults)
    return _measured(old), _measured(new)


def from_measured(graphs: Sequence[Graphs], cut: ir.Cut) -> ir.Cut:
    """Return the cut with a boundary at each value that it only measures, and that is not computed inside.

    A rewrite names what it rewrote. A Reshape in between may read the Shape of a value far in front, and the part would
    take in all that computes it, although its sizes are all that counts.
    """
    names: dict[str, None] = {}
    for graph in (each[cut.graph] for each in graphs if cut.graph in each):
        stops = {value for name in cut.inputs if (value := visible(graph, name)) is not None}
        inside: set[ir.Value | None] = set(stops)
        for node in walk([graph.values[name] for name in cut.outputs if name in graph.values], stops)[0]:
            if not inside.isdisjoint(read_by(node)):
                inside.update(node.outputs)
            elif node.is_op("Shape", "Size") and (measured := node.input(0)) is not None:
                names[measured.name] = None
    found = (name for name in names if all(may_be_fed_in(each, cut, name) for each in graphs))
    return cut._replace(inputs=tuple(dict.fromkeys((*cut.inputs, *found))))


def proven_outside(graphs: Sequence[Graphs], cut: ir.Cut, claimed: Callable[[str], Collection[str]]) -> ir.Cut:
    """Return the cut without values of outer graphs whose sizes only the rewritten model states (``claimed``)."""
    graph = graphs[0].get(cut.graph)
    if graph is None or graph.parent is None:
        return cut
    read = {name: visible(graph, name) for name in cut.inputs}
    outer = {name: value.graph.path for name, value in read.items() if value is not None and value.graph is not graph}
    return cut._replace(inputs=tuple(n for n in cut.inputs if n not in outer or n not in claimed(outer[n])))


def _measured(part: Subgraph) -> Subgraph:
    """Return the part without what it computes for its sizes alone, where these are the same in every run."""
    measured = read_for_sizes(part)
    known: dict[ir.Value, Array] = {}
    sizes: set[ir.Value] = set()
    for node in part.nodes if measured else ():
        is_size = node.is_op("Shape") and node.inputs[0] is not None and node.inputs[0].producer in measured
        made = node.output(0)
        if made is None or not (is_size or not sizes.isdisjoint(node.inputs)):
            continue
        found = known_of(made.graph.model).certain(made)
        if found is not None and found.dtype.kind in "bi":
            known[made] = found
        else:
            sizes.update(value for value in node.outputs if value is not None)
    return part.with_known(known) if known else part


def is_constant(graphs: Sequence[Graphs], cut: ir.Cut) -> bool:
    """Whether all outputs of a cut are the same constants in every run of both models, so no inputs reveal more."""
    values = [each[cut.graph].values if cut.graph in each else {} for each in graphs]
    return all(are_one_constant(*(known.get(name) for known in values)) for name in cut.outputs)


def _extracted(graphs: Graphs, cut: ir.Cut, inputs: Sequence[str], defaults: Collection[str]) -> Subgraph:
    graph = graphs.get(cut.graph)
    if graph is None:
        raise NotCompared(Why(Code.ONE_SIDED, f"there is no graph {cut.graph!r} on one side"))
    missing = [name for name in cut.outputs if name not in graph.values]
    if missing:
        raise NotCompared(Why(Code.ONE_SIDED, f"its boundary values {missing} are not in both models"))
    stops = [value for name in inputs if name not in defaults if (value := visible(graph, name)) is not None]
    return Subgraph([graph.values[name] for name in cut.outputs], stops, defaults)
