"""One element along an axis, and what happens to that axis behind it, are one Gather."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import bnfold
from tests.simplifying.small import model, operators, simplified

NUMBERS = "int64 i = {2}, int64[1] l = {-1}, int64[1] z = {0}, int64[1] o = {1}, int64[1] t = {2}, int64[1] h = {3}"
PLACES = f"{NUMBERS}, int64[1] m = {{9223372036854775807}}, int64[2] zo = {{0, 1}}, int64[2] ot = {{1, 2}}"
ONE = ["Gather"]
CASES = {
    "put back": ("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, o)", ONE),
    "put back, from the end": ("g = Gather <axis = -2> (x, i) y = Unsqueeze (g, n2)", ONE),
    "put back elsewhere": ("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, z)", ["Gather", "Unsqueeze"]),
    "put back behind": ("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, t)", ["Gather", "Unsqueeze"]),
    "put back twice": ("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, ot)", ONE),
    "put back twice, once elsewhere": ("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, zo)", ["Gather", "Unsqueeze"]),
    "left out": ("g = Gather <axis = 1> (x, t) y = Squeeze (g, o)", ONE),
    "two left out": ("g = Gather <axis = 1> (w, t) y = Squeeze (g, zo)", ["Gather", "Squeeze"]),
    "cut out": ("s = Slice (x, o, t, o) y = Squeeze (s, o)", ONE),
    "cut out, the last": ("s = Slice (x, l, m, o) y = Squeeze (s, o)", ONE),
    "cut out, at the end": ("s = Slice (x, t, m, o) y = Squeeze (s, o)", ONE),
    "cut out, from the end": ("s = Slice (x, n2, l, o) y = Squeeze (s, o)", ONE),
    "cut out along the last axis": ("s = Slice (x, z, o, l, o) y = Squeeze (s, l)", ONE),
    "cut out along an open axis": ("s = Slice (x, o, t, z) y = Squeeze (s, z)", ONE),
    "the last of an open axis": ("s = Slice (x, l, m, z) y = Squeeze (s, z)", ONE),
    "the rest of an open axis": ("s = Slice (x, o, m, z) y = Squeeze (s, z)", ["Slice", "Squeeze"]),
    "two along two axes": ("s = Slice (x, zo, ot, zo) y = Squeeze (s, zo)", ["Slice", "Squeeze"]),
    "cut out, another left out": ("s = Slice (w, o, t, o) y = Squeeze (s, z)", ["Slice", "Squeeze"]),
    "cut out backward": ("s = Slice (x, t, o, o, l) y = Squeeze (s, o)", ["Slice", "Squeeze"]),
    "read by another": ("s = Slice (x, o, t, o) q = Squeeze (s, o) r = ReduceSum <keepdims = 0> (s) y = Add (q, r)",
                        ["Slice", "Squeeze", "ReduceSum", "Add"]),
    "an index that callers feed": ("g = Gather <axis = 1> (x, k) y = Unsqueeze (g, o)", ["Gather", "Unsqueeze"]),
    "two elements": ("g = Gather <axis = 1> (x, zo) y = Unsqueeze (g, o)", ["Gather", "Unsqueeze"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_element_and_its_axis(case: str) -> None:
    body, left = CASES[case]
    before = model(
        "(float[N,3,4] x, float[1,3,4] w, int64 k) => (float y)", body, f"{PLACES}, int64[1] n2 = {{-2}}", opset=13
    )
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == left
    for size in (2, 5) if "the rest" not in case else (2,):
        x = np.random.default_rng(size).normal(size=(size, 3, 4)).astype(np.float32)
        feeds = {"x": x, "w": x[:1], "k": np.array(1)}
        old, new = (_run(proto.SerializeToString(), feeds) for proto in (before, after))
        np.testing.assert_array_equal(new, old)
    if left == ONE:
        assert bnfold.optimize(before).status == "verified"


def _run(model_bytes: bytes, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize(("size", "left"), [("3", ONE), ("N", ["Slice", "Squeeze"])])
def test_the_last_element_before_gather_counts_from_the_end(size: str, left: list[str]) -> None:
    body = "s = Slice <axes = [0], starts = [-1], ends = [9223372036854775807]> (x) y = Squeeze <axes = [0]> (s)"
    before = model(f"(float[{size},4] x) => (float[4] y)", body, opset=9)
    after, _ = simplified(before)
    assert operators(after) == left
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
    np.testing.assert_array_equal(_run(after.SerializeToString(), feeds), feeds["x"][-1])
