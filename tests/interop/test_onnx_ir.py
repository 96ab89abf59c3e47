"""Models across the border to onnx_ir: every kind of holder keeps its tensors, and what cannot be written is told."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest

from bnfold.errors import BadInput
from bnfold.interop.onnx_ir import from_onnx_ir, to_onnx_ir
from tests.conftest import MODELS


@pytest.mark.parametrize(
    "name", ["resnet_opset6", "in_if", "in_loop", "in_function", "constant_nodes", "float16", "external"]
)
def test_there_and_back_again(name: str) -> None:
    model = onnx_ir.load(MODELS / f"{name}.onnx")
    before = onnx_ir.to_proto(model)
    back = to_onnx_ir(from_onnx_ir(model))
    after = onnx_ir.to_proto(back)
    assert [node.op_type for node in after.graph.node] == [node.op_type for node in before.graph.node]
    assert after.opset_import == before.opset_import
    for key, value in model.graph.initializers.items():
        found, stored = back.graph.initializers[key].const_value, value.const_value
        assert stored is not None
        assert found.dtype == stored.dtype
        np.testing.assert_array_equal(found.numpy(), stored.numpy())
        assert (found is stored) == (stored.nbytes >= 1024)


def test_a_tensor_without_values_is_told() -> None:

    def fail() -> onnx_ir.TensorProtocol:
        raise RuntimeError("no values yet\nand more")

    model = onnx_ir.load(MODELS / "mlp.onnx")
    name, value = next(iter(model.graph.initializers.items()))
    stored = value.const_value
    value.const_value = onnx_ir.LazyTensor(fail, dtype=stored.dtype, shape=onnx_ir.Shape([1]), name=name)
    with pytest.raises(BadInput, match=r"cannot be written as ONNX \(has it all its weights\?\): no values yet$"):
        from_onnx_ir(model)
