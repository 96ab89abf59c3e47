"""RNN, GRU and LSTM against their equations, one batch item and one step at a time, in long double."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import reference
from tests.reference.models import Array, compute_all, floats

TIMES, BATCH, INPUT, HIDDEN = 4, 3, 2, 5
LENGTHS = np.array([4, 2, 3], np.int32)


def sigma(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def wide(*values: Array) -> list[Array]:
    return [value.astype(np.longdouble) for value in values]


def gru_step(x: Array, h: Array, w: Array, r: Array, b: Array) -> Array:
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(b, 6)
    z, reset = sigma(wz @ x + rz @ h + bz + cz), sigma(wr @ x + rr @ h + br + cr)
    return np.asarray((1 - z) * np.tanh(wh @ x + rh @ (reset * h) + bh + ch) + z * h)


def run(x: Array, h: Array, w: Array, r: Array, b: Array, order: list[int]) -> tuple[Array, Array]:
    y = np.zeros((TIMES, HIDDEN), np.longdouble)
    for time in order:
        h = gru_step(x[time], h, w, r, b)
        y[time] = h
    return y, h


@pytest.mark.parametrize(("opset", "layout"), [(7, 0), (14, 0), (14, 1), (22, 1)])
def test_a_bidirectional_gru_over_sequences_of_different_length(opset: int, layout: int) -> None:
    x, w, r = floats(1, TIMES, BATCH, INPUT), floats(2, 2, 3 * HIDDEN, INPUT), floats(3, 2, 3 * HIDDEN, HIDDEN)
    b, h = floats(4, 2, 6 * HIDDEN), floats(5, 2, BATCH, HIDDEN)
    attrs: dict[str, Any] = {"hidden_size": HIDDEN, "direction": "bidirectional"}
    if layout:
        attrs["layout"] = 1
    given = [x.swapaxes(0, 1), w, r, b, LENGTHS, h.swapaxes(0, 1)] if layout else [x, w, r, b, LENGTHS, h]
    y, last = compute_all("GRU", opset, given, ("y", "last"), **attrs)
    y, last = (y.transpose(1, 2, 0, 3), last.swapaxes(0, 1)) if layout else (y, last)
    for item, length in enumerate(LENGTHS):
        for direction, order in enumerate([list(range(length)), list(range(length))[::-1]]):
            parts = wide(x[:, item], h[direction, item], w[direction], r[direction], b[direction])
            expected, end = run(parts[0], parts[1], parts[2], parts[3], parts[4], order)
            np.testing.assert_allclose(y[:, direction, item], expected.astype(float), rtol=1e-13, atol=1e-14)
            np.testing.assert_allclose(last[direction, item], end.astype(float), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("coupled", [0, 1])
def test_an_lstm_with_peepholes_and_clipping(coupled: int) -> None:
    x, w, r = floats(1, TIMES, BATCH, INPUT), floats(2, 1, 4 * HIDDEN, INPUT), floats(3, 1, 4 * HIDDEN, HIDDEN)
    b, p = floats(4, 1, 8 * HIDDEN), floats(5, 1, 3 * HIDDEN)
    attrs: dict[str, Any] = {"hidden_size": HIDDEN, "clip": 1.5, "input_forget": coupled}
    y, last, cell = compute_all("LSTM", 14, [x, w, r, b, None, None, None, p], ("y", "last", "cell"), **attrs)
    wx, wr, wb, wp = wide(w[0], r[0], b[0], p[0])
    p_i, p_o, p_f = np.split(wp, 3)
    for item in range(BATCH):
        h = c = np.zeros(HIDDEN, np.longdouble)
        for time in range(TIMES):
            i, o, f, g = np.split(
                wx @ x[time, item].astype(np.longdouble) + wr @ h + wb[: 4 * HIDDEN] + wb[4 * HIDDEN :], 4
            )
            i = sigma(np.clip(i + p_i * c, -1.5, 1.5))
            f = 1 - i if coupled else sigma(np.clip(f + p_f * c, -1.5, 1.5))
            c = f * c + i * np.tanh(np.clip(g, -1.5, 1.5))
            h = sigma(np.clip(o + p_o * c, -1.5, 1.5)) * np.tanh(c)
            np.testing.assert_allclose(y[time, 0, item], h.astype(float), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(last[0, item], h.astype(float), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(cell[0, item], c.astype(float), rtol=1e-13, atol=1e-14)


def test_an_rnn_backwards_with_other_activations() -> None:
    x, w, r = floats(1, TIMES, BATCH, INPUT), floats(2, 1, HIDDEN, INPUT), floats(3, 1, HIDDEN, HIDDEN)
    attrs: dict[str, Any] = {"hidden_size": HIDDEN, "direction": "reverse"}
    y = compute_all("RNN", 7, [x, w, r], ("y",), activations=["LeakyRelu"], activation_alpha=[0.5], **attrs)[0]
    h = np.zeros((BATCH, HIDDEN))
    for time in reversed(range(TIMES)):
        h = x[time] @ w[0].T.astype(float) + h @ r[0].T.astype(float)
        h = np.where(h < 0, 0.5 * h, h)
        np.testing.assert_allclose(y[time, 0], h, rtol=1e-12, atol=1e-13)
    with pytest.raises(reference.CannotEvaluate, match="Affine"):
        compute_all("RNN", 7, [x, w, r], ("y",), activations=["Affine"], **attrs)
