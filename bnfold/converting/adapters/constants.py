"""Constants that old versions of Constant and ConstantOfShape cannot make: they are stored, or spread out."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.ir.lifting import held_tensor
from bnfold.ir.sparse import dense

TP = onnx.TensorProto
_MADE_BY_THE_FIRST = (TP.FLOAT16, TP.FLOAT, TP.DOUBLE)


@down("Constant", 9)
def stored(conversion: NodeConversion) -> None:
    """Convert Constant 9 → 1, which makes floats: what else there is becomes an initializer, as runtimes make it."""
    node, message = conversion.node, held_tensor(conversion.node)
    if message is None:
        raise Inexpressible("holds no tensor")
    if message.data_type in _MADE_BY_THE_FIRST:
        return
    if isinstance(conversion.graph.proto, onnx.FunctionProto):
        raise Inexpressible("is in a function, which has no initializers")
    if conversion.output().is_output:
        held = conversion.graph.add_constant(conversion.label, onnx.numpy_helper.to_array(message))
        conversion.become("Identity", [held])
        return
    conversion.graph.store_output(node, message)
    conversion.finished = conversion.replaced = True


@down("Constant", 11, by_form=True)
def dense_value(conversion: NodeConversion) -> None:
    """Convert Constant 11 → 9, which holds no sparse tensor: its zeros are stored."""
    sparse: onnx.SparseTensorProto | None = conversion.take("sparse_value")
    if sparse is None:
        return
    try:
        array = dense(conversion.graph.model, sparse)
    except (ValueError, IndexError) as error:
        raise Inexpressible(f"has a sparse_value that cannot be stored with its zeros: {error}") from error
    conversion.node.set_attr("value", onnx.numpy_helper.from_array(array))
    conversion.touched = True


@down("ConstantOfShape", 9)
def spread(conversion: NodeConversion) -> None:
    """Decompose ConstantOfShape: Expand of one element."""
    message = conversion.take("value")
    element = np.zeros((), np.float32) if message is None else onnx.numpy_helper.to_array(message).reshape(())
    conversion.become("Expand", [conversion.constant(element, "element"), conversion.input(0)])


LARGEST = 1 << 20
"""Elements that are stored where a node made them."""


@down("EyeLike", 9)
def stored_eye(conversion: NodeConversion) -> None:
    """Store the matrix that EyeLike makes of known sizes."""
    data, sizes = conversion.input(0), [size for size in conversion.shape(conversion.input(0)) or () if size]
    if len(sizes) != conversion.rank(data) or not all(isinstance(size, int) for size in sizes):
        raise Inexpressible("makes a matrix of unknown sizes")
    kind, diagonal = int(conversion.take("dtype", 0)) or conversion.dtype(data), int(conversion.take("k", 0))
    rows, columns = (int(size) for size in sizes)
    if rows * columns > LARGEST:
        raise Inexpressible(f"makes a matrix of {rows} by {columns}, too large to be stored")
    eye = np.eye(rows, columns, diagonal).astype(numeric_type(kind))
    conversion.become("Identity", [conversion.constant(eye, "eye")])
