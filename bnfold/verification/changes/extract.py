"""The region of a model between some values, as a small model of its own.

The walk goes back from the outputs over the index, so its cost is the region's size, whatever the model's. Weights are
shared, not copied: the region's skeleton carries the same tokens. Values captured from enclosing graphs are followed
outward, which makes the region of an If or Loop body a flat model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

import onnx

from bnfold import ir, reference
from bnfold.errors import Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.sparse import dense
from bnfold.ir.tensor import InMemory
from bnfold.reference.attributes import sparse_of
from bnfold.reference.operators import DRAWING, REARRANGING
from bnfold.reference.schedule import read_by
from bnfold.verification.tolerance.floats import is_float


def producer_of_elements(value: ir.Value | None) -> ir.Node | None:
    """Return the node that computes the elements of a value, behind nodes that only rearrange them."""
    producers = value.producers() if value is not None else ()
    return next((node for node in producers if not node.has_trait(REARRANGING)), None)


class Subgraph:
    """The nodes that compute some values, what these nodes store, and what has to be fed.

    It ends at ``stops``, at weights, and at inputs of the graph. Inputs named in ``defaults`` keep their default; other
    inputs are fed, even if they have one. What is ``known`` is stored. The model must be in sync (`ir.Model.sync`).
    Raises Unsupported if two values of the part share one name.
    """

    def __init__(
        self,
        outputs: Sequence[ir.Value],
        stops: Collection[ir.Value],
        defaults: Collection[str] = (),
        known: Mapping[ir.Value, Array] | None = None,
    ) -> None:
        stopped = {*stops, *(known or ())}
        self.outputs = outputs
        self.nodes, leaves = walk(outputs, stopped)
        _check_names([*leaves, *(value for node in self.nodes for value in node.outputs if value is not None)])
        self.stored: list[ir.Value] = []
        self.fed: list[ir.Value] = []
        self.known = {value: array for value, array in (known or {}).items() if value in leaves}
        for value in leaves:
            if value in self.known:
                continue
            if value.tensor_proto is not None:
                is_stored = value not in stopped and (value.name in defaults or not _is_free(value))
            else:
                is_stored = sparse_of(value) is not None
            (self.stored if is_stored else self.fed).append(value)

    def with_outputs(self, values: Iterable[ir.Value]) -> Subgraph:
        """Return the same part with some of its inner values as further outputs."""
        return self._again([*self.outputs, *values], self.known)

    def with_known(self, known: Mapping[ir.Value, Array]) -> Subgraph:
        """Return the same part without what computes these values."""
        return self._again(self.outputs, {**self.known, **known})

    def fed_with(self, names: Collection[str]) -> Subgraph:
        """Return the same part, fed with some of its inner values instead of computing them."""
        inner = [value for node in self.nodes for value in node.outputs if value is not None and value.name in names]
        return Subgraph(self.outputs, [*self.fed, *inner], {value.name for value in self.stored}, self.known)

    def _again(self, outputs: Sequence[ir.Value], known: Mapping[ir.Value, Array]) -> Subgraph:
        return Subgraph(outputs, self.fed, {value.name for value in self.stored}, known)

    @property
    def inputs(self) -> dict[str, ir.Value]:
        """The values to feed, by name."""
        return {value.name: value for value in self.fed}

    @cached_property
    def model(self) -> ir.Model:
        """A model of its own that computes the outputs."""
        source = self.outputs[0].graph.model
        proto = _header(source, self.outputs[0].graph)
        if any(node.is_call or node.subgraphs for node in self.nodes):
            proto.functions.extend(function.proto for function in source.functions)
        for value in self.stored:
            if value.tensor_proto is not None:
                proto.graph.initializer.append(value.tensor_proto)
            elif (sparse := sparse_of(value)) is not None:
                proto.graph.sparse_initializer.append(sparse)
        for value, array in self.known.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        proto.graph.input.extend(map(_info, self.fed))
        proto.graph.node.extend(node.proto for node in self.nodes)
        proto.graph.output.extend(map(_info, self.outputs))
        return ir.Model(proto, source.payloads)


def draws(node: ir.Node) -> bool:
    """Whether a node may draw random numbers."""
    return node.has_trait(DRAWING) or node.is_op("Dropout")


def fed_apart(old: Subgraph, new: Subgraph, boundaries: Collection[str]) -> set[str]:
    """Return boundaries that only one part reads and computes from boundaries that only the other part reads.

    Such boundaries depend on each other. If random numbers are drawn for each of them, they may take values together
    that the models never compute.
    """
    apart: set[str] = set()
    for side, other in ((old, new), (new, old)):
        met, others = ({value.name for value in found.fed} for found in (side, other))
        for value in side.fed:
            if value.name in boundaries and value.name not in others:
                known = value.graph.values
                leaves = walk([value], {known[name] for name in boundaries if name in known})[1]
                if not (others - met).isdisjoint(leaf.name for leaf in leaves):
                    apart.add(value.name)
    return apart


def _is_free(value: ir.Value) -> bool:
    """Whether the value is an input with a default that any other floats may replace."""
    return value.graph.model.is_overridable(value) and is_float(value.dtype)


def walk(outputs: Sequence[ir.Value], stops: Collection[ir.Value]) -> tuple[list[ir.Node], list[ir.Value]]:
    """Return nodes between ``stops`` and ``outputs`` in an order that can be executed, and the values they start from.

    The walk goes through the outputs themselves even if they are among the stops.
    """
    order: list[ir.Node] = []
    leaves: dict[ir.Value, None] = {}
    entered: set[ir.Node] = set()
    targets = set(outputs)
    stack: list[tuple[ir.Value | None, ir.Node | None]] = [(value, None) for value in reversed(outputs)]
    while stack:
        value, done = stack.pop()
        if done is not None:
            order.append(done)
        if value is None:
            continue
        producer = value.producer
        if producer is None or (value in stops and value not in targets):
            leaves[value] = None
        elif producer not in entered:
            entered.add(producer)
            stack.append((None, producer))
            stack.extend((read, None) for read in read_by(producer))
    return order, list(leaves)


def _header(source: ir.Model, graph: ir.Graph) -> onnx.ModelProto:
    """Return an empty model of the same dialect; from IR version 4 on, weights need not be listed as inputs."""
    proto = onnx.ModelProto(ir_version=max(source.proto.ir_version, 4))
    imports = graph.proto.opset_import if isinstance(graph.proto, onnx.FunctionProto) else source.proto.opset_import
    proto.opset_import.extend(imports)
    proto.graph.name = "region"
    return proto


def _check_names(values: Sequence[ir.Value]) -> None:
    by_name: dict[str, ir.Value] = {}
    for value in values:
        if by_name.setdefault(value.name, value) is not value:
            raise Unsupported(f"the region has two values named {value.name!r}, from different scopes")


def constant_of(value: ir.Value | None) -> ir.Tensor | None:
    """Return the tensor of a constant, or of a default that a caller may override."""
    sparse = sparse_of(value) if value is not None else None
    if value is None or sparse is None:
        return reference.constant(value) or (value.tensor if value is not None else None)
    array = dense(value.graph.model, sparse)
    return InMemory(sparse.values.data_type, array)


def _info(value: ir.Value) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=value.name)
    if value.type is not None:
        info.type.CopyFrom(value.type)
    return info


def computed(nodes: Iterable[ir.Node], is_constant: Callable[[ir.Value], bool]) -> list[ir.Node]:
    """Return the nodes, of some in their order, that compute from constants alone."""
    values: set[ir.Value] = set()
    found = []
    for node in nodes:
        reads = [value for value in node.inputs if value is not None]
        if reads and not node.subgraphs and all(value in values or is_constant(value) for value in reads):
            values.update(value for value in node.outputs if value is not None)
            found.append(node)
    return found


def computed_constants(model: ir.Model, fed: Collection[str]) -> list[ir.Value]:
    """Return values of the main graph that are computed from nothing ``fed``, and that others or callers read."""
    nodes = computed(
        model.graph.nodes, lambda value: value.name not in fed and (value.is_initializer or value.holds_constant)
    )
    values = {value: None for node in nodes for value in node.outputs if value is not None}
    return [
        value
        for value in values
        if value.is_output or any(output not in values for node in value.consumers for output in node.outputs)
    ]
