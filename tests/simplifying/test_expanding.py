"""An Expand goes if the operator behind it broadcasts its operand anyway."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.simplifying.small import model, operators, run, simplified

CASES = {
    "numbers": ("float[1,4] x, float[3,4] z", "e = Expand (x, s) y = Add (e, z)", "int64[2] s = {3, 4}", ["Add"]),
    "the second": ("float[1,4] x, float[3,4] z", "e = Expand (x, s) y = Div (z, e)", "int64[2] s = {3, 4}", ["Div"]),
    "an axis in front": ("float[4] x, float[3,4] z", "e = Expand (x, s) y = Add (e, z)", "int64[2] s={3,1}", ["Add"]),
    "a dynamic size": ("float[1,4] x, float[N,4] z", "n = Shape (z) e = Expand (x, n) y = Mul (e, z)", "", ["Mul"]),
    "of three": ("bool[1,4] x, float[3,4] z", "e = Expand (x, s) y = Where (e, z, z)", "int64[2] s={3,4}", ["Where"]),
    "not that size": ("float[1,4] x, float[1,4] z", "e = Expand (x, s) y = Add (e, z)", "int64[2] s = {3, 4}",
                      ["Expand", "Add"]),
    "not that axis": ("float[4] x, float[4] z", "e = Expand (x, s) y = Add (e, z)", "int64[3] s = {1, 1, 4}",
                      ["Expand", "Add"]),
    "another dynamic size": ("float[1,4] x, float[N,4] z, float[M,4] v",
                             "n = Shape (v) e = Expand (x, n) y = Mul (e, z)", "", ["Shape", "Expand", "Mul"]),
    "matrices": ("float[3,2,4] x, float[4,5] z", "e = Expand (z, s) y = MatMul (x, e)", "int64[3] s = {3, 4, 5}",
                 ["MatMul"]),
    "the first of a product": ("float[1,2,4] x, float[3,4,5] z", "e = Expand (x, s) y = MatMul (e, z)",
                               "int64[3] s = {3, 2, 4}", ["MatMul"]),
    "a dynamic batch of matrices": (
        "float[1,4,5] x, float[N,2,4] z",
        "n = Shape (z) b = Slice (n, i, j) t = Concat <axis = 0> (b, k) e = Expand (x, t) y = MatMul (z, e)",
        "int64[1] i = {0}, int64[1] j = {1}, int64[2] k = {4, 5}", ["MatMul"],
    ),
    "two axes in front": ("float[1,1,4,5] x, float[3,2,1,4] z", "e = Expand (x, s) y = MatMul (z, e)",
                          "int64[4] s = {3, 2, 4, 5}", ["MatMul"]),
    "another batch": ("float[1,4,5] x, float[2,4] z", "e = Expand (x, s) y = MatMul (z, e)", "int64[3] s = {3, 4, 5}",
                      ["Expand", "MatMul"]),
    "the matrix itself": ("float[3,1,5] x, float[3,2,4] z", "e = Expand (x, s) y = MatMul (z, e)",
                          "int64[3] s = {3, 4, 5}", ["Expand", "MatMul"]),
    "a vector": ("float[4] x, float[3,2,4] z", "e = Expand (x, s) y = MatMul (z, e)", "int64[3] s = {3, 4, 4}",
                 ["Expand", "MatMul"]),
    "beside a vector": ("float[1,4,5] x, float[4] z", "e = Expand (x, s) y = MatMul (z, e)", "int64[3] s = {3, 4, 5}",
                        ["Expand", "MatMul"]),
    "another operator": ("float[1,4] x, float[4,3] z", "e = Expand (x, s) y = MatMul (e, z)", "int64[2] s = {3, 4}",
                         ["Expand", "MatMul"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_expand_before_an_operator(case: str) -> None:
    inputs, body, constants, left = CASES[case]
    before = model(f"({inputs}) => (float y)", body, constants)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == left
    fed = {info.name: _numbers(info) for info in before.graph.input}
    old, new = (run(proto, **fed) for proto in (before, after))
    np.testing.assert_allclose(new, old, 1e-5, 1e-6)
    assert (old.dtype, old.shape) == (new.dtype, new.shape)


def _numbers(info: onnx.ValueInfoProto) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    kind = info.type.tensor_type
    shape = [dim.dim_value or 3 for dim in kind.shape.dim]
    numbers = np.random.default_rng(0).normal(size=shape)
    return numbers > 0 if kind.elem_type == onnx.TensorProto.BOOL else numbers.astype(np.float32)
