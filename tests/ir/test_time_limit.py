"""A limit on the clock that long loops look at."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from bnfold import analysis, ir, reference
from bnfold.analysis.shapes.propagation import infer_by_onnx
from bnfold.ir.time_limit import LimitStruck, ends_at, look_at_clock
from tests.verification.graphs import model

_PAST = -math.inf


def test_without_a_limit_nothing_is_raised() -> None:
    look_at_clock()
    with ends_at(math.inf):
        look_at_clock()


def test_the_limit_holds_inside_its_block_only() -> None:
    with ends_at(_PAST), pytest.raises(LimitStruck):
        look_at_clock()
    look_at_clock()


def test_an_inner_block_cannot_extend_the_limit() -> None:
    with ends_at(_PAST), ends_at(math.inf), pytest.raises(LimitStruck):
        look_at_clock()


def test_long_loops_look_at_it() -> None:
    lstm = model("(float[3,1,2] x) => (float[3,1,1,1] y) { y = LSTM <hidden_size = 1> (x, w, r) }", {
        "w": np.ones((1, 4, 2)), "r": np.ones((1, 4, 1)),
    })  # fmt: skip
    added = ir.load(model("(float[2] x) => (float[2] y) { c = Add (a, a)  y = Mul (x, c) }", {"a": np.ones(2)}))
    stored = ir.load(lstm).graph.values["w"].tensor
    assert stored is not None
    feeds = {"x": np.ones((3, 1, 2), np.float32)}
    with ends_at(_PAST):
        with pytest.raises(LimitStruck):
            reference.evaluate(ir.load(lstm), feeds)
        with pytest.raises(LimitStruck):
            analysis.constant(added.graph.values["c"])
        with pytest.raises(LimitStruck):
            infer_by_onnx(onnx.ModelProto(), strict=False, propagate=False)
