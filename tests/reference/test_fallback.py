"""Every row of the list of onnx implementations that the referee trusts, against onnxruntime, and for real float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.reference import fallback
from tests.reference.models import Array, compute, compute_all, floats, one_node
from tests.reference.witness import Case, disagreements

RNG = np.random.default_rng(7)


def number(value: float) -> Array:
    return np.array(value, np.float32)


def bytes_of(*shape: int) -> Array:
    return RNG.integers(0, 255, shape).astype(np.uint8)


ZERO, OTHER = np.array(120, np.uint8), np.array(100, np.uint8)
BOXES = np.sort(np.abs(floats(1, 2, 8, 2, 2)), 2).reshape(2, 8, 4)
LIMITS = [np.array([3]), np.array([0.3], np.float32), np.array([0.2], np.float32)]
ROIS = np.array([[0, 0, 4, 4], [1.5, 0.5, 6, 3], [2, 2, 3, 7]], np.float32)
WEIGHTS = np.abs(floats(2, 5))
GRAMS = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 2]}
GRAMS |= {"ngram_indexes": [2, 0, 1], "pool_int64s": [1, 3, 2, 1]}
CLASSES = RNG.integers(0, 5, (3, 2))

Row = tuple[str, tuple[int, ...], list[Array | None], dict[str, Any]]
CONTINUOUS: list[Row] = [
    ("AffineGrid", (20,), [floats(1, 2, 2, 3), np.array([2, 3, 4, 5])], {"align_corners": 1}),
    ("Attention", (23, 24), [floats(1, 2, 3, 4, 8), floats(2, 2, 3, 6, 8), floats(3, 2, 3, 6, 8)], {"is_causal": 1}),
    ("CenterCropPad", (18,), [floats(1, 4, 6, 5), np.array([7, 3])], {"axes": [1, -1]}),
    (
        "Col2Im",
        (18,),
        [floats(1, 2, 18, 28), np.array([6, 7]), np.array([2, 3])],
        {"strides": [2, 1], "pads": [1, 0, 1, 2]},
    ),
    ("DFT", (17,), [floats(1, 2, 8, 1)], {"axis": 1, "onesided": 1}),
    ("DFT", (17,), [floats(1, 2, 8, 2)], {"axis": 1, "inverse": 1}),
    ("DFT", (20,), [floats(1, 2, 8, 1), np.array(10), np.array(1)], {"onesided": 1}),
    ("Det", (11, 22), [floats(1, 2, 4, 4)], {}),
    (
        "MaxUnpool",
        (9, 11, 22),
        [floats(1, 1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]])],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    ("NegativeLogLikelihoodLoss", (12, 13), [floats(1, 3, 5, 2), CLASSES, WEIGHTS], {"reduction": "mean"}),
    ("ReverseSequence", (10,), [floats(1, 4, 3, 2), np.array([1, 4, 3])], {"batch_axis": 1, "time_axis": 0}),
    ("RoiAlign", (16,), [floats(1, 2, 3, 8, 9), ROIS, np.array([0, 1, 1])], {"output_width": 2, "sampling_ratio": 3}),
    ("RoiAlign", (10, 16), [floats(1, 2, 3, 8, 9), ROIS, np.array([0, 1, 1])], {"mode": "max", "sampling_ratio": 2}),
    (
        "RotaryEmbedding",
        (23,),
        [floats(1, 2, 3, 4, 8), floats(2, 10, 4), floats(3, 10, 4), RNG.integers(0, 9, (2, 4))],
        {"interleaved": 1},
    ),
    ("TensorScatter", (24,), [floats(1, 2, 5, 3), floats(2, 2, 2, 3), np.array([1, 4])], {"mode": "circular"}),
    ("Shrink", (9,), [floats(1, 3, 4)], {"bias": 0.25}),
    ("ThresholdedRelu", (10,), [floats(1, 3, 4)], {"alpha": 0.25}),
    ("STFT", (17,), [floats(1, 2, 16, 1), np.array(4), floats(2, 8)], {"onesided": 1}),
    (
        "SoftmaxCrossEntropyLoss",
        (12, 13),
        [floats(1, 3, 5, 2), CLASSES, WEIGHTS],
        {"reduction": "sum", "ignore_index": 1},
    ),
]
DISCRETE: list[Row] = [
    ("BlackmanWindow", (17,), [np.array(9)], {}),
    ("HammingWindow", (17,), [np.array(9)], {"periodic": 0}),
    ("HannWindow", (17,), [np.array(9)], {}),
    ("DynamicQuantizeLinear", (11,), [floats(1, 3, 4)], {"outputs": ["y", "scale", "zero"]}),
    ("MeanVarianceNormalization", (9, 13), [floats(1, 3, 2, 4)], {"axes": [0, 2]}),  # whatever the input's scale
    ("MelWeightMatrix", (17,), [np.array(8), np.array(16), np.array(8192), number(0), number(4096)], {}),
    ("StringConcat", (20,), [np.array(["a", "b"], object), np.array("c", object)], {}),
    ("TfIdfVectorizer", (9,), [np.array([[1, 2, 1], [3, 3, 2]])], GRAMS),
    ("StringSplit", (20,), [np.array(["a b", "c"], object)], {"outputs": ["parts", "counts"]}),
    ("NonMaxSuppression", (10, 11), [BOXES, np.abs(floats(2, 2, 3, 8)), *LIMITS], {}),
]
UNWITNESSED = {
    ("", "Attention", 25),
    ("", "CausalConvWithState", 27),
    ("", "LinearAttention", 27),
    ("", "SwiGLU", 28),
    ("", "Swish", 24),
    ("", "ThresholdedRelu", 22),
    ("", "NegativeLogLikelihoodLoss", 22),
    ("", "ReverseSequence", 28),
    ("", "RoiAlign", 22),
}
"""Versions without a kernel in onnxruntime; onnx's own results for them are in `test_recorded`."""


def cases(rows: list[Row]) -> list[Case]:
    fixed = {"Col2Im": (1, 2), "CenterCropPad": (1,), "STFT": (1,)}
    return [
        one_node(op, version, inputs, stored=fixed.get(op, ()), **attrs)
        for op, versions, inputs, attrs in rows
        for version in versions
    ]


def test_every_row_agrees_with_onnxruntime(tmp_path: Path) -> None:
    drawn = cases(CONTINUOUS + DISCRETE)
    wrong, compared = disagreements(drawn, tmp_path)
    assert not wrong
    assert compared == len(drawn)


def test_no_row_of_the_list_is_left_out() -> None:
    rows = CONTINUOUS + DISCRETE
    shown = {("", op, version) for op, versions, _, _ in rows for version in versions}
    rows_of = [*fallback.PROVEN.items(), *fallback.FUNCTIONS.items()]
    listed = {(domain, op, version) for (domain, op), versions in rows_of for version in versions}
    assert listed - UNWITNESSED == shown


@pytest.mark.parametrize("case", cases(CONTINUOUS), ids=lambda case: case[0].graph.node[0].op_type)
def test_results_follow_changes_that_float32_cannot_hold(case: Case) -> None:
    model, feeds = case
    wide = {name: value.astype(float) if value.dtype == np.float32 else value for name, value in feeds.items()}
    moved = {name: value * (1 + 1e-11) if value.dtype == np.float64 else value for name, value in wide.items()}
    one, other = (next(iter(reference.evaluate(ir.load(model), given).values())) for given in (wide, moved))
    assert 1e-13 < np.abs(one - other).max() / np.abs(one).max() < 1e-9


def test_versions_that_are_not_on_the_list_are_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="ImageDecoder-20"):
        compute("ImageDecoder", 20, [np.zeros(9, np.uint8)])


def test_functions_are_computed_in_float64_whatever_precision_they_ask_for() -> None:
    q, k, v = (floats(seed, 1, 1, 3, 4) for seed in range(3))
    rough = compute("Attention", 24, [q, k, v], softmax_precision=1)
    assert (rough == compute("Attention", 24, [q, k, v])).all()


def test_a_function_sees_the_defaults_of_its_operator() -> None:
    a, b = floats(1, 2, 3), floats(2, 2, 3)
    np.testing.assert_allclose(compute("SwiGLU", 28, [a, b]), compute("SwiGLU", 28, [a, b], alpha=1.0), rtol=0)


def test_a_function_computes_no_output_that_is_not_named() -> None:
    q, k, v = (floats(seed, 1, 1, 3, 4) for seed in range(3))
    y, product = compute_all("Attention", 24, [q, k, v], ("y", "", "", "product"))
    np.testing.assert_allclose(product, q.astype(float) @ k.astype(float).swapaxes(2, 3) / 2, rtol=1e-6)
    assert y.shape == (1, 1, 3, 4)
