from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification.inputs.sized import fitted, sized
from tests.verification.graphs import model


def test_a_copy_is_indexed_once_with_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ir.load(model("(float[N,3] x) => (float[N,3] y) { a = Relu (x)  y = Neg (a) }", {}))
    indexed: list[ir.Model] = []
    reindex = ir.Model.reindex

    def watched(one: ir.Model) -> None:
        indexed.append(one)
        reindex(one)

    monkeypatch.setattr(ir.Model, "reindex", watched)
    copy = sized(original, {"x": (2, 3)})
    assert indexed == [copy]
    assert copy.graph.values["a"].shape == (2, 3)
    assert original.graph.values["x"].shape == ("N", 3)


FLATTENED = """(float[N,4,1,W] x) => (float[A,B,C] y) {
    s = Shape (x)  h = Slice (s, zero, two, zero)  c = Cast <to = 6> (h)  d = Cast <to = 7> (c)
    t = Concat <axis = 0> (d, rest)  r = Reshape (x, t)  y = Transpose <perm = [0, 2, 1]> (r) }"""


def test_sizes_follow_from_numbers_that_are_computed() -> None:
    """PaddlePaddle's flatten, whose target onnx's inference does not follow."""
    weights = {"zero": np.array([0]), "two": np.array([2]), "rest": np.array([-1])}
    original = ir.load(model(FLATTENED, weights))
    assert sized(original, {"x": (2, 4, 1, 6)}).graph.values["y"].shape == (2, 6, 4)
    assert original.graph.nodes[-2].inputs[1] is original.graph.values["t"], "the model itself is as it was"


def test_the_frames_of_a_signal_fit_what_reads_them() -> None:
    """Onnx's inference takes an STFT that does not say so for one of both sides."""
    body = "(float[N,M] x) => (float[a,b,c] y) { f = STFT (x, step, window)  p = ReduceSumSquare <axes = [3]> (f)"
    loaded = ir.load(
        model(
            f"{body}  q = Squeeze (p, last)  y = MatMul (q, bank) }}",
            {"step": np.array(4), "window": np.ones(8, np.float32), "bank": np.ones((5, 3)), "last": np.array([3])},
            opset=17,
        )
    )
    assert fitted(loaded, {"x": (2, 40)}) is not None
    assert fitted(loaded, {"x": (2, 7)}) is None
