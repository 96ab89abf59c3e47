"""Random operators: refused, or functions of what somebody draws for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, compute, floats, one_node

MANY = (200, 300)


def drawn(op: str, opset: int, inputs: list[Any], **attrs: Any) -> Array:
    proto, feeds = one_node(op, opset, inputs, **attrs)
    return reference.evaluate(ir.load(proto), feeds, noise=reference.Noise())["y"]


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attrs"),
    [
        ("RandomNormal", 1, [], {"shape": [2, 3]}),
        ("RandomUniform", 22, [], {"shape": [2, 3], "seed": 1.0}),
        ("RandomNormalLike", 1, [floats(1, 2)], {}),
        ("RandomUniformLike", 22, [floats(1, 2)], {}),
        ("Multinomial", 7, [floats(1, 2, 3)], {}),
        ("Bernoulli", 15, [floats(1, 2, 3)], {}),
    ],
)
def test_random(op: str, opset: int, inputs: list[Array], attrs: dict[str, Any]) -> None:
    with pytest.raises(reference.Random, match="random numbers") as error:
        compute(op, opset, [*inputs], **attrs)
    assert (error.value.op, error.value.node) == (op, "node")
    once = drawn(op, opset, [*inputs], **attrs)
    np.testing.assert_array_equal(once, drawn(op, opset, [*inputs], **attrs))
    assert op == "Multinomial" or not np.array_equal(once, drawn(op, opset, [*inputs], **{**attrs, "seed": 7.0}))


def test_what_is_drawn_is_distributed_as_the_text_says() -> None:
    like = np.zeros(MANY, np.float32)
    for uniform in (
        drawn("RandomUniform", 1, [], shape=MANY, low=-1.0, high=3.0),
        drawn("RandomUniformLike", 1, [like], low=-1.0, high=3.0),
    ):
        assert uniform.shape == MANY
        assert -1 <= uniform.min() < -0.99
        assert 2.99 < uniform.max() <= 3
    for normal in (
        drawn("RandomNormal", 1, [], shape=MANY, mean=2.0, scale=0.5),
        drawn("RandomNormalLike", 1, [like], mean=2.0, scale=0.5),
    ):
        assert normal.mean() == pytest.approx(2, abs=0.01)
        assert normal.std() == pytest.approx(0.5, abs=0.01)
    chances = np.broadcast_to(np.array([0, 0.25, 1], np.float32), (10_000, 3))
    np.testing.assert_allclose(drawn("Bernoulli", 15, [chances]).mean(axis=0), [0, 0.25, 1], atol=0.02)
    odds = np.log(np.array([[1, 2, 1], [8, 1, 1]], np.float32))
    classes = drawn("Multinomial", 7, [odds], sample_size=10_000)
    shares = np.stack([(classes == place).mean(axis=1) for place in range(3)], axis=1)
    np.testing.assert_allclose(shares, [[0.25, 0.5, 0.25], [0.8, 0.1, 0.1]], atol=0.02)


def test_types_are_those_that_are_asked_for() -> None:
    assert drawn("Bernoulli", 15, [floats(1, 3)], dtype=onnx.TensorProto.BOOL).dtype == bool
    assert drawn("Multinomial", 7, [floats(1, 2, 3)], dtype=onnx.TensorProto.INT64).dtype == np.int64
    assert drawn("Multinomial", 7, [floats(1, 2, 3)]).dtype == np.int32
    ints = np.zeros((2, 3), np.int32)
    assert drawn("RandomNormalLike", 1, [ints], dtype=onnx.TensorProto.DOUBLE).dtype == np.float64


def test_dropout_in_training_keeps_the_mean() -> None:
    proto, feeds = one_node(
        "Dropout", 13, [np.ones(MANY, np.float32), np.array(0.25, np.float32), np.array(True)], ("y", "mask")
    )
    y, mask = reference.evaluate(ir.load(proto), feeds, noise=reference.Noise()).values()
    assert mask.mean() == pytest.approx(0.75, abs=0.01)
    np.testing.assert_array_equal(y, mask / 0.75)


def test_every_round_of_a_loop_draws_anew() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        main (int64 n, bool c) => (float[k,2] y) {
            y = Loop (n, c) <body = body (int64 i, bool d) => (bool e, float[2] r) {
                e = Identity (d)
                r = RandomNormal <shape = [2]> ()
            }>
        }"""
    loaded = ir.load(onnx.parser.parse_model(text))
    y = reference.evaluate(loaded, {"n": np.array(3), "c": np.array(True)}, noise=reference.Noise())["y"]
    assert len(np.unique(y)) == 6
