"""Sequences and optionals, in small graphs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, floats

A, B = floats(1, 2, 3), floats(2, 2, 3)


def run(body: str, outputs: str, opset: int = 18) -> dict[str, Array]:
    text = f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g (float[2,3] a, float[2,3] b) => ({outputs}) {{ {body} }}
    """
    return reference.evaluate(ir.load(onnx.parser.parse_model(text)), {"a": A, "b": B})


def test_insert_erase_at_and_length() -> None:
    results = run(
        """
        s = SequenceConstruct (a, b, a)
        one = Constant <value_int = 1> ()
        minus = Constant <value_int = -1> ()
        e = SequenceErase (s, one)
        i = SequenceInsert (e, b, one)
        x = SequenceAt (i, one)
        z = SequenceAt (e, minus)
        n = SequenceLength (e)
        """,
        "float[2,3] x, float[2,3] z, int64 n",
    )
    np.testing.assert_array_equal(results["x"], B)
    np.testing.assert_array_equal(results["z"], A)
    assert results["n"] == 2


def test_split_and_concat() -> None:
    results = run(
        """
        s = SplitToSequence <axis = 1> (a)
        two = Constant <value_int = 2> ()
        t = SplitToSequence <axis = 1> (a, two)
        y = ConcatFromSequence <axis = 1> (s)
        n = SequenceLength (t)
        l = SplitToSequence <axis = 0, keepdims = 0> (a)
        z = ConcatFromSequence <axis = 1, new_axis = 1> (l)
        """,
        "float[2,3] y, int64 n, float[3,2] z",
    )
    np.testing.assert_array_equal(results["y"], A)
    assert results["n"] == 2
    np.testing.assert_array_equal(results["z"], A.T)


def test_optionals() -> None:
    results = run(
        """
        full = Optional (a)
        has = OptionalHasElement (full)
        none = OptionalHasElement ()
        y = OptionalGetElement (full)
        """,
        "bool has, bool none, float[2,3] y",
    )
    assert bool(results["has"])
    assert not results["none"]
    np.testing.assert_array_equal(results["y"], A)


def test_a_position_outside_is_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="position 5"):
        run("s = SequenceConstruct (a)  p = Constant <value_int = 5> ()  y = SequenceAt (s, p)", "float[2,3] y")
