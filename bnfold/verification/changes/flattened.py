"""A model written anew, with the branches that some of its Ifs take in the place of the Ifs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from bnfold import ir
from bnfold.ir.index import graphs_of
from bnfold.verification.changes.partly import only_output


class Flattened:
    """A model being written anew, without some of its Ifs."""

    def __init__(self, model: ir.Model, taken: Mapping[ir.Node, ir.Graph], copied: Mapping[ir.Node, ir.Value]) -> None:
        self._model, self._taken, self._copied = model, taken, copied
        self._used = [name for graph in model.graphs() for name in graph.values]
        self._fresh: set[str] = set()

    def copy(self) -> ir.Model:
        """Return a copy of the model in which the branches stand."""
        self._model.sync()
        proto = onnx.ModelProto()
        proto.CopyFrom(self._model.proto)
        self._fill(self._model.graph, proto.graph, {})
        return self._model.with_proto(proto)

    def _fill(self, graph: ir.Graph, message: onnx.GraphProto, names: Mapping[str, str]) -> None:
        """Write the nodes of a graph into its message; ``names`` are those that outer values have now."""
        nodes = list(self._nodes(graph, message, names))
        del message.node[:]
        message.node.extend(nodes)
        for info in message.output:
            info.name = names.get(info.name, info.name)

    def _nodes(self, graph: ir.Graph, into: onnx.GraphProto, names: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
        ends = {self._copied[node].name: only_output(node).name for node in graph.nodes if node in self._copied}
        names = {**names, **{name: names.get(end, end) for name, end in ends.items()}}
        for node in graph.nodes:
            if node in self._copied:
                continue
            if node in self._taken:
                yield from self._branch(node, self._taken[node], into, names)
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node.proto)
            copy.input[:] = [names.get(name, name) for name in copy.input]
            copy.output[:] = [names.get(name, name) for name in copy.output]
            held = graphs_of(copy) if node.subgraphs else {}
            for key, bodies in node.subgraphs.items():
                for body, inner in zip(bodies, held[key], strict=True):
                    self._fill(body, inner, {old: new for old, new in names.items() if old not in body.values})
            yield copy

    def _branch(
        self, node: ir.Node, branch: ir.Graph, into: onnx.GraphProto, names: Mapping[str, str]
    ) -> Iterator[onnx.NodeProto]:
        """Yield the nodes of a branch, in which each result has the name of the If's output."""
        ends = [names.get(value.name, value.name) if value is not None else "" for value in node.outputs]
        own: dict[str, str] = {}
        for result, end in zip(branch.outputs, ends, strict=True):
            if end and result.graph is branch and result.producer is not None:
                own.setdefault(result.name, end)
        for name in branch.values:
            own.setdefault(name, self._name(name))
        inner = {**names, **own}
        assert isinstance(branch.proto, onnx.GraphProto), "as was looked at"
        for tensor in branch.proto.initializer:
            stored = into.initializer.add()
            stored.CopyFrom(tensor)
            stored.name = own[tensor.name]
        yield from self._nodes(branch, into, inner)
        for result, end in zip(branch.outputs, ends, strict=True):
            source = inner.get(result.name, result.name)
            if end and source != end:
                yield onnx.NodeProto(op_type="Identity", input=[source], output=[end])

    def _name(self, name: str) -> str:
        """Return the name of a value that moves out of its branch; another one if several graphs have it."""
        if self._used.count(name) == 1:
            return name
        number = 1
        while f"{name}_{number}" in self._fresh or self._model.has_name(f"{name}_{number}"):
            number += 1
        self._fresh.add(f"{name}_{number}")
        return f"{name}_{number}"
