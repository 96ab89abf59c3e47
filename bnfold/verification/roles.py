"""What an input is for, told from who reads it; and integers that such a reader accepts.

Random floats in the place of a variance, or random integers in the place of an index, would fail or say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bnfold import ir
from bnfold.ir.elements import TP
from bnfold.verification.floats import is_float

Array = npt.NDArray[Any]

_CARRIERS = frozenset(
    ["Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Concat"]
)
_LOOKAHEAD = 16
_LARGE = 2**31 - 1

_SIGNED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64)

_ROLES: dict[tuple[str, int], str] = {
    **{(op, 1): "weight" for op in ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")},
    **{(op, 2): "weight" for op in ("LSTM", "GRU", "RNN")},
    **{(op, 2): "bias" for op in ("Conv", "ConvTranspose", "Gemm")},
    **{
        (op, 1): "scale"
        for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    },
    **{
        (op, 2): "bias"
        for op in ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    },
    ("BatchNormalization", 3): "bias",
    ("BatchNormalization", 4): "positive",
    ("PRelu", 1): "bias",
    ("Div", 1): "scale",  # of both signs, and away from zero
    ("Sqrt", 0): "positive",
    ("Log", 0): "positive",
    ("QuantizeLinear", 1): "positive",
    ("DequantizeLinear", 1): "positive",
    ("Resize", 2): "factor",
    ("Upsample", 1): "factor",
    ("Dropout", 1): "unit",
}


def role(value: ir.Value) -> str:
    """``weight``, ``bias``, ``scale``, ``positive``, ``factor`` (resizing), ``unit`` (0…1) or ``data``."""
    known = ((node, _ROLES[node.op_type, slot]) for node, slot in _uses(value) if (node.op_type, slot) in _ROLES)
    return next((purpose for node, purpose in known if not (purpose == "weight" and _is_product_with(node))), "data")


def _is_product_with(node: ir.Node) -> bool:
    """Whether the first operand is a constant: then the second is no weight, but the data."""
    return node.is_op("MatMul", "Gemm") and ir.constant(node.input(0)) is not None


def integers(value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Integers that the first understood reader accepts; small ones where none is understood.

    They are of both signs only where nothing is done with them that asks for a count, such as making floats of them.
    """
    for node, slot in _uses(value):
        rule = _INTEGERS.get((node.op_type, slot))
        if rule is not None:
            return np.asarray(rule(node, shape, rng))
    lowest = -8 if value.uses and value.dtype in _SIGNED and all(_takes_any_sign(node) for node, _ in value.uses) else 0
    return rng.integers(lowest, 9, size=shape)


def _takes_any_sign(node: ir.Node) -> bool:
    if not node.is_op("Cast"):
        return node.is_op("Abs", "Sign", "Relu")
    target = None if node.has_references else node.attr("to", 0)
    return target in ("FLOAT", "DOUBLE", "FLOAT16") or (isinstance(target, int) and is_float(target))


def _uses(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Uses by operators of the default domain, through those that only hand values on."""
    queue, seen = [value], {value}
    while queue and len(seen) < _LOOKAHEAD:
        for node, slot in queue.pop(0).uses:
            if node.domain:
                continue
            yield node, slot
            follow = node.output(0) if node.op_type in _CARRIERS and (slot == 0 or node.is_op("Concat")) else None
            if follow is not None and follow not in seen:
                seen.add(follow)
                queue.append(follow)


def _index(node: ir.Node, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Indices into an axis of the first input; only 0 where its size is not known."""
    data = node.inputs[0]
    dims = data.shape if data is not None else None
    axis = int(node.attr("axis", 0))
    size = dims[axis] if dims and -len(dims) <= axis < len(dims) else 1
    return rng.integers(0, size if isinstance(size, int) and size > 0 else 1, size=shape)


def _target(node: ir.Node, shape: tuple[int, ...], _: np.random.Generator) -> Array:
    """The declared shape of the result; else ones, the last one open."""
    result = node.output(0)
    dims = result.shape if result is not None else None
    count = int(np.prod(shape))
    if dims and len(dims) == count and all(isinstance(dim, int) for dim in dims):
        return np.array(dims, np.int64).reshape(shape)
    return np.array([1] * (count - 1) + [-1] * min(count, 1), np.int64).reshape(shape)


def _result_dims(node: ir.Node, shape: tuple[int, ...], _: np.random.Generator) -> Array:
    result = node.output(0)
    dims = result.shape if result is not None else None
    count = int(np.prod(shape))
    known = [dim if isinstance(dim, int) else 4 + axis for axis, dim in enumerate(dims or ())]
    return np.array((known + [2 + axis for axis in range(count)])[:count], np.int64).reshape(shape)


def _depth(node: ir.Node, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    depth = node.input(1)
    tensor = ir.constant(depth) if depth is not None else None
    return rng.integers(0, int(tensor.numpy().reshape(-1)[0]) if tensor is not None else 2, size=shape)


def _full(number: int) -> Callable[[ir.Node, tuple[int, ...], np.random.Generator], Array]:
    return lambda _, shape, __: np.full(shape, number, np.int64)


def _counting(_: ir.Node, shape: tuple[int, ...], __: np.random.Generator) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


_INTEGERS: dict[tuple[str, int], Callable[[ir.Node, tuple[int, ...], np.random.Generator], Array]] = {
    ("Gather", 1): _index,
    ("GatherElements", 1): _index,
    ("ScatterElements", 1): _index,
    ("GatherND", 1): _full(0),
    ("ScatterND", 1): _full(0),
    ("OneHot", 0): _depth,
    ("OneHot", 1): _full(5),
    ("Reshape", 1): _target,
    ("Expand", 1): _full(1),
    ("Tile", 1): _full(2),
    ("ConstantOfShape", 0): _result_dims,
    ("Resize", 3): _result_dims,
    ("Slice", 1): _full(0),
    ("Slice", 2): _full(_LARGE),
    ("Slice", 3): _counting,
    ("Slice", 4): _full(1),
    ("Pad", 1): _full(1),
    ("TopK", 1): _full(1),
    ("Loop", 0): _full(3),
    ("Range", 0): _full(0),
    ("Range", 1): _full(5),
    ("Range", 2): _full(1),
    ("Squeeze", 1): _counting,
    ("Unsqueeze", 1): _counting,
    ("LSTM", 4): _full(2),
    ("GRU", 4): _full(2),
    ("RNN", 4): _full(2),
}
