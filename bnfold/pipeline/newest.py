"""The newest opset that the installed onnx and onnxruntime both load."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import onnx
from onnx import helper

from bnfold import ir
from bnfold.converting.ir_version import ir_version_of
from bnfold.ir.elements import Array
from bnfold.ir.schemas import newest_opset

_SECONDS = 60
_OLDEST = 15
"""No onnxruntime that bnfold runs with stops before."""


@cache
def newest_loaded() -> int:
    """Return the newest opset of onnx at which onnxruntime runs a small quantized network; onnx's own without one.

    A runtime may take the number of an opset before it has the operators that the opset changed.
    """
    newest = newest_opset()
    if find_spec("onnxruntime") is None:
        return newest
    from bnfold.verification.runtimes.runtime import RuntimeProcess

    runtime, feeds = RuntimeProcess("onnxruntime"), [{"x": np.zeros((1, 1, 4, 4), np.float32)}]
    opsets = range(newest, _OLDEST - 1, -1)
    return next((opset for opset in opsets if runtime.run(ir.load(_network(opset)), feeds, _SECONDS).ran), newest)


def _network(opset: int) -> onnx.ModelProto:
    """Return a network of operators that most networks have, quantized or not."""
    weights: dict[str, Array] = {
        "w": np.ones((2, 1, 3, 3), np.float32),
        "scale": np.array(0.5, np.float32),
        "zero": np.array(3, np.uint8),
        "rows": np.array([1, 8], np.int64),
        "m": np.ones((8, 2), np.float32),
    }
    steps = [
        ("Conv", ["x", "w"]),
        ("Relu", ["Conv"]),
        ("QuantizeLinear", ["Relu", "scale", "zero"]),
        ("DequantizeLinear", ["QuantizeLinear", "scale", "zero"]),
        ("Reshape", ["DequantizeLinear", "rows"]),
        ("MatMul", ["Reshape", "m"]),
        ("Softmax", ["MatMul"]),
    ]
    nodes = [helper.make_node(op_type, inputs, [op_type]) for op_type, inputs in steps]
    nodes.append(helper.make_node("Cast", ["Softmax"], ["Cast"], to=onnx.TensorProto.DOUBLE))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 1, 4, 4))],
        [helper.make_tensor_value_info("Cast", onnx.TensorProto.DOUBLE, (1, 2))],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version_of(opset))
