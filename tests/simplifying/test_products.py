"""A MatMul or a convolution takes the constant that is added behind it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import bnfold
from tests.simplifying.small import model, operators, simplified

MATRIX, KERNEL = (4, 3), (3, 4, 2)
CASES = {
    "matrix": ("(float[N,4] x)", "m = MatMul (x, w) y = Add (m, b)", MATRIX, (3,), ["Gemm"]),
    "matrix, row": ("(float[N,4] x)", "m = MatMul (x, w) y = Add (b, m)", MATRIX, (1, 3), ["Gemm"]),
    "more than a matrix": ("(float[N,M,4] x)", "m = MatMul (x, w) y = Add (m, b)", MATRIX, (3,), ["MatMul", "Add"]),
    "a scalar": ("(float[N,4] x)", "m = MatMul (x, w) y = Add (m, b)", MATRIX, (1,), ["MatMul", "Add"]),
    "a rank that is not known": (
        "(float x)",
        "i = other.Op (x) m = MatMul (i, w) y = Add (m, b)",
        MATRIX,
        (3,),
        ["Op", "MatMul", "Add"],
    ),
    "Conv": ("(float[N,4,L] x)", "c = Conv (x, w) y = Add (c, b)", KERNEL, (1, 3, 1), ["Conv"]),
    "Conv, without a batch": ("(float[N,4,L] x)", "c = Conv (x, w) y = Add (b, c)", KERNEL, (3, 1), ["Conv"]),
    "Conv, along its length": ("(float[N,4,4] x)", "c = Conv (x, w) y = Add (c, b)", KERNEL, (3,), ["Conv", "Add"]),
    "Conv with a bias": ("(float[N,4,L] x)", "c = Conv (x, w, v) y = Add (c, b)", KERNEL, (3, 1), ["Conv", "Add"]),
    "ConvTranspose": (
        "(float[N,4,L] x)",
        "c = ConvTranspose <group = 2> (x, w) y = Add (c, b)",
        (4, 3, 2),
        (6, 1),
        ["ConvTranspose"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_addition(case: str) -> None:
    head, body, weight, bias, left = CASES[case]
    before = model(f"{head} => (float y)", body)
    rng = np.random.default_rng(0)
    for name, dims in (("w", weight), ("b", bias), ("v", (3,))):
        before.graph.initializer.append(numpy_helper.from_array(rng.normal(size=dims).astype(np.float32), name))
    if "other" in body:
        before.opset_import.add(domain="other", version=1)
    after, _ = simplified(before)
    assert operators(after) == left
    if "other" not in body and "group" not in body:  # which onnx cannot run for more than one sample
        x = rng.normal(size=(2, 4) if "[N,4]" in head else (2, 4, 4)).astype(np.float32)
        made = [ReferenceEvaluator(proto).run(None, {"x": x}) for proto in (before, after)]
        np.testing.assert_allclose(np.array(made[1]), np.array(made[0]), 1e-5)


def test_a_quantized_weight_keeps_its_add() -> None:
    body = "d = DequantizeLinear (q, s, z) c = Conv (x, d) y = Add (c, b)"
    constants = "int8[1,4,1] q = {1, 2, 3, 4}, float s = {0.5}, int8 z = {0}, float[1,1] b = {2}"
    after, _ = simplified(model("(float[N,4,L] x) => (float[N,1,L] y)", body, constants))
    assert operators(after) == ["DequantizeLinear", "Conv", "Add"]


def test_an_addition_to_what_another_reads_stays() -> None:
    before = model("(float[N,4] x) => (float[N,3] y, float[N,3] m)", "m = MatMul (x, w) y = Add (m, b)")
    for name, dims in (("w", (4, 3)), ("b", (3,))):
        before.graph.initializer.append(numpy_helper.from_array(np.ones(dims, np.float32), name))
    assert operators(simplified(before)[0]) == ["MatMul", "Add"]


BIASES = {
    "reshaped": ("r = Reshape (b, t) c = Conv (x, w) y = Add (c, r)", ["Conv"]),
    "unsqueezed": ("r = Unsqueeze (b, u) c = Conv (x, w) y = Add (r, c)", ["Conv"]),
    "along its length": ("r = Reshape (b, l) c = Conv (x, w) y = Add (c, r)", ["Reshape", "Conv", "Add"]),
    "of as many axes": ("r = Abs (d) c = Conv (x, w) y = Add (c, r)", ["Abs", "Conv", "Add"]),
    "reshaped from two axes": ("r = Reshape (e, t) c = Conv (x, w) y = Add (c, r)", ["Reshape", "Conv", "Add"]),
    "another reads the result": (
        "r = Reshape (b, t) c = Conv (x, w) a = Add (c, r) y = Mul (a, c)",
        ["Reshape", "Conv", "Add", "Mul"],
    ),
}


@pytest.mark.parametrize("case", BIASES)
def test_a_bias_that_is_an_input(case: str) -> None:
    body, left = BIASES[case]
    head = "(float[N,4,4] x, float[3,4,2] w, float[3] b, float[3,1] d, float[1,3] e) => (float[N,3,3] y)"
    sizes = "int64[3] t = {1, 3, 1}, int64[3] l = {1, 1, 3}, int64[1] u = {1}"
    before = model(head, body, sizes)
    after, _ = simplified(before)
    assert operators(after) == left
    rng = np.random.default_rng(0)
    dims = {"x": (2, 4, 4), "w": (3, 4, 2), "b": (3,), "d": (3, 1), "e": (1, 3)}
    fed = {name: rng.normal(size=size).astype(np.float32) for name, size in dims.items()}
    made = [ReferenceEvaluator(proto).run(None, fed) for proto in (before, after)]
    np.testing.assert_allclose(np.array(made[1]), np.array(made[0]), 1e-5)


RESHAPED = {
    "a matrix": ("float[N,4] x", "u = Unsqueeze (x, i) m = MatMul (u, w) y = Squeeze (m, i)", ["MatMul"]),
    "a vector": ("float[4] x", "u = Unsqueeze (x, z) m = MatMul (u, w) y = Squeeze (m, z)", ["MatMul"]),
    "joined axes": ("float[2,3,4] x", "u = Reshape (x, j) m = MatMul (u, w) y = Reshape (m, p)", ["MatMul"]),
    "dynamic sizes": (
        "float[N,T,4] x",
        ("s = Shape (x) l = Slice (s, z, t) q = Concat <axis = 0> (l, r) u = Reshape (x, j) m = MatMul (u, w)"
        " y = Reshape (m, q)"),
        ["MatMul"],
    ),
    "Flatten": ("float[N,4] x", "u = Unsqueeze (x, i) m = MatMul (u, w) y = Flatten <axis = 2> (m)", ["MatMul"]),
    "in front only": ("float[N,4] x", "u = Unsqueeze (x, i) y = MatMul (u, w)", ["Unsqueeze", "MatMul"]),
    "other axes behind": ("float[2,3,4] x", "u = Reshape (x, j) m = MatMul (u, w) y = Reshape (m, o)",
                          ["Reshape", "MatMul", "Reshape"]),
    "the last axis": ("float[2,2,2] x", "u = Reshape (x, j) m = MatMul (u, w) y = Reshape (m, h)",
                      ["Reshape", "MatMul", "Reshape"]),
    "read by another": ("float[N,4] x", ("u = Unsqueeze (x, i) m = MatMul (u, w) a = Squeeze (m, i) e = Sin (m)"
                        " c = Squeeze (e, i) y = Sub (a, c)"),
                        ["Unsqueeze", "MatMul", "Squeeze", "Sin", "Squeeze", "Sub"]),
    "several matrices": ("float[2,3,4] x, float[2,4,3] v", "u = Unsqueeze (x, z) m = MatMul (u, v) y = Squeeze (m, z)",
                         ["Unsqueeze", "MatMul", "Squeeze"]),
    "Gemm": ("float[N,4] x", "u = Unsqueeze (x, i) m = MatMul (u, w) a = Add (m, b) y = Squeeze (a, i)", ["Gemm"]),
    "Gemm, axes from the end": ("float[N,4] x", "u = Unsqueeze (x, n) m = MatMul (u, w) y = Add (b, m)",
                                ["Gemm", "Unsqueeze"]),
    "no Gemm of the last axis": ("float[N,4] x", "u = Unsqueeze (x, t) m = MatMul (u, v) y = Add (m, b)",
                                 ["Unsqueeze", "MatMul", "Add"]),
    "no Gemm of more": ("float[N,4,4] x", "u = Unsqueeze (x, i) m = MatMul (u, w) y = Add (m, b)",
                        ["Unsqueeze", "MatMul", "Add"]),
    "no Gemm of what others read": ("float[N,4] x", ("u = Unsqueeze (x, i) m = MatMul (u, w) a = Add (m, b)"
                                    " c = ReduceSum (u) y = Sub (a, c)"),
                                    ["Unsqueeze", "MatMul", "Add", "ReduceSum", "Sub"]),
}  # fmt: skip
NUMBERS = {
    "z": [0], "i": [1], "t": [2], "n": [-2], "r": [3], "j": [-1, 4], "p": [2, 3, 3], "o": [3, 2, 3], "h": [1, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize("case", RESHAPED)
@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_product_of_what_is_reshaped(case: str, opset: int) -> None:
    head, body, left = RESHAPED[case]
    if opset < 13:  # axes are attributes
        body = re.sub(r"(Squeeze|Unsqueeze) \((\w+), (\w)\)", _with_axes, body)
    before = model(f"({head}) => (float y)", body, opset=opset)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    fed = {name for node in before.graph.node for name in node.input} - {info.name for info in before.graph.input}
    weights = {"w": (4, 3), "b": (3,), "v": (1, 3)}
    held = [(name, rng.normal(size=dims).astype(np.float32)) for name, dims in weights.items() if name in fed]
    held += [(name, np.array(numbers)) for name, numbers in NUMBERS.items() if name in fed]
    before.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held)
    after, _ = simplified(before)
    assert operators(after) == left
    assert simplified(after)[0] == after
    for batch in (0, 1, 3):
        feeds = {}
        for info in before.graph.input:
            dims = [dim.dim_value or batch for dim in info.type.tensor_type.shape.dim]
            feeds[info.name] = rng.normal(size=dims).astype(np.float32)
        if batch == 0 and ("Reshape" in body or "Flatten" in body):
            continue  # a -1 beside a zero is refused
        made = [ReferenceEvaluator(proto).run(None, feeds)[0] for proto in (before, after)]  # type: ignore[index]
        np.testing.assert_allclose(made[1], made[0], 1e-5, 1e-6)
        assert made[0].shape == made[1].shape


def _with_axes(found: re.Match[str]) -> str:
    return f"{found[1]} <axes = [{NUMBERS[found[3]][0]}]> ({found[2]})"


def test_what_is_between_stays_if_it_is_an_output() -> None:
    before = model(
        "(float[N,4] x) => (float[N,3] y, float[N,1,3] m)",
        "u = Unsqueeze (x, i) m = MatMul (u, w) y = Squeeze (m, i)",
        f"int64[1] i = {{1}}, float[4,3] w = {{{', '.join(map(str, range(12)))}}}",
    )
    assert operators(simplified(before)[0]) == ["Unsqueeze", "MatMul", "Squeeze"]


def test_a_weight_that_callers_may_feed_is_multiplied_all_the_same() -> None:
    before = model(
        "(float[N,4] x, float[4,3] w) => (float[N,3] y)",
        "u = Unsqueeze (x, i) m = MatMul (u, w) y = Squeeze (m, i)",
        f"int64[1] i = {{1}}, float[4,3] w = {{{', '.join(map(str, range(12)))}}}",
    )
    assert operators(simplified(before)[0]) == ["MatMul"]
    assert bnfold.optimize(before).verified
