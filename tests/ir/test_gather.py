"""Many tensors in one step are what each is by itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir


def loaded(*tensors: onnx.TensorProto) -> list[ir.Value]:
    graph = helper.make_graph([], "g", [], [], tensors)
    model = ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]))
    return [model.graph.values[tensor.name] for tensor in tensors]


def alone(values: list[ir.Value]) -> np.ndarray:
    return np.concatenate([tensor.float64().reshape(-1) for value in values if (tensor := value.tensor) is not None])


@pytest.mark.parametrize("sizes", [(3, 5), (6,), (300, 2), (0, 4), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_elements_and_how_many_each_has(sizes: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(3)
    values = loaded(
        *(numpy_helper.from_array(rng.normal(size=n).astype(dtype), f"t{index}") for index, n in enumerate(sizes))
    )
    flat, counts = ir.flat_floats(values)
    assert counts == list(sizes)
    assert flat.dtype == np.float64
    np.testing.assert_array_equal(flat, alone(values) if values else [])


def test_typed_fields_matrices_and_new_tensors() -> None:
    typed = helper.make_tensor("typed", onnx.TensorProto.FLOAT, [3], [1.5, -2.0, 3.25])
    matrix = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "matrix")
    values = loaded(typed, matrix, numpy_helper.from_array(np.ones(4, np.float32), "new"))
    values[2].tensor = ir.Exact(onnx.TensorProto.FLOAT, np.array([0.1, 0.2]))
    flat, counts = ir.flat_floats(values)
    assert counts == [3, 6, 2]
    np.testing.assert_array_equal(flat, [1.5, -2.0, 3.25, 0, 1, 2, 3, 4, 5, 0.1, 0.2])
