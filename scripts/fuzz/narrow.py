"""Models whose outputs are floats of eight bits or sixteen, some of them NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array

OPSETS, TARGETS = (19, 20, 21), (20, 21, 23, 25)
EIGHT = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)
TYPES = (*EIGHT, *EIGHT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw a model, its inputs, and the upgrade's target."""
    rng = np.random.default_rng([seed, 19])
    opset, dtype = int(rng.choice(OPSETS)), int(rng.choice(TYPES))
    shape = tuple(int(size) for size in rng.choice((2, 3, 4, 5), int(rng.integers(1, 4)), replace=False))
    factors = rng.choice([1.0, 1e3, 1e6, np.inf], shape[-1:], p=[0.4, 0.3, 0.2, 0.1]).astype(np.float32)
    clipping: dict[str, Any] = {"saturate": 0} if dtype in EIGHT and rng.random() < 0.7 else {}
    nodes = [
        helper.make_node(str(rng.choice(["Relu", "Tanh", "Identity"])), ["x"], ["a"]),
        helper.make_node("Mul", ["a", "k"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=dtype, **clipping),
    ]
    ends = [helper.make_tensor_value_info("y", dtype, shape)]
    if rng.random() < 0.4:
        nodes.append(helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT))
        ends.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, shape))
    if rng.random() < 0.5:
        nodes.append(helper.make_node("Identity", ["x"], ["w"]))
        ends.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, shape))
    held = [numpy_helper.from_array(factors, "k")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], ends, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    return model, feeds, {"target_opset": int(rng.choice([target for target in TARGETS if target > opset]))}
