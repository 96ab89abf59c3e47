"""Sizes and indices that operators state, and operators whose results depend on sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.reference.constants import kept
from bnfold.reference.operators import CHOOSING, COMBINING_TRUTHS, COMPARING, READS_VALUES

Kinds = Counter[tuple[str, tuple[bytes, ...]]]

_SMALL = 64
"""Elements of a constant that states sizes, places or factors."""
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
MOST_BOUND = 4096
"""A larger constant is an end that means "all"."""

_ANY_SIZE = frozenset(
    [
        *("Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Identity", "Constant", "Cast", "Dropout", "Relu", "LeakyRelu"),
        *("PRelu", "Clip", "Sigmoid", "Tanh", "BatchNormalization", "Gemm", "MatMul", "Abs", "Ceil", "Celu", "Elu"),
        *("Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Log", "Max", "Min", "Mish", "Pow", "Reciprocal"),
        *("Round", "Selu", "Softplus", "Softsign", "Sum", "Swish", "Where"),
    ]
)
"""Operators that behave alike at all sizes."""

_ENDLESS = frozenset({"Expand", "Reshape", "Transpose"})
"""Operators whose numbers are sizes that any other size contradicts, or axes."""


def size_changes(before: ir.Model, after: ir.Model) -> Kinds:
    """Return the operators that depend on sizes and that only one of two models has.

    What a truth is combined of may be a comparison of sizes.
    """
    old, new = kinds_of(before.nodes()), kinds_of(after.nodes())
    changed = (old - new) + (new - old)
    if any(kind in COMBINING_TRUTHS for kind, _ in changed):
        changed += kinds_of(node for node in before.nodes() if node.has_trait(COMPARING))
    return changed


def depend_on_sizes(nodes: Iterable[ir.Node]) -> bool:
    """Whether one of the nodes may behave differently at other sizes than a stride apart."""
    return any(node.domain or node.op_type not in (*_ANY_SIZE, "Conv", "ConvTranspose") for node in nodes)


BEYOND = 3
"""Elements behind a bound: a single one there may be turned round, or two by two, and nothing changes."""


def largest_bound(nodes: Sequence[ir.Node]) -> int:
    """Return the largest size or index in attributes, small constants or tables of the nodes; 0 if there is none."""
    # The output_shape of a ConvTranspose is no bound on its input.
    bounding = (node for node in nodes if not node.is_op("ConvTranspose"))
    return max([0, *bounds(kinds_of(bounding)), *_last_places(nodes)])


def chooses_by_sizes(node: ir.Node) -> bool:
    """Whether the node reads a constant at indices that follow from sizes."""
    places = [value for value in node.inputs[1:] if value is not None]
    is_table = node.has_trait(CHOOSING) and reference.constant(node.input(0)) is not None
    return is_table and not all(map(reference.constant, places)) and follow_from_sizes(places)


def follow_from_sizes(values: Iterable[ir.Value]) -> bool:
    """Whether the values are computed from sizes and constants alone."""
    return all(map(_follows_from_sizes, values))


def _nothing_asked(_: ir.Model) -> dict[ir.Value, bool]:
    return {}


def _follows_from_sizes(value: ir.Value) -> bool:
    known = kept(value.graph.model, _nothing_asked)
    stack, begun = [value], set[ir.Value]()
    while stack:
        at = stack[-1]
        node = at.producer
        if at in known:
            stack.pop()
        elif reference.constant(at) is not None:
            known[at] = True
        elif node is None or node.subgraphs:
            known[at] = False
        elif node.is_op("Shape", "Size"):
            known[at] = True
        else:
            read = [known.get(source) for source in node.inputs if source is not None]
            if None in read and False not in read and at not in begun:  # a damaged graph has circles
                begun.add(at)
                stack += [source for source in node.inputs if source is not None and source not in known]
            else:
                known[at] = all(read)
    return known[value]


def _last_places(nodes: Iterable[ir.Node]) -> Iterator[int]:
    """Return the last indices of constants that are read at indices which follow from sizes."""
    tables = (reference.constant(node.input(0)) for node in nodes if chooses_by_sizes(node))
    return (dim - 1 for table in tables if table is not None for dim in table.dims if dim <= MOST_BOUND)


def bounds(kinds: Kinds) -> Iterator[int]:
    """Yield the sizes and indices in attributes and small constants at which something may end."""
    for held in (held for kind, stated in kinds if kind not in _ENDLESS for held in stated):
        numbers = np.abs(np.frombuffer(held, np.int64)) if len(held) % 8 == 0 else np.zeros(0, np.int64)
        yield from numbers[numbers <= MOST_BOUND].tolist()


def kinds_of(nodes: Iterable[ir.Node]) -> Kinds:
    """Count the operators, each with its attributes and small constants."""
    return Counter(
        (_kind(node), tuple(sorted(_numbers(node)))) for node in nodes if node.domain or node.op_type not in _ANY_SIZE
    )


def _kind(node: ir.Node) -> str:
    """Return the operator; of those that tell the sizes of one of the model's inputs, also which one."""
    read = node.input(0) if node.is_op("Shape", "Size") else None
    is_of_input = read is not None and read.is_input and read.graph.parent is None
    return f"{node.op_type} {read.name}" if read is not None and is_of_input else node.op_type


def _numbers(node: ir.Node) -> Iterator[bytes]:
    """Yield attributes and small constants as bytes, integers as int64.

    So an attribute equals the input that replaces it in later versions.
    """
    for attribute in (
        node.proto.attribute if node.domain != MACHINE_LEARNING else ()
    ):  # they are places in trees, and labels
        if attribute.name in (
            "group",
            "hidden_size",
        ):  # the weights state it, and no axis of an activation is open to it
            continue
        if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS):
            yield np.array([*attribute.ints] or [attribute.i], np.int64).tobytes()
        elif attribute.name not in node.subgraphs:
            yield attribute.SerializeToString(deterministic=True)
    for value in node.inputs[1:]:
        held = reference.constant(value)
        is_read = held is not None and (held.dtype in _INTEGERS or node.op_type in READS_VALUES)
        if held is not None and is_read and held.size <= _SMALL and held.dtype != onnx.TensorProto.STRING:
            yield held.numpy().astype(np.int64 if held.dtype in _INTEGERS else np.float64).tobytes()
