"""The shapes and element types of a model's values, followed from its inputs and weights through its operators.

Nothing that the file declares of inner values is believed. Each size is a number, or has a name: equal names are equal
sizes in every run that ends well. Each dynamic size of an input has a name of its own, with a colon; a size that does
not follow gets a new name. In the body of a Loop or a Scan, equal names are equal sizes in each iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache, cached_property
from itertools import count

import numpy as np
import onnx

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import MAX_RANK, TP, Array
from bnfold.ir.messages import function_key
from bnfold.ir.time_limit import look_at_clock
from bnfold.ir.types import filled
from bnfold.ir.value import shape_of
from bnfold.reference.attributes import sparse_of
from bnfold.reference.constants import constant, keeping_constants, kept, run_node
from bnfold.reference.dispatch import definition
from bnfold.reference.operators import BROADCASTING, CHOOSING, MAKING_SEQUENCES, MOVING
from bnfold.reference.ranks import nodes_run, ranks_taken
from bnfold.reference.registered import said_types
from bnfold.reference.sizing import DoNotFit, Shape, SymbolicSize, results
from bnfold.registered.types import ValueType

_FEW = 64
"""Elements of a value whose numbers are followed: a shape, axes, bounds."""
_DEEPEST = 32
"""Functions that call one another, or bodies inside of one another."""
_MOST_NODES = 1 << 17
"""Nodes that are followed, those of a function once for each call."""
_NUMBERS = frozenset({TP.INT32, TP.INT64, TP.BOOL})
_DAMAGED = (BnfoldError, ValueError, IndexError, TypeError, KeyError, ArithmeticError)
"""What following a node raises that is not in order, or that reads what is not known."""
_LIKE = {"DynamicQuantizeLSTM": "LSTM", "FusedConv": "Conv", "FusedMatMul": "MatMul"}
"""Operators of com.microsoft, and those whose results have the same element types."""
_STATING = frozenset({"Cast", "Constant", "ConstantOfShape", "EyeLike", "RandomNormal", "RandomUniform"})
"""Operators with an attribute that states the element type."""


def state_types(model: ir.Model) -> ir.Node | None:
    """Give the values of a model the types that follow, as far as it declares none. Its messages stay as they are.

    Returns the first node of the main graph that cannot run at the sizes of what it reads, if there is one.
    """
    shapes = kept(model, ShapeWalk)
    for graph in model.graphs():
        for value in graph.values.values():
            kind = shapes.type_of(value) if value.producer is not None else None
            if kind is not None:
                graph.types[value.name] = filled(graph.types.get(value.name), kind)
    return shapes.misfit


class ShapeWalk:
    """What follows of the values of a model's main graph, and of the bodies in it.

    Attributes:
        misfit: The first node of the main graph that cannot run at the sizes of what it reads; None if there is none.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._functions = {function_key(function.proto): function for function in model.functions}
        self._shapes: dict[ir.Value, Shape] = {}
        self._types: dict[ir.Value, int | None] = {}
        self._elements: dict[ir.Value | None, int | None] = {}
        """Of sequences, the type of the tensors' elements."""
        self._items: dict[ir.Value, Array | None] = {}
        self._given: dict[str, str | None] = {}
        self.misfit: ir.Node | None = None
        self._fresh = count()
        self._left, self._depth = _MOST_NODES, 0
        declared = {info.name: info.type for info in model.proto.graph.input}
        for place, value in enumerate(model.graph.inputs):
            if value.tensor_proto is None or not model.is_constant_initializer(value):
                self._declare(value, place, declared.get(value.name, onnx.TypeProto()))
        with keeping_constants(model):
            self._follow(model.graph)

    def dims(self, value: ir.Value | None) -> Shape:
        """Return the sizes of a value; None if not even its rank follows, or it is no tensor."""
        if value is None:
            return None
        if value not in self._shapes:
            self._store(value)
        return self._shapes[value]

    def dtype(self, value: ir.Value | None) -> int | None:
        """Return the element type of a value; None if it does not follow, or it is no tensor."""
        if value is None:
            return None
        if value not in self._shapes:
            self._store(value)
        return self._types[value]

    def type_of(self, value: ir.Value) -> onnx.TypeProto | None:
        """Return element type and sizes of a value as a message; None if not even the element type follows.

        Sizes of inputs have the names that the file gives them, or none.
        """
        dtype, dims = self.dtype(value), self.dims(value)
        named = None if dims is None else [self._stated(dim) for dim in dims]
        return None if dtype is None else onnx.helper.make_tensor_type_proto(dtype, named)

    def _stated(self, size: SymbolicSize) -> int | str | None:
        """Return a size as a message holds it: one that is larger than any tensor's is unknown."""
        if isinstance(size, int):
            return size if size < 1 << 63 else None
        return self._given.get(size, size)

    def items(self, value: ir.Value | None) -> Array | None:
        """Return the integers of a small value as an array of numbers, names of sizes, and None for unknown ones."""
        if value is None:
            return None
        if value not in self._items:
            held, dims = constant(value), self.dims(value)
            if held is not None and held.size <= _FEW and held.dtype in _NUMBERS:
                self._items[value] = held.numpy().astype(object)
            elif (sizes := _few(dims)) is not None:
                self._items[value] = np.full(sizes, None, object)
            else:
                self._items[value] = None
        return self._items[value]

    def fresh(self) -> str:
        """Return a name for a size that nothing else follows from."""
        return f"?{next(self._fresh)}"

    def _declare(self, value: ir.Value, place: int, kind: onnx.TypeProto) -> None:
        """Take an input as it is declared. Some exporters write 0 for a size that they do not know."""
        dims = shape_of(kind)
        sizes = enumerate(dims or ())
        named = tuple(dim if isinstance(dim, int) and dim > 0 else f"{place}:{axis}" for axis, dim in sizes)
        given = zip(named, dims or (), strict=True)
        self._given.update(
            (name, dim if isinstance(dim, str) else None) for name, dim in given if isinstance(name, str)
        )
        self._note(value, None if dims is None else named, kind.tensor_type.elem_type or None)
        self._elements[value] = kind.sequence_type.elem_type.tensor_type.elem_type or None

    def _store(self, value: ir.Value) -> None:
        """Take a weight as it is stored; of any other value that was not followed, nothing is known."""
        held, sparse = value.tensor if value.is_initializer else None, sparse_of(value)
        if held is not None and len(held.dims) <= MAX_RANK:
            self._note(value, held.dims, held.dtype)
        elif sparse is not None:
            self._note(value, tuple(sparse.dims), sparse.values.data_type)
        else:
            self._note(value, None, None)

    def _note(self, value: ir.Value, shape: Shape, dtype: int | None) -> None:
        self._shapes[value] = shape if shape is None or len(shape) <= MAX_RANK else None
        self._types[value] = dtype

    def _follow(self, graph: ir.Graph) -> None:
        for node in graph.nodes:
            look_at_clock()
            self._left -= 1
            shapes: Sequence[Shape] = ()
            types: Sequence[int | None] = ()
            if self._left > 0:
                with suppress(*_DAMAGED):
                    shapes, types = self._made(node)
            for slot, value in enumerate(node.outputs):
                if value is not None:
                    shape = shapes[slot] if slot < len(shapes) else None
                    self._note(value, shape, types[slot] if slot < len(types) else None)
                    self._items.pop(value, None)  # those of another call
            with suppress(*_DAMAGED):
                self._follow_elements(node)
                self._follow_items(node)

    def _made(self, node: ir.Node) -> tuple[Sequence[Shape], Sequence[int | None]]:
        """Return the shapes and the element types of a node's outputs, as far as they follow."""
        function = self._functions.get(function_key(node.proto)) if self._functions else None
        if function is not None:
            return self._call(function, node)
        if node.subgraphs:
            return self._of_bodies(node)
        if node.domain and (said := said_types(node, [self._kind(value) for value in node.inputs])):
            named = {dim: dim for value in node.inputs for dim in self.dims(value) or () if isinstance(dim, str)}
            sizes = [tuple(self._said(dim, named) for dim in kind.dims) for kind in said]
            return sizes, [onnx.helper.np_dtype_to_tensor_dtype(kind.dtype) for kind in said]
        held = constant(node.output(0))
        if held is not None and len(node.outputs) == 1:
            return [held.dims], [held.dtype]
        types, shapes = self._result_types(node), list[Shape]()
        try:
            shapes.extend(results(node, self))
        except DoNotFit:
            if not self._depth:
                self.misfit = self.misfit or node
        except _DAMAGED:
            pass
        return shapes, types

    def _said(self, dim: int | str | None, named: dict[str, str]) -> SymbolicSize:
        """Return a size that a caller's function says: a name that the node does not read is a new one."""
        return dim if isinstance(dim, int) else named.setdefault(dim or self.fresh(), self.fresh())

    def _kind(self, value: ir.Value | None) -> ValueType | None:
        """Return the type of a value as a caller's shape function takes it. Raises ValueError if it is not known."""
        if value is None:
            return None
        dims, dtype, items = self.dims(value), self.dtype(value), self.items(value)
        if dims is None or dtype is None:
            raise ValueError("of no known type")
        numbers = (
            items.astype(np.int64) if items is not None and all(isinstance(item, int) for item in items.flat) else None
        )
        return ValueType(dims, onnx.helper.tensor_dtype_to_np_dtype(dtype), numbers)

    # -- graphs inside

    def _call(self, function: ir.Graph, node: ir.Node) -> tuple[Sequence[Shape], Sequence[int | None]]:
        """Follow a function for one call; what is inside of it may be something else in the next one."""
        if self._depth > _DEEPEST:
            return [], []
        inside = copy(self)
        inside._shapes, inside._types, inside._items = {}, {}, {}  # noqa: SLF001 - its own
        inside._depth += 1  # noqa: SLF001
        for place, value in enumerate(function.inputs):
            given = node.input(place)
            inside._note(value, self.dims(given), self.dtype(given))  # noqa: SLF001
            inside._items[value] = self.items(given)  # noqa: SLF001
        inside._follow(function)  # noqa: SLF001
        self._left = inside._left  # noqa: SLF001
        return [inside.dims(value) for value in function.outputs], [inside.dtype(value) for value in function.outputs]

    def _of_bodies(self, node: ir.Node) -> tuple[Sequence[Shape], Sequence[int | None]]:
        """Follow the bodies. Of results, what the branches of an If have in common is known, else the types alone."""
        if self._depth > _DEEPEST:
            return [], []
        self._depth += 1
        for body in node.bodies:
            self._enter(node, body)
            self._follow(body)
        self._depth -= 1
        carried = [body.outputs[node.is_op("Loop") :] for body in node.bodies]
        if not carried or node.domain:
            return [], []
        places = range(min(map(len, carried)))
        types = [[self.dtype(ends[place]) for ends in carried] for place in places]
        shapes = [[self.dims(ends[place]) for ends in carried] for place in places]
        return (
            [self._common(each, node.output(place)) if node.is_op("If") else None for place, each in enumerate(shapes)],
            [each[0] if len({*each}) == 1 else None for each in types],
        )

    def _enter(self, node: ir.Node, body: ir.Graph) -> None:
        """Note what is known of the inputs of a body: sizes may differ between iterations."""
        states = len(node.inputs) - int(node.attr("num_scan_inputs", 0)) if node.is_op("Scan") else len(node.inputs)
        for place, value in enumerate(body.inputs):
            if node.is_op("Loop") and place <= 1:
                self._note(value, (), TP.BOOL if place else TP.INT64)
            else:
                given = node.input(place)
                is_state = place < states
                self._note(value, None, self.dtype(given) if is_state or node.is_op("Scan") else None)
                self._elements[value] = self._elements.get(given)

    def _common(self, shapes: Sequence[Shape], made: ir.Value | None) -> Shape:
        """Return what the branches of an If have in common, but for those of a rank that ends every run."""
        if made is not None and len({None if shape is None else len(shape) for shape in shapes}) != 1:
            ranks = ranks_taken(made, self._run)
            shapes = [shape for shape in shapes if shape is None or ranks is None or len(shape) in ranks]
            if None in shapes and ranks is not None and len(ranks) == 1:
                return tuple(self.fresh() for _ in range(*ranks))
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes) or len({*map(len, known)}) != 1:
            return None
        return tuple(sizes[0] if len({*sizes}) == 1 else self.fresh() for sizes in zip(*known, strict=True))

    @cached_property
    def _run(self) -> set[ir.Node]:
        return nodes_run(self._model)

    # -- element types

    def _result_types(self, node: ir.Node) -> list[int | None]:
        """Return the element types of outputs: those that an attribute or the schema states, or of inputs alike."""
        is_like = node.domain == "com.microsoft" and node.op_type in _LIKE
        domain, op_type = ("", _LIKE[node.op_type]) if is_like else (node.domain, node.op_type)
        known = definition(domain, op_type, node.graph.opset(domain))
        if known is None or not known.output_types:
            return []
        if node.is_op(*_STATING):
            return [_stated(node, self.dtype(node.input(0)))]
        if node.is_op("CastLike"):
            return [self.dtype(node.input(1))]
        if node.is_op("Bernoulli", "RandomNormalLike", "RandomUniformLike", "QuantizeLinear", "DequantizeLinear"):
            stated = node.attr("dtype") or node.attr("output_dtype")
            if stated:
                return [int(stated)]
            if node.is_op("QuantizeLinear"):
                return [TP.UINT8 if node.input(2) is None else self.dtype(node.input(2))]
        alike: dict[str, int | None] = {}
        for slot, value in enumerate(node.inputs):
            name = known.input_types[min(slot, len(known.input_types) - 1)]
            if alike.get(name) is None:
                alike[name] = self.dtype(value)
        names = [known.output_types[min(slot, len(known.output_types) - 1)] for slot in range(len(node.outputs))]
        if node.is_op("ConcatFromSequence", "SequenceAt"):
            alike["T"] = self._elements.get(node.input(0))
        single = _single_types(domain, op_type, known.version)
        return [single.get(name, alike.get(name)) for name in names]

    def _follow_elements(self, node: ir.Node) -> None:
        """Note the type of the elements of a sequence: that of its first tensor, or of the sequence that it was."""
        if node.is_op("SequenceEmpty"):
            self._elements[node.output(0)] = node.attr("dtype", TP.FLOAT)
        elif node.is_op("Identity") or node.has_trait(MAKING_SEQUENCES) or (node.subgraphs and not node.domain):
            for slot, value in enumerate(node.outputs):
                ends: list[ir.Value | None] = [body.outputs[slot + node.is_op("Loop")] for body in node.bodies]
                sources = ends or [node.input(0)]
                types = {self._elements.get(source) or self.dtype(source) for source in sources}
                if value is not None and self.dtype(value) is None and len(types) == 1:
                    self._elements[value] = types.pop()

    # -- integers

    def _follow_items(self, node: ir.Node) -> None:
        """Note the integers of a small result, where they follow from sizes."""
        value = node.output(0)
        if value is None or node.domain or node.subgraphs or node.is_call or node.has_references:
            return
        if node.is_op("Shape"):
            dims = self.dims(node.input(0))
            if dims is not None:
                self._items[value] = np.array(dims[slice(node.attr("start", 0), node.attr("end"))], object)
            return
        if self.dtype(value) not in _NUMBERS or not (node.op_type in _MOVED or node.has_trait(BROADCASTING)):
            return
        if constant(value) is not None or not node.inputs:
            return
        for slot, made in enumerate(node.outputs):
            if made is not None and (items := self._items_of(node, slot)) is not None:
                self._items[made] = items

    def _items_of(self, node: ir.Node, slot: int) -> Array | None:
        """Return what a node that moves or combines integers makes of them."""
        operands = [self.items(value) for value in node.inputs]
        if node.is_op("Cast", "Identity"):
            return operands[0]
        if any(value is not None and items is None for value, items in zip(node.inputs, operands, strict=True)):
            return None
        moved = range(len(operands)) if node.is_op("Concat") else (1, 2) if node.is_op("Where") else (0,)
        if node.op_type not in (*_MOVED, "Where"):
            return self._combined(node, slot, operands)
        table: list[object] = []
        arrays: list[Array | None] = []
        for place, (value, items) in enumerate(zip(node.inputs, operands, strict=True)):
            if items is None:
                arrays.append(None)
            elif place in moved:
                arrays.append(np.arange(len(table), len(table) + items.size).reshape(items.shape))
                table.extend(items.reshape(-1).tolist())
            elif any(not isinstance(item, int) for item in items.reshape(-1).tolist()):
                return None
            else:
                arrays.append(np.array(items.tolist(), _as_numpy(self.dtype(value))))
        made = run_node(node, slot, arrays, "stored")
        if made.size > _FEW:
            return None
        flat = np.empty(made.size, object)
        flat[:] = [table[place] for place in made.reshape(-1).tolist()]
        return flat.reshape(made.shape)

    def _combined(self, node: ir.Node, slot: int, operands: Sequence[Array | None]) -> Array | None:
        """Return what arithmetic makes of integers, where all that it takes for an element are numbers."""
        held = [items for items in operands if items is not None]
        if np.broadcast_shapes(*(items.shape for items in held)) not in {items.shape for items in held}:
            return None
        masks = [*map(_are_numbers, held)]
        arrays = [
            np.where(mask, items, _STAND_IN).astype(_as_numpy(self.dtype(value)))
            for mask, items, value in zip(masks, held, node.inputs, strict=True)
        ]
        made = run_node(node, slot, arrays, "stored").astype(object)
        unknown = ~np.logical_and.reduce(np.broadcast_arrays(*masks))
        if node.is_op("Equal"):
            made[unknown & _never_equal(*held)], unknown = False, unknown & ~_never_equal(*held)
        made[unknown] = None
        return made


_STAND_IN = 5
"""In the place of a number that is not known."""
_MOVED = (MOVING | CHOOSING | {"Cast", "Identity"}) - {"Pad"}


def _are_numbers(items: Array) -> Array:
    return np.array([isinstance(item, int) for item in items.reshape(-1).tolist()], np.bool_).reshape(items.shape)


def _never_equal(one: Array, other: Array) -> Array:
    """Return which elements are a size beside a negative number."""
    pairs = np.broadcast(one, other)
    found = [any(isinstance(a, str) and isinstance(b, int) and b < 0 for a, b in (pair, pair[::-1])) for pair in pairs]
    return np.array(found, np.bool_).reshape(pairs.shape)


def _few(dims: Shape) -> tuple[int, ...] | None:
    """Return the dims of a scalar or a vector of few elements; None for others."""
    sizes = tuple(dim for dim in dims or () if isinstance(dim, int) and dim <= _FEW)
    return sizes if dims is not None and len(sizes) == len(dims) <= 1 else None


def _as_numpy(dtype: int | None) -> type[np.generic]:
    return np.int32 if dtype == TP.INT32 else np.bool_ if dtype == TP.BOOL else np.int64


_CODES: Mapping[str, int] = {f"tensor({name.lower()})": code for name, code in TP.DataType.items() if code}


@cache
def _single_types(domain: str, op_type: str, version: int) -> Mapping[str, int]:
    """Return the element types of an operator's type variables that stand for one type, and of types that it states."""
    schema = onnx.defs.get_schema(op_type, version, domain)
    texts = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    single = {name: _CODES.get(kinds[0], 0) for name, kinds in texts.items() if len(kinds) == 1}
    return {**_CODES, **{name: code for name, code in single.items() if code}}


def _stated(node: ir.Node, read: int | None) -> int | None:
    """Return the element type that an attribute states, or the one that holds without it."""
    if node.is_op("Cast"):
        to = node.attr("to")
        return int(TP.DataType.Value(to) if isinstance(to, str) else to)
    if node.is_op("ConstantOfShape"):
        fill = node.attr("value")
        return TP.FLOAT if fill is None else int(fill.data_type)
    if node.is_op("Constant"):
        return None
    return int(node.attr("dtype", 0)) or (read if node.is_op("EyeLike") else int(TP.FLOAT))
