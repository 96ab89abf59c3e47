"""A model without its weights: the protobuf skeleton, an index over it, and the payloads that stay outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from bnfold.errors import ExternalDataError
from bnfold.ir.graph import Graph, opset_of
from bnfold.ir.node import Node
from bnfold.ir.storage.payloads import Payloads
from bnfold.ir.tensor import Inline, Tensor
from bnfold.ir.value import Value


@dataclass(frozen=True, slots=True)
class ModelOrigin:
    """The file that a model was read from, if any, and where it has its weights.

    The external data of a model that is detached is in files of an unknown folder.
    """

    path: Path | None = None
    has_external_data: bool = False
    is_detached: bool = False


class Model:
    """An ONNX model whose large tensors stay on disk. ``proto`` reflects the edits after `sync`.

    A caller sets ``freeze_overridable`` to let no stored default of an input be overridden.
    """

    def __init__(self, proto: onnx.ModelProto, payloads: Payloads, origin: ModelOrigin = ModelOrigin()) -> None:
        self.proto = proto
        self.payloads = payloads
        self.origin = origin
        self.freeze_overridable = False
        self._indexed: list[Graph] = []
        self._original: dict[str, None] | None = None  # a set takes twice the room
        self._added: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._node_names: dict[str, int] | None = None
        self._maybe_dead: dict[Value, None] = {}  # made by nodes, read by nothing any more
        self._maybe_unread: dict[Value, None] = {}  # the same of values that no node makes
        self._trained = _trained(proto)
        self.graph = self.functions = None  # type: ignore[assignment]
        self.reindex()

    graph: Graph
    functions: list[Graph]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the skeleton and the tensors that it stands for. What lies in files stays there."""
        self.sync()
        skeleton = self.proto.SerializeToString()
        return _unpickled, (skeleton, self.payloads.used_in(skeleton), self.origin, self.freeze_overridable)

    def reindex(self) -> None:
        """Build the index anew from the skeleton, after something else has edited it."""
        from bnfold.ir.index import index_graph

        self._indexed, self._original, self._added, self._node_names = [], None, set(), None
        self.graph = index_graph(self, self.proto.graph, None, "")
        self.functions = [
            index_graph(self, function, None, _function_path(function)) for function in self.proto.functions
        ]

    def add_graph(self, graph: Graph) -> None:
        """Note a graph that is being indexed, for the names in it; for the index."""
        self._indexed.append(graph)

    @property
    def path(self) -> Path | None:
        """The file that the model was read from."""
        return self.origin.path

    @property
    def original_names(self) -> Collection[str]:
        """Every name of a value, a type annotation or a training graph's value, from when this was first asked on."""
        if self._original is None:
            names = dict.fromkeys(
                name for graph in self._indexed for names in (graph.values, graph.types) for name in names
            )
            for training in self.proto.training_info:
                for node in (*training.initialization.node, *training.algorithm.node):
                    names.update(dict.fromkeys((*node.input, *node.output)))
            self._original = names
        return self._original

    def has_name(self, name: str) -> bool:
        """Whether something has or had this name."""
        return name in self.original_names or name in self._added

    def note_name(self, name: str) -> None:
        """Reserve a name: no new value will get it."""
        if self._original is None or name not in self._original:
            self._added.add(name)

    @property
    def label(self) -> str:
        """What to call the model in a message."""
        return str(self.path) if self.path else "the model"

    def opset(self, domain: str = "") -> int:
        """Return the version of ``domain`` that the main graph is written in."""
        return opset_of(self.proto.opset_import, domain)

    def graphs(self) -> Iterator[Graph]:
        """Yield every graph: main, functions, and all that are nested in them."""
        for graph in (self.graph, *self.functions):
            yield from graph.subgraphs()

    def nodes(self) -> Iterator[Node]:
        """Yield every node of every graph."""
        for graph in self.graphs():
            yield from graph.nodes

    def fresh_name(self, hint: str) -> str:
        """Return ``hint``, or the hint with the first number that makes it a name nothing has or had."""
        name, count = hint, self._numbers.get(hint, 0)
        while self.has_name(name):
            count += 1
            name = f"{hint}_{count}"
        if count:
            self._numbers[hint] = count
        self._added.add(name)
        return name

    def fresh_node_name(self, hint: str) -> str:
        """Return ``hint``, or the hint with the first number that makes it a name that no node of any graph has."""
        if self._node_names is None:
            self._node_names = dict.fromkeys((node.name for node in self.nodes()), 0)
        name, count = hint, self._node_names.get(hint, 0)
        while name in self._node_names:
            count += 1
            name = f"{hint}_{count}"
        self._node_names[name] = 0
        self._node_names[hint] = count  # the last number that was tried
        return name

    def tensor(self, proto: onnx.TensorProto) -> Tensor:
        """Return the tensor that a TensorProto of the skeleton stands for."""
        if proto.data_location == onnx.TensorProto.EXTERNAL and not any(
            e.key == "location" for e in proto.external_data
        ):
            raise ExternalDataError(f"tensor {proto.name!r} has external data, but does not say where")
        return self.payloads.get(proto.raw_data) or Inline(proto)

    def is_constant_initializer(self, value: Value) -> bool:
        """Whether the stored tensor is the value in every run."""
        if value.tensor_proto is None or value.name in self._trained:
            return False
        return not (value.is_input and self.is_overridable(value))

    def is_overridable(self, value: Value) -> bool:
        """Whether the stored tensor is only a default, and a caller may feed another.

        Before IR version 4 every initializer is listed as an input and is a constant all the same; from 4 on such an
        input is a default, unless `freeze_overridable` says that no caller overrides it.
        """
        is_default = value.is_input and value.tensor_proto is not None
        return is_default and self.proto.ir_version >= 4 and not self.freeze_overridable

    def required_inputs(self) -> list[Value]:
        """Return the inputs that a caller must feed: those without a stored default."""
        sparse = {entry.values.name for entry in self.proto.graph.sparse_initializer}
        return [value for value in self.graph.inputs if value.tensor_proto is None and value.name not in sparse]

    def overridable_inputs(self) -> list[Value]:
        """Return the inputs that a caller may feed or leave: a default is stored for them."""
        return [value for value in self.graph.inputs if self.is_overridable(value)]

    def parameter_bytes(self) -> int:
        """Return bytes of all initializers."""
        held = [value for graph in self.graphs() for value in graph.values.values() if value.tensor_proto is not None]
        return sum([value.stored_bytes for value in held])

    def require_weights(self) -> None:
        """Raise ExternalDataError for a ModelProto with external data: the place of its files is unknown."""
        if self.origin.is_detached:
            raise ExternalDataError("the model has external data, but was not read from a file; load it by its path")

    def external_files(self) -> list[Path]:
        """Return the external data files that payloads lie in."""
        own = self.path.resolve() if self.path else None
        paths = {source.path for source in self.payloads.sources() if source.path is not None}
        return sorted(path for path in paths if path.resolve() != own)

    def check_sources(self) -> None:
        """Raise BadInput if a file that payloads lie in was changed since it was indexed."""
        for source in self.payloads.sources():
            source.check_unchanged()

    def sync(self) -> None:
        """Bring the skeleton in line with the edits: node order, tensors, dropped values."""
        from bnfold.ir.index import write_graph

        for graph in list(self.graphs()):
            write_graph(self, graph)

    def release_sources(self) -> None:
        """Forget, after the last edit, what small tensors were computed from, their messages hold the result."""
        self.sync()
        for graph in self.graphs():
            for value in graph.values.values():
                value.release_sources()

    def note_unread(self, value: Value) -> None:
        """Let `remove_dead_nodes` look at a value that may have no consumer any more."""
        (self._maybe_unread if value.producer is None else self._maybe_dead)[value] = None

    def remove_dead_nodes(self) -> list[str]:
        """Remove nodes and initializers that edits have left without consumers.

        Only values that have lost a consumer since the file was read are looked at; what was unused before stays.
        Returns the names that are gone.
        """
        gone: list[str] = []
        while self._maybe_dead:
            value, _ = self._maybe_dead.popitem()
            node = value.producer
            if node is None:
                self._maybe_unread[value] = None
            elif not node.removed and all(output.is_unread for output in node.outputs if output is not None):
                gone += [output.name for output in node.outputs if output is not None]
                node.graph.remove(node)
        self._maybe_dead.clear()  # what is popped leaves its room behind
        return gone + self.remove_unread_initializers()

    def remove_unread_initializers(self) -> list[str]:
        """Remove the initializers among what `remove_dead_nodes` does; no node is looked at. Returns their names."""
        unread: dict[Graph, list[Value]] = {}
        for value in self._maybe_unread:
            if value.tensor_proto is not None and value.is_unread and not value.is_input:
                unread.setdefault(value.graph, []).append(value)
        self._maybe_unread.clear()
        return [name for graph, values in unread.items() for name in graph.remove_initializers(values)]

    def learn_types(self, other: Model) -> None:
        """Take over the known facts about values from a numerically equivalent model with the same names."""
        known = {graph.path: graph.types for graph in other.graphs()}
        for graph in self.graphs():
            graph.types.update((name, kind) for name, kind in known.get(graph.path, {}).items() if name in graph.values)

    def clone(self, edit: Callable[[onnx.ModelProto], None] = lambda _: None) -> Model:
        """Return an independent copy that shares the payloads; ``edit`` changes its skeleton before it is indexed."""
        return self.snapshot(edit)()

    def with_proto(self, proto: onnx.ModelProto, *, freeze_overridable: bool | None = None) -> Model:
        """Return a model of another skeleton that shares the payloads of this one, and what callers said of it."""
        model = Model(proto, self.payloads, self.origin)
        model.freeze_overridable = self.freeze_overridable if freeze_overridable is None else freeze_overridable
        return model

    def restorable(self) -> Callable[[], None]:
        """Return what makes the model again what it is now, with nodes and values of their own."""
        self.sync()
        proto = deepcopy(self.proto)

        def restore() -> None:
            names = self._original, self._added
            self.proto.CopyFrom(proto)
            self.reindex()
            self._original, self._added = names
            self._maybe_dead.clear()
            self._maybe_unread.clear()

        return restore

    def snapshot(self, edit: Callable[[onnx.ModelProto], None] = lambda _: None) -> Callable[[], Model]:
        """Return what makes, once and when it is called, a copy of the model as it is now; the index takes longest."""
        self.sync()
        proto, freezes = deepcopy(self.proto), self.freeze_overridable
        edit(proto)

        @cache
        def made() -> Model:
            return self.with_proto(proto, freeze_overridable=freezes)

        return made


def _unpickled(skeleton: bytes, payloads: Payloads, origin: ModelOrigin, freezes: bool) -> Model:
    model = Model(onnx.ModelProto.FromString(skeleton), payloads, origin)
    model.freeze_overridable = freezes
    return model


def _trained(proto: onnx.ModelProto) -> frozenset[str]:
    """Return the values that a training graph of the model reads or sets: their meaning is not ours to change."""
    found: set[str] = set()
    for training in proto.training_info:
        for binding in (*training.initialization_binding, *training.update_binding):
            found |= {binding.key, binding.value}
        for graph in (training.initialization, training.algorithm):
            found.update(name for node in graph.node for name in node.input)
    return frozenset(found)


def _function_path(function: onnx.FunctionProto) -> str:
    """Return the path of a function; those of one name may differ in their overload (IR version 10)."""
    overload = getattr(function, "overload", "")
    return f"{function.domain}::{function.name}" + (f":{overload}" if overload else "")
