"""Channels that compute nothing, taken out, and the ways in which others get that wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx

from tests.verification.faults.rewrite import Rewrite
from tests.verification.graphs import model, numbers

Array = npt.NDArray[np.float64]
HEAD = "(float[N,3,5,6] x) => (float[N,P,Q,R] y)"
KEPT, DEAD = [0, 2, 3], [1, 4]


def draw(*shape: int) -> Array:
    """Return normal numbers, the same for each shape."""
    return numbers(sum(shape)).normal(size=shape)


def _layers() -> dict[str, Array]:
    """Two layers; two filters of the first are zero."""
    weights = {"w": draw(5, 3, 1, 1), "b": np.abs(draw(5)) + 0.5, "v": draw(4, 5, 3, 3), "c": draw(4)}
    weights["w"][DEAD] = 0
    return weights


def constants() -> Rewrite:
    """A constant that moves into the next bias, in front of a convolution without padding."""
    text = f"{HEAD} {{ h = Conv (x, w, b)  r = Relu (h)  y = Conv (r, v, c) }}"
    old = _layers()
    moved = old["v"][:, DEAD].sum((2, 3)) @ old["b"][DEAD]

    def cut(kept: list[int], added: Array | float) -> onnx.ModelProto:
        weights = {"w": old["w"][kept], "b": old["b"][kept], "v": old["v"][:, kept], "c": old["c"] + added}
        return model(
            text.replace("h =", "g =").replace("(h)", "(g)").replace("r =", "s =").replace("(r,", "(s,"), weights
        )

    return Rewrite(
        "channels, Conv",
        model(text, old),
        cut(KEPT, moved),
        {
            "bias forgotten": cut(KEPT, 0.0),
            "wrong channel": cut([0, 1, 3], moved),
            "bias of one tap": cut(KEPT, old["v"][:, DEAD, 0, 0] @ old["b"][DEAD]),
        },
    )


def padded() -> Rewrite:
    """Zeros in front of a padded convolution may go; another constant may not, for the padding is 0."""
    text = f"{HEAD} {{ h = Conv (x, w, b)  y = Conv <pads = [1,1,1,1]> (h, v, c) }}"
    new = text.replace("h =", "g =").replace("(h,", "(g,")
    old = _layers()
    old["b"][DEAD] = [0.0, 0.7]

    def cut(gone: list[int]) -> onnx.ModelProto:
        kept = [place for place in range(5) if place not in gone]
        added = old["v"][:, gone].sum((2, 3)) @ old["b"][gone]
        return model(new, {"w": old["w"][kept], "b": old["b"][kept], "v": old["v"][:, kept], "c": old["c"] + added})

    wrong = {"a constant that padding makes uneven": cut(DEAD)}
    return Rewrite("channels, padded Conv", model(text, old), cut(DEAD[:1]), wrong)


def residual() -> Rewrite:
    """A branch is cut whose other operand goes on."""
    text = f"{HEAD} {{ h = Conv (x, w, b)  k = Conv (x, u)  s = Add (h, k)  y = Conv (s, v, c) }}"
    old = {**_layers(), "u": draw(5, 3, 1, 1)}
    old["u"][[1]] = 0
    renamed = text.replace("h =", "g =").replace("(h,", "(g,").replace("k =", "l =").replace(" k)", " l)")
    renamed = renamed.replace("s =", "t =").replace("(s,", "(t,")

    def cut(gone: list[int]) -> onnx.ModelProto:
        kept = [place for place in range(5) if place not in gone]
        added = old["v"][:, gone].sum((2, 3)) @ old["b"][gone]
        weights = {"w": old["w"][kept], "b": old["b"][kept], "u": old["u"][kept], "v": old["v"][:, kept]}
        return model(renamed, {**weights, "c": old["c"] + added})

    return Rewrite("channels, Add", model(text, old), cut([1]), {"dead in one operand only": cut(DEAD)})


def groups() -> Rewrite:
    """Channels of two groups: each has filters and channels of its own."""
    text = f"{HEAD} {{ h = Conv (x, w, b)  r = Relu (h)  y = Conv <group = 2> (r, v, c) }}"
    new = text.replace("h =", "g =").replace("(h)", "(g)").replace("r =", "s =").replace("(r,", "(s,")
    old = {"w": draw(6, 3, 1, 1), "b": np.abs(draw(6)) + 0.5, "v": draw(4, 3, 1, 1), "c": draw(4)}
    old["w"][[1, 5]] = 0
    old["b"][[1, 5]] = 0
    first, second = old["v"][:2, [0, 2]], old["v"][2:, [0, 1]]

    def cut(kept: list[int], weight: Array) -> onnx.ModelProto:
        return model(new, {"w": old["w"][kept], "b": old["b"][kept], "v": weight, "c": old["c"]})

    return Rewrite(
        "channels, groups",
        model(text, old),
        cut([0, 2, 3, 4], np.concatenate([first, second])),
        {
            "the same channels of each group": cut([0, 2, 3, 4], old["v"][:, [0, 2]]),
            "a group that is broken": cut([0, 3, 2, 4], np.concatenate([first, second])),
        },
    )


def rewrites() -> list[Rewrite]:
    """All of them."""
    return [constants(), padded(), residual(), groups()]
