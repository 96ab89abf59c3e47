"""Initial states of zeros: gone if nodes make them, and nothing else is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.simplifying.small import assert_equal, model, operators, simplified

ZEROS = "s = Shape (x) n = Gather (s, one) u = Concat <axis = 0> (one, n, three)"
SIZES = "int64[1] one = {1}, int64[1] three = {3}, int64[1] zero = {0}, int64[1] two = {2}"
WEIGHTS = {"RNN": 3, "GRU": 9, "LSTM": 12}
CASES = {
    "RNN": ("z = ConstantOfShape (u) h, e = RNN <hidden_size = 3> (x, w, r, , , z)", ["RNN"]),
    "GRU": ("z = ConstantOfShape (u) h, e = GRU <hidden_size = 3> (x, w, r, , , z)", ["GRU"]),
    "LSTM": ("z = ConstantOfShape (u) h, e = LSTM <hidden_size = 3> (x, w, r, , , z, z)", ["LSTM"]),
    "a part of what is filled": (
        (
            "v = Concat <axis = 0> (two, n, three) z = ConstantOfShape (v) c = Slice (z, one, two, zero)"
            " h, e = LSTM <hidden_size = 3> (x, w, r, , , c, c)"
        ),
        ["LSTM"],
    ),
    "one of two": (
        "z = ConstantOfShape (u) a = Exp (z) h, e = LSTM <hidden_size = 3> (x, w, r, , , a, z)",
        ["Shape", "Gather", "Concat", "ConstantOfShape", "Exp", "LSTM"],
    ),
    "ones": (
        "z = ConstantOfShape <value = float[1] {1}> (u) h, e = LSTM <hidden_size = 3> (x, w, r, , , z, z)",
        ["Shape", "Gather", "Concat", "ConstantOfShape", "LSTM"],
    ),
    "the lengths": (
        (
            "z = ConstantOfShape (u) l = ConstantOfShape <value = int32[1] {0}> (n)"
            " h, e = LSTM <hidden_size = 3> (x, w, r, , l, z, z)"
        ),
        ["Shape", "Gather", "ConstantOfShape", "LSTM"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_states_of_zeros_are_left_out(case: str) -> None:
    body, left = CASES[case]
    before = model("(float[S,N,2] x) => (float[A,B,C,D] h)", f"{ZEROS} {body}", SIZES)
    rows = WEIGHTS[next(node.op_type for node in before.graph.node if node.op_type in WEIGHTS)]
    rng = np.random.default_rng(1)
    for name, columns in (("w", 2), ("r", 3)):
        weight = rng.normal(size=(1, rows, columns)).astype(np.float32)
        before.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    after, _ = simplified(before)
    assert operators(after) == left
    node = after.graph.node[-1]
    assert list(node.input) == {
        "one of two": ["x", "w", "r", "", "", "a"],
        "ones": ["x", "w", "r", "", "", "z", "z"],
        "the lengths": ["x", "w", "r", "", "l"],
    }.get(case, ["x", "w", "r"])
    if case != "the lengths":
        assert_equal(before, after, (4, 2, 2), (1, 3, 2))
