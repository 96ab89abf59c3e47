"""Exact rewrites that leave fewer nodes, and the ways in which others get them wrong."""

from __future__ import annotations

import numpy as np

from tests.verification.faults.rewrite import Rewrite
from tests.verification.graphs import model, numbers, single

HEAD = "(float[N,4,5] x) => (float[P,Q,R] y)"


def transposes() -> Rewrite:
    """Two in a row, of which the orders are put together the wrong way round, or taken for each other's inverse."""
    two = "a = Relu (x)  t = Transpose <perm = [1,2,0]> (a)  y = Transpose <perm = [0,2,1]> (t)"
    return Rewrite(
        "Transpose, Transpose",
        model(f"{HEAD} {{ {two} }}", {}),
        model(f"{HEAD} {{ a = Relu (x)  y = Transpose <perm = [1,0,2]> (a) }}", {}),
        {
            "orders put together the wrong way round": model(
                f"{HEAD} {{ a = Relu (x)  y = Transpose <perm = [2,1,0]> (a) }}", {}
            ),
            "taken for a pair that cancels": model(f"{HEAD} {{ y = Relu (x) }}", {}),
        },
    )


def targets() -> Rewrite:
    """A target that is computed from an open size, stored; a size of the samples in it would be fixed."""
    sizes = {"front": np.array([0]), "second": np.array([2]), "rest": np.array([2, 10])}
    computed = "s = Shape (x)  n = Gather (s, front)  t = Concat <axis = 0> (n, rest)  y = Reshape (x, t)"
    stored = "y = Reshape (x, t)"
    return Rewrite(
        "Shape, Gather, Concat, Reshape",
        model(f"{HEAD} {{ {computed} }}", sizes),
        model(f"{HEAD} {{ {stored} }}", {"t": np.array([0, 2, 10])}),
        {
            "sizes in another order": model(f"{HEAD} {{ {stored} }}", {"t": np.array([0, 10, 2])}),
            "the rest in the place of the batch": model(f"{HEAD} {{ {stored} }}", {"t": np.array([2, -1, 10])}),
        },
    )


def twins() -> Rewrite:
    """Nodes that are equal but for a constant, computed once for all."""
    weights = {"p": single(numbers(5).normal(size=(5,))), "q": single(numbers(6).normal(size=(5,)))}
    three = "a = Add (x, p)  b = Add (x, p)  c = Add (x, q)  d = Mul (a, b)  y = Mul (d, c)"
    once = "a = Add (x, p)  c = Add (x, q)  d = Mul (a, a)  y = Mul (d, c)"
    return Rewrite(
        "equal nodes",
        model(f"{HEAD} {{ {three} }}", weights),
        model(f"{HEAD} {{ {once} }}", weights),
        {
            "united with one of another constant": model(
                f"{HEAD} {{ a = Add (x, p)  d = Mul (a, a)  y = Mul (d, a) }}", {"p": weights["p"]}
            )
        },
    )


def additions() -> Rewrite:
    """An Add behind a convolution, whose constant becomes the bias in another order of its channels."""
    rng = numbers(7)
    weight, added = single(rng.normal(size=(3, 4, 1))), single(rng.normal(size=(1, 3, 1)))
    one = f"{HEAD} {{ y = Conv (x, W, b) }}"
    bias = added.reshape(3)
    return Rewrite(
        "Conv, Add of a constant",
        model(f"{HEAD} {{ c = Conv (x, W)  y = Add (c, b) }}", {"W": weight, "b": added}),
        model(one, {"W": weight, "b": bias}),
        {"bias in another order": model(one, {"W": weight, "b": bias[::-1].copy()})},
    )


def slices() -> Rewrite:
    """A Slice that takes all of an axis, and one that takes nearly all of it."""
    sizes = {"start": np.array([0]), "end": np.array([5]), "axis": np.array([2])}
    return Rewrite(
        "Slice of all",
        model(f"{HEAD} {{ s = Slice (x, start, end, axis)  y = Relu (s) }}", sizes),
        model(f"{HEAD} {{ y = Relu (x) }}", {}),
        {
            "another axis is cut": model(
                f"{HEAD} {{ s = Slice (x, start, end, axis)  y = Relu (s) }}", {**sizes, "end": np.array([4])}
            )
        },
    )


def rewrites() -> list[Rewrite]:
    """All of them."""
    return [transposes(), targets(), twins(), additions(), slices()]
