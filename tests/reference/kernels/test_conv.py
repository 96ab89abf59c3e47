"""Convolutions against loops in long double over every output element, with no shared geometry."""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest

from bnfold import reference
from bnfold.reference.kernels import conv
from bnfold.reference.kernels.shifted import by_shifts
from tests.reference.models import Array, compute, floats


def slow_conv(x: Array, w: Array, b: Array, strides: list[int], pads: list[int], dilations: list[int]) -> Array:
    """Y[n, o, p] = b[o] + Σ W[o, i, k] · X[n, group·C/g + i, p·stride + k·dilation − pad], outside X zero."""
    rank, per_group = x.ndim - 2, w.shape[1]
    groups = x.shape[1] // per_group
    extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    size = [(n + pads[a] + pads[a + rank] - extent[a]) // strides[a] + 1 for a, n in enumerate(x.shape[2:])]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.longdouble)
    for n, o, *place in product(*map(range, y.shape)):
        first = o // (w.shape[0] // groups) * per_group
        total = np.longdouble(b[o])
        for i, *tap in product(*map(range, w.shape[1:])):
            spot = [
                p * s + k * d - pads[a]
                for a, (p, s, k, d) in enumerate(zip(place, strides, tap, dilations, strict=True))
            ]
            if all(0 <= q < m for q, m in zip(spot, x.shape[2:], strict=True)):
                total += np.longdouble(w[(o, i, *tap)]) * x[(n, first + i, *spot)]
        y[(n, o, *place)] = total
    return y


CASES: list[tuple[tuple[int, ...], tuple[int, ...], list[int], list[int], list[int]]] = [
    ((2, 3, 7), (4, 3, 3), [2], [1, 2], [1]),
    ((2, 6, 7), (4, 3, 2), [1], [0, 0], [3]),
    ((1, 4, 5, 6), (6, 2, 3, 2), [2, 1], [1, 0, 2, 1], [1, 2]),
    ((2, 3, 5, 6), (6, 1, 2, 3), [1, 2], [0, 2, 1, 0], [2, 1]),
    ((1, 4, 3, 4, 5), (2, 2, 2, 1, 3), [1, 2, 1], [1, 0, 1, 0, 0, 1], [1, 1, 2]),
    ((1, 2, 0, 3), (3, 2, 2, 2), [1, 1], [1, 0, 2, 1], [1, 1]),
]


@pytest.mark.parametrize(("xs", "ws", "strides", "pads", "dilations"), CASES)
@pytest.mark.parametrize("opset", [1, 11, 22])
def test_conv(
    opset: int, xs: tuple[int, ...], ws: tuple[int, ...], strides: list[int], pads: list[int], dilations: list[int]
) -> None:
    x, w, b = floats(1, *xs), floats(2, *ws), floats(3, ws[0])
    y = compute("Conv", opset, [x, w, b], group=xs[1] // ws[1], strides=strides, pads=pads, dilations=dilations)
    np.testing.assert_allclose(y, slow_conv(x, w, b, strides, pads, dilations).astype(float), rtol=1e-13, atol=1e-13)


def test_columns_in_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = floats(1, 2, 4, 9, 7), floats(2, 6, 2, 3, 3)
    whole = compute("Conv", 11, [x, w], group=2, pads=[1, 1, 1, 1], strides=[2, 1])
    monkeypatch.setattr(conv, "COLUMN_ELEMENTS", 1)
    pieces = compute("Conv", 11, [x, w], group=2, pads=[1, 1, 1, 1], strides=[2, 1])
    np.testing.assert_allclose(pieces, whole, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("mode", "pads"), [("SAME_UPPER", [1, 0, 1, 1]), ("SAME_LOWER", [1, 1, 1, 0]), ("VALID", [0, 0, 0, 0])]
)
def test_auto_pad(mode: str, pads: list[int]) -> None:
    x, w = floats(1, 1, 2, 7, 6), floats(2, 3, 2, 3, 3)
    said = compute("Conv", 11, [x, w], strides=[2, 2], pads=pads)
    np.testing.assert_array_equal(compute("Conv", 11, [x, w], strides=[2, 2], auto_pad=mode), said)


def slow_transpose(x: Array, w: Array, groups: int, strides: list[int], dilations: list[int]) -> Array:
    """Every input element adds its kernel to the output; nothing is cut off."""
    size = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, w.shape[2:], dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *size), np.longdouble)
    for n, c, *place in product(*map(range, x.shape)):
        first = c // (x.shape[1] // groups) * w.shape[1]
        for j, *tap in product(*map(range, w.shape[1:])):
            spot = [p * s + k * d for p, s, k, d in zip(place, strides, tap, dilations, strict=True)]
            y[(n, first + j, *spot)] += np.longdouble(x[(n, c, *place)]) * w[(c, j, *tap)]
    return y


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize(("groups", "outs"), [(1, 3), (2, 3), (4, 1)])
def test_conv_transpose(opset: int, groups: int, outs: int) -> None:
    x, w, b = floats(1, 2, 4, 3, 5), floats(2, 4, outs, 3, 2), floats(3, outs * groups)
    full = slow_transpose(x, w, groups, [2, 3], [1, 2]) + b.reshape(-1, 1, 1)
    attrs: dict[str, Any] = {"group": groups, "strides": [2, 3], "dilations": [1, 2]}
    y = compute("ConvTranspose", opset, [x, w, b], pads=[1, 0, 1, 2], **attrs)
    np.testing.assert_allclose(y, full[:, :, 1:-1, :-2].astype(float), rtol=1e-13, atol=1e-13)
    y = compute("ConvTranspose", opset, [x, w, b], output_padding=[1, 2], pads=[1, 0, 1, 2], **attrs)
    grown = np.concatenate([full[:, :, 1:], np.empty((2, outs * groups, 0, full.shape[3]))], 2)
    np.testing.assert_allclose(y, grown[:, :, : y.shape[2], : y.shape[3]].astype(float), rtol=1e-13, atol=1e-13)
    assert y.shape[2:] == (full.shape[2] - 1, full.shape[3])


@pytest.mark.parametrize(("mode", "begin"), [("SAME_UPPER", 0), ("NOTSET", 1), ("SAME_LOWER", 1)])
def test_the_odd_element_of_an_output_shape(mode: str, begin: int) -> None:
    x, w = floats(1, 1, 2, 4), floats(2, 2, 3, 3)
    full = slow_transpose(x, w, 1, [2], [1])
    y = compute("ConvTranspose", 11, [x, w], strides=[2], output_shape=[8], auto_pad=mode)
    np.testing.assert_allclose(y, full[:, :, begin : begin + 8].astype(float), rtol=1e-13, atol=1e-13)


def test_an_output_that_no_kernel_reaches_is_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="output size of 12"):
        compute("ConvTranspose", 11, [floats(1, 1, 2, 4), floats(2, 2, 3, 2)], strides=[3], auto_pad="SAME_UPPER")


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(reference.CannotEvaluate, match="do not fit 2 groups"):
        compute("Conv", 11, [floats(1, 1, 4, 5), floats(2, 2, 4, 3)], group=2)
    with pytest.raises(reference.CannotEvaluate, match="kernel_shape"):
        compute("Conv", 11, [floats(1, 1, 4, 5), floats(2, 2, 4, 3)], kernel_shape=[2])


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_a_kernel_shape_that_is_not_the_weights_is_refused(op: str) -> None:
    with pytest.raises(reference.CannotEvaluate, match="contradicts the weight"):
        compute(op, 11, [floats(0, 1, 2, 5, 5), floats(1, 2, 2, 2, 3)], kernel_shape=[3, 2])


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((2, 4, 9), (3, 4, 3), {"dilations": [2]}),
        ((2, 4, 7, 8), (2, 4, 3, 5), {"strides": [2, 1], "pads": [1, 2, 0, 1]}),
        ((2, 8, 5, 6), (4, 4, 2, 3), {"group": 2, "dilations": [2, 1]}),
        ((1, 3, 4, 5, 6), (2, 3, 2, 2, 3), {"strides": [1, 2, 1]}),
    ],
)
@pytest.mark.parametrize("most", [1, conv.COLUMN_ELEMENTS])
def test_rows_that_are_shifted_make_what_gathered_windows_make(
    x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, weight = floats(1, *x), floats(2, *w)
    images[(0,) * len(x)] = np.inf  # reaches what sees it, and no other place
    with monkeypatch.context() as without:
        without.setattr(conv, "gathers_more", lambda *_: False)
        expected = compute("Conv", 11, [images, weight], **attrs)
    monkeypatch.setattr(conv, "COLUMN_ELEMENTS", most)
    shifts = mock.Mock(side_effect=by_shifts)
    monkeypatch.setattr(conv, "by_shifts", shifts)
    np.testing.assert_allclose(compute("Conv", 11, [images, weight], **attrs), expected, rtol=1e-12, atol=1e-12)
    assert shifts.called
