"""Operators that read images at computed places, or sequences, or choose by a mask; next to a BatchNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.builder import Builder, Drawn

from _patterns.parts import Build, Pattern, conv, exchanged, given, image, ints, node, norm, weight


def _grid(b: Builder, x: Drawn, **attributes: Any) -> Drawn:
    """Append a GridSample some of whose places are outside."""
    return node(b, "GridSample", x, b.weight(b.numbers([2, 3, 4, 2], -1.5, 1.5)), **attributes)


def _sampled(padding: str, **options: Any) -> Build:
    return lambda b: norm(b, _grid(b, conv(b, image(b), kernel=1), padding_mode=padding), **options)


def _into_grid(b: Builder) -> Drawn:
    return conv(b, _grid(b, norm(b, image(b)), padding_mode="reflection"))


def _deform(b: Builder, x: Drawn, group: int = 1) -> Drawn:
    """Append a DeformConv some of whose places are outside."""
    kernel, offset = weight(b, 6, x.shape[1] // group, 2, 2), b.weight(b.numbers([2, 8, 5, 7], -3.0, 3.0))
    return node(b, "DeformConv", x, kernel, offset, weight(b, 6), kernel_shape=[2, 2], group=group)


def _behind_reversed(time: int) -> Build:
    return lambda b: norm(b, _reversed(b, conv(b, given(b, 2, 3, 5), kernel=1), time))


def _reversed(b: Builder, x: Drawn, time: int) -> Drawn:
    lengths = ints(b, *(x.shape[time] - row % 2 for row in range(x.shape[1 - time])))
    return node(b, "ReverseSequence", x, lengths, time_axis=time, batch_axis=1 - time)


def _chosen(b: Builder, one: Drawn | str, other: Drawn | str) -> Drawn:
    return node(b, "Where", b.weight(np.asarray(b.rng.random((6, 8)) < 0.5)), one, other)


def _choice_of_two(b: Builder) -> Drawn:
    return norm(b, _chosen(b, conv(b, image(b), kernel=1), conv(b, image(b), kernel=1)))


def _constant_operand(b: Builder) -> Drawn:
    return conv(b, _chosen(b, weight(b, 3, 1, 1), norm(b, image(b))))


def _one_normalised(b: Builder) -> Drawn:
    return conv(b, _chosen(b, norm(b, image(b)), image(b)))


def _differently(b: Builder) -> Drawn:
    return conv(b, _chosen(b, norm(b, image(b)), norm(b, image(b))))


def _both_operands(b: Builder) -> Drawn:
    """Append a choice between two forms of one normalised value, moved in two ways that keep its channels."""
    x = norm(b, image(b))
    mirrored = node(b, "Slice", x, ints(b, -1), ints(b, -100), ints(b, 3), ints(b, -1))
    return conv(b, _chosen(b, x, mirrored))


def _recurrent(op_type: str, gates: int) -> Build:
    def build(b: Builder) -> Drawn:
        x = node(b, "Transpose", norm(b, given(b, 2, 4, 5)), perm=[2, 0, 1])
        matrices = (weight(b, 2, gates * 3, 4), weight(b, 2, gates * 3, 3), weight(b, 2, gates * 6))
        return node(b, op_type, x, *matrices, hidden_size=3, direction="bidirectional")

    return build


def _before_state(b: Builder) -> Drawn:
    """Append a recurrent layer whose initial state is normalised, and not its input."""
    state = node(b, "Transpose", norm(b, given(b, 2, 3, 1)), perm=[2, 0, 1])
    return node(b, "GRU", given(b, 5, 2, 4), weight(b, 1, 9, 4), weight(b, 1, 9, 3), "", "", state, hidden_size=3)


def _behind_state(b: Builder) -> Drawn:
    y = node(b, "GRU", given(b, 5, 2, 4), weight(b, 1, 9, 4), weight(b, 1, 9, 3), hidden_size=3)
    return norm(b, node(b, "Transpose", node(b, "Squeeze", y, ints(b, 1)), perm=[1, 2, 0]))


EXACT = [
    Pattern("Conv → GridSample border → BN", _sampled("border")),
    Pattern("BN → GridSample reflection → Conv", _into_grid),
    Pattern("Conv → GridSample zeros → BN without shift", _sampled("zeros", scale_only=True)),
    Pattern("DeformConv → BN", lambda b: norm(b, _deform(b, image(b))), opset=19),
    Pattern("DeformConv with group → BN", lambda b: norm(b, _deform(b, given(b, 2, 4, 6, 8), 2)), opset=19),
    exchanged("BN → DeformConv", lambda b: _deform(b, norm(b, image(b))), opset=19),
    Pattern("Conv → ReverseSequence → BN", _behind_reversed(0)),
    Pattern("Where(mask, Conv, Conv) → BN", _choice_of_two),
    Pattern("BN → Where(mask, a constant, itself) → Conv", _constant_operand),
    Pattern("BN → Where(mask, itself, itself mirrored) → Conv", _both_operands),
    *(Pattern(f"BN → {op}", _recurrent(op, gates)) for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))),
]  # fmt: skip
TRAPS = [
    Pattern("Conv → GridSample zeros → BN", _sampled("zeros")),
    Pattern("Conv → ReverseSequence of channels → BN", _behind_reversed(1)),
    Pattern("BN → Where(mask, itself, x) → Conv", _one_normalised),
    Pattern("Where(mask, BN, another BN) → Conv", _differently),
    Pattern("BN → initial state of a GRU", _before_state),
    Pattern("GRU → BN", _behind_state),
]  # fmt: skip
