"""What reads sequences, or images at computed places; and what chooses by a mask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics

LENGTHS = np.array([1, 2, 3, 2])
HEAD = "(float[3,4,5,6] x) => (float y)"


def before_conv(name: str, text: str, given: Mapping[str, Array], fault: str, *, opset: int = 20) -> Rewrite:
    """Conv → the operator → BatchNormalization; and with half of the shift, or the sign lost."""
    rng = numbers(61)
    stats = statistics(rng, 4)
    kernel, (s, t) = single(rng.normal(size=(4, 4, 1, 1))), affine(stats)

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        weights = {"W": kernel * along(factor, 0, 4), "b": shift, **given}
        return model(f"{HEAD} {{ c = Conv (x, W, b)  y = {text} }}", weights, opset=opset)

    body = f"{HEAD} {{ c = Conv (x, W)  d = {text}  y = {BN} (d, scale, B, mean, var) }}"
    before = model(body, {"W": kernel, **stats, **given}, opset=opset)
    wrong = {fault: after(s, t / 2), "sign of the scale lost": after(np.abs(s), t)}
    return Rewrite(f"Conv, {name}, BatchNormalization", before, after(s, t), wrong)


def zeros_beside() -> Rewrite:
    """A scale moves through a GridSample that reads zeros beside the image; a shift does not."""
    rng = numbers(62)
    kernel, s = single(rng.normal(size=(4, 4, 1, 1))), np.array([0.5, -2.0, 1.5, 3.0])
    places = single(rng.uniform(-1.5, 1.5, (3, 4, 4, 2)))
    factors, shift = single(s.reshape(4, 1, 1)), single(np.arange(1.0, 5.0).reshape(4, 1, 1))
    body = f"{HEAD} {{ c = Conv (x, W)  d = GridSample (c, grid)  e = Mul (d, factors)  y = Add (e, shift) }}"
    before = model(body, {"W": kernel, "grid": places, "factors": factors, "shift": shift}, opset=20)

    def after(text: str, more: Mapping[str, Array]) -> onnx.ModelProto:
        return model(f"{HEAD} {{ {text} }}", {"W": kernel * along(s, 0, 4), "grid": places, **more}, opset=20)

    right = after("f = Conv (x, W)  g = GridSample (f, grid)  y = Add (g, shift)", {"shift": shift})
    wrong = after("f = Conv (x, W, b)  y = GridSample (f, grid)", {"b": shift.reshape(4)})
    return Rewrite("Conv, GridSample, Mul, Add", before, right, {"shift moved where zeros are read": wrong})


def deform() -> Rewrite:
    """DeformConv with 2 groups → BatchNormalization."""
    rng = numbers(63)
    stats = statistics(rng, 6)
    kernel, offset, bias = (single(rng.normal(size=size)) for size in ((6, 2, 2, 2), (3, 8, 4, 5), (6,)))
    s, t = affine(stats)
    node = "DeformConv <group = 2, kernel_shape = [2,2]> (x, W, offset, b)"

    def after(factor: Array, shift: Array) -> onnx.ModelProto:
        weights = {"W": kernel * along(factor, 0, 4), "offset": offset, "b": shift}
        return model(f"{HEAD} {{ y = {node} }}", weights, opset=19)

    given = {"W": kernel, "offset": offset, "b": bias, **stats}
    before = model(f"{HEAD} {{ c = {node}  y = {BN} (c, scale, B, mean, var) }}", given, opset=19)
    wrong = {
        "bias not scaled": after(s, bias + t),
        "groups swapped": after(np.roll(s, 3), s * bias + t),
        "shift lost": after(s, s * bias),
    }
    return Rewrite("DeformConv, BatchNormalization", before, after(s, s * bias + t), wrong)


def recurrent(op: str, gates: int) -> Rewrite:
    """BatchNormalization → Transpose → a recurrent node, both directions."""
    rng, rows = numbers(64), 3 * gates
    stats = statistics(rng, 4)
    w, r, b = (single(rng.normal(size=size) / 2) for size in ((2, rows, 4), (2, rows, 3), (2, 2 * rows)))
    s, t = affine(stats)
    head = "(float[2,4,5] x) => (float y)"
    reset = ", linear_before_reset = 1" if op == "GRU" else ""
    about = f'<direction = "bidirectional", hidden_size = 3{reset}> (z, W, R, b) }}'

    def after(factor: Array, place: slice, shift: Array = t) -> onnx.ModelProto:
        bias = b.astype(np.float64)
        bias[:, place] += w.astype(np.float64) @ shift
        return model(
            f"{head} {{ z = Transpose <perm = [2,0,1]> (x)  y = {op} {about}", {"W": w * factor, "R": r, "b": bias}
        )

    before = model(
        f"{head} {{ n = {BN} (x, scale, B, mean, var)  z = Transpose <perm = [2,0,1]> (n)  y = {op} {about}",
        {"W": w, "R": r, "b": b, **stats},
    )
    wrong = {
        "shift lost": after(s, slice(rows), 0 * t),
        "sign of the scale lost": after(np.abs(s), slice(rows)),
        "scale backwards": after(s[::-1], slice(rows)),
    }
    if op == "GRU":  # of others the halves of the bias are only added up
        wrong["shift in the bias of the recurrence"] = after(s, slice(rows, None))
    return Rewrite(f"BatchNormalization, {op}", before, after(s, slice(rows)), wrong)


def chosen() -> Rewrite:
    """BatchNormalization → Where → Conv: what is chosen instead takes the inverse."""
    rng = numbers(65)
    stats = statistics(rng, 4)
    s, t = affine(stats)
    kernel, other = single(rng.normal(size=(3, 4, 1, 1))), single(rng.normal(size=(4, 1, 1)))
    mask = rng.random((5, 6)) < 0.5

    def after(constant: Array, factor: Array = s) -> onnx.ModelProto:
        weights = {
            "W": kernel * along(factor, 1, 4), "b": kernel[:, :, 0, 0].astype(float) @ t, "m": mask, "o": constant,
        }  # fmt: skip
        return model(f"{HEAD} {{ z = Where (m, x, o)  y = Conv (z, W, b) }}", weights, opset=16)

    inverse = (other - t.reshape(4, 1, 1)) / s.reshape(4, 1, 1)
    body = f"{HEAD} {{ n = {BN} (x, scale, B, mean, var)  z = Where (m, n, o)  y = Conv (z, W) }}"
    before = model(body, {"W": kernel, "m": mask, "o": other, **stats}, opset=16)
    wrong = {
        "the other arm left alone": after(other),
        "the other arm not shifted": after(other / s.reshape(4, 1, 1)),
        "sign of the scale lost": after(inverse, np.abs(s)),
    }
    return Rewrite("BatchNormalization, Where, Conv", before, after(inverse), wrong)


def rewrites() -> list[Rewrite]:
    """All of this module."""
    places = {"grid": single(numbers(60).uniform(-1.5, 1.5, (3, 4, 4, 2)))}
    reverse = "ReverseSequence <time_axis = 0, batch_axis = 1> (c, lengths)"
    return [
        before_conv("GridSample", 'GridSample <padding_mode = "border"> (c, grid)', places, "half of the shift"),
        before_conv("ReverseSequence", reverse, {"lengths": LENGTHS}, "half of the shift"),
        zeros_beside(),
        deform(),
        *(recurrent(op, gates) for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))),
        chosen(),
    ]
