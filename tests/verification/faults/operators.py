"""One fault at least for every operator that an affine is absorbed by, moves through or stops at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.verification.faults.carriers import carried
from tests.verification.faults.rewrite import BN, Rewrite
from tests.verification.graphs import Array, affine, along, model, numbers, single, statistics

Both = tuple[Array, Array]
Move = Callable[[Array, Array], Both]

REDUCED = "axes = [2,3]"
EXTRA: dict[str, Array] = {
    "number": np.array(2.5, np.float32),
    "slope": single(np.array([0.3, -0.5, 0.7, 0.1]).reshape(4, 1, 1)),
    "spatial": np.array([2, 3]),
    "last": np.array([4]),
    "one": np.array([1]),
    "three": np.array([3]),
    "picked": np.array([2, 0]),
    "stretched": np.array([1, 4, 5, 7]),
    "factors": np.array([1, 1, 2, 3], np.float32),
    "merged": np.array([0, 4, -1]),
    "times": np.array([1, 2, 1, 1]),
}


def same(s: Array, t: Array) -> Both:
    return s, t


def backwards(s: Array, t: Array) -> Both:
    return s[::-1], t[::-1]


def unshifted(s: Array, t: Array) -> Both:
    return s, 0 * t


def placed(*channels: int) -> Move:
    """The factors of a part, each where it comes from among four channels."""

    def place(s: Array, t: Array) -> Both:
        whole = np.ones(4), np.zeros(4)
        whole[0][list(channels)], whole[1][list(channels)] = s, t
        return whole

    return place


UP: dict[str, tuple[str, Move, str, Move]] = {
    "Div": ("Div (c, number)", lambda s, t: (s, 2.5 * t), "shift not multiplied", same),
    "Neg": ("Neg (c)", lambda s, t: (s, -t), "shift not negated", same),
    "Identity": ("Identity (c)", same, "shift lost", unshifted),
    "Dropout": ("Dropout (c)", same, "as if half were dropped", lambda s, t: (s / 2, t)),
    "Squeeze": ("Squeeze (c, spatial)", same, "axis reversed", backwards),
    "Reshape": ("Reshape (c, merged)", same, "axis reversed", backwards),
    "Unsqueeze": ("Unsqueeze (c, last)", same, "axis reversed", backwards),
    "Slice": ("Slice (c, one, three, one)", placed(1, 2), "part taken for the first", placed(0, 1)),
    "Gather": ("Gather <axis = 1> (c, picked)", placed(2, 0), "indices overlooked", placed(0, 1)),
    "Expand": ("Expand (c, stretched)", same, "axis reversed", backwards),
    "Resize": ("Resize (c, , factors)", same, "shift lost", unshifted),
    "Upsample": ("Upsample (c, factors)", same, "shift lost", unshifted),
    "Cast": ("Cast <to = 1> (c)", same, "shift lost", unshifted),
    "CastLike": ("CastLike (c, number)", same, "shift lost", unshifted),
    "ReduceMean": (f"ReduceMean <{REDUCED}> (c)", same, "shift averaged twice", lambda s, t: (s, t / 2)),
}
DOWN: dict[str, tuple[str, Move, str, Move]] = {
    "Tile": (
        "Tile (n, times)",
        lambda s, t: (np.tile(s, 2), np.tile(t, 2)),
        "factors repeated, not tiled",
        lambda s, t: (np.repeat(s, 2), np.repeat(t, 2)),
    ),
    "SpaceToDepth": (
        "SpaceToDepth <blocksize = 2> (n)",
        lambda s, t: (np.tile(s, 4), np.tile(t, 4)),
        "factors repeated, not tiled",
        lambda s, t: (np.repeat(s, 4), np.repeat(t, 4)),
    ),
}
STOPPED = {
    "LeakyRelu": ("LeakyRelu (c)", "negative scale through LeakyRelu"),
    "PRelu": ("PRelu (c, slope)", "negative scale through PRelu"),
    "Abs": ("Abs (c)", "sign of the scale lost"),
    "Mish": ("Mish (c)", "scale through what is not homogeneous"),
    "Max": ("Max (c, number)", "other operand left alone"),
    "Min": ("Min (c, number)", "other operand left alone"),
    "GlobalMaxPool": ("GlobalMaxPool (c)", "negative scale through a maximum"),
    "ReduceMax": (f"ReduceMax <{REDUCED}> (c)", "negative scale through a maximum"),
    "ReduceMin": (f"ReduceMin <{REDUCED}> (c)", "negative scale through a minimum"),
    "ReduceSum": ("ReduceSum (c, spatial)", "shift not summed"),
}
OPSET = {"Upsample": 9, "CastLike": 15, "Mish": 18, "GroupNormalization": 21, "LayerNormalization": 17}


def extra(text: str) -> dict[str, Array]:
    return {name: array for name, array in EXTRA.items() if name in text.replace(",", " ").replace(")", " ").split()}


def upward(name: str, text: str, right: Move, fault: str, wrong: Move) -> Rewrite:
    """Conv → the operator → BatchNormalization: factor and shift go up into the Conv."""
    rng = numbers(41)
    stats = statistics(rng, 2 if name in ("Slice", "Gather") else 4)
    weight = single(rng.normal(size=(4, 3, 1, 1)))
    head = f"(float[N,3,{'1,1' if name in ('Squeeze', 'Expand') else '4,5'}] x) => (float y)"

    def after(move: Move) -> onnx.ModelProto:
        s, t = move(*affine(stats))
        weights = {"W": weight * along(s, 0, 4), "b": t, **extra(text)}
        return model(f"{head} {{ c = Conv (x, W, b)  y = {text} }}", weights, opset=OPSET.get(name, 13))

    body = f"{head} {{ c = Conv (x, W)  d = {text}  y = {BN} (d, scale, B, mean, var) }}"
    before = model(body, {"W": weight, **stats, **extra(text)}, opset=OPSET.get(name, 13))
    return Rewrite(f"Conv, {name}, BatchNormalization", before, after(right), {fault: after(wrong)})


def downward(name: str, text: str, right: Move, fault: str, wrong: Move) -> Rewrite:
    """BatchNormalization → the operator → Conv: factor and shift go down into the Conv."""
    rng = numbers(42)
    stats = statistics(rng, 4)
    channels = right(*affine(stats))[0].size
    weight = single(rng.normal(size=(3, channels, 1, 1)))
    head = "(float[N,4,6,8] x) => (float y)"

    def after(move: Move) -> onnx.ModelProto:
        s, t = move(*affine(stats))
        weights = {"W": weight * along(s, 1, 4), "b": weight[:, :, 0, 0].astype(float) @ t, **extra(text)}
        return model(f"{head} {{ d = {text.replace('(n', '(x')}  y = Conv (d, W, b) }}", weights)

    body = f"{head} {{ n = {BN} (x, scale, B, mean, var)  d = {text}  y = Conv (d, W) }}"
    before = model(body, {"W": weight, **stats, **extra(text)})
    return Rewrite(f"BatchNormalization, {name}, Conv", before, after(right), {fault: after(wrong)})


def normalised(name: str, attributes: str, dims: str) -> Rewrite:
    """A normaliser with scale and bias of its own → BatchNormalization."""
    rng = numbers(43)
    stats = statistics(rng, 4)
    s, t = affine(stats)
    scale, bias = single(rng.normal(size=4)), single(rng.normal(size=4))
    head = f"(float[N,4{dims}] x) => (float y)"
    body = f"{head} {{ d = {name} <{attributes}> (x, g, h)  y = {BN} (d, scale, B, mean, var) }}"

    def after(shift: Array) -> onnx.ModelProto:
        weights = {"g": s * scale, "h": shift}
        return model(f"{head} {{ y = {name} <{attributes}> (x, g, h) }}", weights, opset=OPSET[name])

    before = model(body, {"g": scale, "h": bias, **stats}, opset=OPSET[name])
    right, wrong = after(s * bias + t), after(bias + t)
    return Rewrite(f"{name}, BatchNormalization", before, right, {"bias not scaled": wrong})


def arms(name: str, *, once: bool) -> Rewrite:
    """An operator of two Convs → BatchNormalization: a sum is shifted in one arm, a mean in both."""
    rng = numbers(44)
    stats = statistics(rng, 4)
    s, t = affine(stats)
    left, right = (single(rng.normal(size=(4, 3, 1, 1))) for _ in range(2))
    head = "(float[N,3,4,5] x) => (float y)"
    body = f"{head} {{ p = Conv (x, V)  q = Conv (x, W)  d = {name} (p, q)  y = {BN} (d, scale, B, mean, var) }}"

    def after(shift: Array) -> onnx.ModelProto:
        weights = {"V": left * along(s, 0, 4), "W": right * along(s, 0, 4), "a": t, "b": shift}
        return model(f"{head} {{ p = Conv (x, V, a)  q = Conv (x, W, b)  y = {name} (p, q) }}", weights)

    both, one = after(t), after(0 * t)
    shown = {"shift in both arms" if once else "shift in one arm": both if once else one}
    before = model(body, {"V": left, "W": right, **stats})
    return Rewrite(f"{name} of Convs, BatchNormalization", before, one if once else both, shown)


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [
        *(upward(name, *row) for name, row in UP.items()),
        *(downward(name, *row) for name, row in DOWN.items()),
        *(
            carried(f"Conv, {name}, BatchNormalization", text, fault, extra(text), opset=OPSET.get(name, 13))
            for name, (text, fault) in STOPPED.items()
        ),
        normalised("GroupNormalization", "num_groups = 2", ",4,5"),
        normalised("LayerNormalization", "axis = 1", ""),
        arms("Sum", once=True),
        arms("Mean", once=False),
    ]
