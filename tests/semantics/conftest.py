"""One-node models of any version, as the exporters of their time wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir

NodeMaker = Callable[..., ir.Node]


@pytest.fixture
def batchnorm() -> NodeMaker:
    """``batchnorm(opset, outputs=…, shape=…, params=…, reads=…, **attrs)``: the node, in a model of that opset."""

    def make(
        opset: int,
        *,
        outputs: Sequence[str] = ("y",),
        shape: Sequence[int | str] | None = (2, 3, 4, 5),
        params: Sequence[int] = (3,),
        reads: Sequence[str] = (),
        **attrs: Any,
    ) -> ir.Node:
        names = ["scale", "bias", "mean", "var"]
        node = helper.make_node("BatchNormalization", ["x", *names], list(outputs), name="bn", **attrs)
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", float32, shape)],
            [helper.make_tensor_value_info(name, float32, None) for name in ("y", *reads)],
            [numpy_helper.from_array(np.ones(params, np.float32), name) for name in names],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return ir.load(model).graph.nodes[0]

    return make
