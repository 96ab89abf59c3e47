"""Exact rewrites that leave fewer nodes, and the ways in which others get them wrong."""

from __future__ import annotations

import numpy as np
import onnx

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


def sizes() -> Rewrite:
    """Sizes that are read in two ways, read once; and Reshapes in a row that end where they began."""
    head = "(float[N,M,5] x) => (float[P,Q,R] y)"
    stored = {"rest": np.array([-1]), "i": np.array([0]), "j": np.array([1])}
    row = "f = Reshape (r, rest)  u = Concat <axis = 0> (n, m, rest)  q = Reshape (f, u)"
    twice = f"s = Shape (x)  n = Slice (s, i, j)  k = Gather (s, i)  m = Gather (s, j)  {row}"

    def once(first: str, second: str) -> onnx.ModelProto:
        read = f"s = Shape (x)  {first} = Slice (s, i, j)  {second} = Gather (s, j)"
        return model(
            f"{head} {{ r = Relu (x)  {read}  t = Concat <axis = 0> (m, n, rest)  y = Reshape (r, t) }}", stored
        )

    return Rewrite(
        "Shape, Slice, Gather, Concat, Reshape, Reshape",
        model(f"{head} {{ r = Relu (x)  {twice}  t = Concat <axis = 0> (m, k, rest)  y = Reshape (q, t) }}", stored),
        once("n", "m"),
        {
            "the size of another axis": model(
                f"{head} {{ r = Relu (x)  s = Shape (x)  n = Slice (s, i, j)  t = Concat <axis = 0> (n, n, rest)"
                "  y = Reshape (r, t) }",
                stored,
            ),
            "sizes exchanged": once("m", "n"),
        },
    )


def narrow() -> Rewrite:
    """A Transpose of an axis of one element, and the Reshape behind it that takes its place."""
    head = "(float[N,1,5] x) => (float[P,Q] y)"
    sizes = {"rows": np.array([-1, 5]), "columns": np.array([5, -1])}
    body = "a = Relu (x)  t = Transpose <perm = [1,0,2]> (a)  y = Reshape (t, rows)"

    def one(target: str) -> onnx.ModelProto:
        return model(f"{head} {{ a = Relu (x)  y = Reshape (a, {target}) }}", {target: sizes[target]})

    return Rewrite(
        "Transpose of an axis of one element, Reshape",
        model(f"{head} {{ {body} }}", {"rows": sizes["rows"]}),
        one("rows"),
        {"sizes exchanged": one("columns")},
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


def joined_axes() -> Rewrite:
    """Axes that are joined for a Transpose, and parted behind it; other axes are exchanged instead, or none."""
    head = "(float[N,2,3,5] x) => (float[P,Q,R,S] y)"
    sizes = {"front": np.array([-1, 3, 5]), "place": np.array([0]), "rest": np.array([2, 5, 3])}
    three = "j = Reshape (x, front)  t = Transpose <perm = [0,2,1]> (j)"
    target = "s = Shape (x)  n = Gather (s, place)  p = Concat <axis = 0> (n, rest)"

    def one(perm: str, more: str = "y = Relu (t)") -> onnx.ModelProto:
        return model(f"{head} {{ t = Transpose <perm = {perm}> (x)  {more} }}", {})

    return Rewrite(
        "Reshape, Transpose, Reshape",
        model(f"{head} {{ {three}  {target}  r = Reshape (t, p)  y = Relu (r) }}", sizes),
        one("[0,1,3,2]"),
        {
            "other axes exchanged": one("[0,2,3,1]"),
            "parted alone": model(
                f"{head} {{ {target}  r = Reshape (x, p)  y = Relu (r) }}", {**sizes, "front": np.array([0])}
            ),
        },
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


def rows() -> Rewrite:
    """Slices of two axes as one, and Unsqueezes whose axes count from what is there before or behind."""
    numbers = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "end": np.array([9])}
    pair = "a = Slice (x, zero, end, one, two)  b = Slice (a, one, end, two, two)"
    stacked = "c = Unsqueeze (b, one)  y = Unsqueeze (c, zero)"
    body = "(float[N,4,5] x) => (float[P,Q,R,S,T] y)"

    def one(starts: list[int], axes: list[int], places: list[int]) -> onnx.ModelProto:
        stored = {"s": np.array(starts), "e": np.array([9, 9]), "x_axes": np.array(axes), "t": np.array([2, 2])}
        return model(
            f"{body} {{ b = Slice (x, s, e, x_axes, t)  y = Unsqueeze (b, p) }}", {**stored, "p": np.array(places)}
        )

    return Rewrite(
        "Slice, Slice, Unsqueeze, Unsqueeze",
        model(f"{body} {{ {pair}  {stacked} }}", numbers),
        one([0, 1], [1, 2], [0, 2]),
        {
            "axes exchanged": one([0, 1], [2, 1], [0, 2]),
            "the start of another Slice": one([1, 1], [1, 2], [0, 2]),
            "axes of the second not moved": one([0, 1], [1, 2], [0, 1]),
        },
    )


def joined() -> Rewrite:
    """Concats along one axis as one, with a part that is lost, or parts in another order."""
    body = "(float[N,4,5] x) => (float[P,Q,R] y)"
    parts = "a = Neg (x)  b = Abs (x)"

    def one(*names: str) -> onnx.ModelProto:
        return model(f"{body} {{ {parts}  y = Concat <axis = 1> ({', '.join(names)}) }}", {})

    return Rewrite(
        "Concat, Concat",
        model(f"{body} {{ {parts}  c = Concat <axis = 1> (a, b)  y = Concat <axis = 1> (x, c) }}", {}),
        one("x", "a", "b"),
        {"in another order": one("a", "b", "x"), "one part twice": one("x", "a", "a")},
    )


def decided() -> Rewrite:
    """An If of which a constant decides, and its branch in its place, which captures values and holds another If."""
    head = "(float[N,4,5] x) => (float[P,Q,R] y, float[S,T,U] z)"
    outside = "a = Relu (x)  b = Neg (x)  s = ReduceSum <keepdims = 0> (x)  c = Greater (s, zero)"
    inner = """
        If (c) <
            then_branch = i () => (float[A,B,C] p) { p = Add (d, b) },
            else_branch = j () => (float[D,E,F] q) { q = Sub (d, b) }
        >
    """
    sides = f"""
        then_branch = t () => (float[G,H,I] e, float[J,K,L] f) {{ d = Mul (a, w)  e = {inner}  f = Sub (d, a) }},
        else_branch = n () => (float[G,H,I] g, float[J,K,L] h) {{ d = Mul (b, w)  g = Exp (d)  h = Add (d, a) }}
    """
    weights = {"w": single(numbers(8).normal(size=(4, 5))), "zero": single(np.zeros(()))}

    def inlined(*made: str) -> onnx.ModelProto:
        return model(f"{head} {{ {outside}  {'  '.join(made)} }}", weights)

    first, last = "d = Mul (a, w)", "z = Sub (d, a)"
    return Rewrite(
        "If of a constant condition",
        model(f"{head} {{ {outside}  y, z = If (yes) <{sides}> }}", {**weights, "yes": np.array(True)}),
        inlined(first, f"y = {inner}", last),
        {
            "the other branch": inlined("d = Mul (b, w)", "y = Exp (d)", "z = Add (d, a)"),
            "results exchanged": inlined(first, f"z = {inner}", "y = Sub (d, a)"),
            "another captured value": inlined("d = Mul (b, w)", f"y = {inner}", last),
            "another captured value in the graph inside": inlined(
                first, f"y = {inner.replace('(d, b)', '(d, a)')}", last
            ),
            "a value of the other branch": inlined(first, "g = Mul (b, w)", f"y = {inner}", "z = Sub (g, a)"),
            "the branches of the If inside exchanged": inlined(
                first, f"y = {inner.replace('then_', 'no_').replace('else_', 'then_').replace('no_', 'else_')}", last
            ),
        },
        cut=(("x",), ("y", "z")),
    )


def decided_by_sizes() -> Rewrite:
    """An If of which a declared size decides; one of a dynamic size must stay."""
    sides = """
        then_branch = t () => (float[A,B,C] p) { d = Neg (x)  p = Exp (d) },
        else_branch = n () => (float[D,E,F] q) { e = Abs (x)  q = Sqrt (e) }
    """
    condition = "s = Shape (x)  n = Gather (s, place)  c = Greater (n, most)"
    sizes = {"place": np.array(2), "most": np.array(4)}
    before = model(f"{HEAD} {{ {condition}  y = If (c) <{sides}> }}", sizes)
    return Rewrite(
        "If of a known size",
        before,
        model(f"{HEAD} {{ d = Neg (x)  y = Exp (d) }}", {}),
        {"the other branch": model(f"{HEAD} {{ e = Abs (x)  y = Sqrt (e) }}", {})},
    )


def decided_by_the_batch() -> Rewrite:
    """An If of a dynamic size beside one of a constant, which alone is decided."""
    sides = """
        then_branch = t () => (float[A,B,C] p) { d = Neg (x)  p = Exp (d) },
        else_branch = n () => (float[D,E,F] q) { e = Abs (x)  q = Sqrt (e) }
    """
    condition = "s = Shape (x)  n = Gather (s, place)  c = Greater (n, most)"
    other = "If (yes) <then_branch = k () => (float[G,H,I] o) { o = Relu (r) }, else_branch = l () => (float[J,K,L] u) "
    sizes = {"place": np.array(0), "most": np.array(2)}
    undecided = f"{condition}  r = If (c) <{sides}>"
    return Rewrite(
        "If of a dynamic size",
        model(f"{HEAD} {{ {undecided}  y = {other}{{ u = Neg (r) }}> }}", {**sizes, "yes": np.array(True)}),
        model(f"{HEAD} {{ {undecided}  y = Relu (r) }}", sizes),
        {
            "taken for large": model(f"{HEAD} {{ d = Neg (x)  r = Exp (d)  y = Relu (r) }}", {}),
            "taken for small": model(f"{HEAD} {{ e = Abs (x)  r = Sqrt (e)  y = Relu (r) }}", {}),
        },
    )


def decided_by_rank() -> Rewrite:
    """An If of a rank, which is the one that an LSTM takes; the If before it, of numbers, must stay."""
    head = "(float[N,4,1] x) => (float[P,Q,R] y)"
    first = """
        l = Abs (x)  m = ReduceSum <keepdims = 0> (l)  c = GreaterOrEqual (m, least)
        a = If (c) <
            then_branch = t () => (float[A,B] p) <int64[1] last = {-1}> { p = Squeeze (x, last) },
            else_branch = e () => (float[D,E,F] q) { q = Identity (x) }
        >
    """
    second = """
        b = If (n) <
            then_branch = u () => (float[G,H,I] r) <int64[1] one = {1}> { o = Neg (a)  r = Unsqueeze (o, one) },
            else_branch = v () => (float[J,K] z) { z = Abs (a) }
        >
    """
    rank = "s = Shape (a)  k = Size (s)  e = Equal (k, two)  n = Not (e)"
    last = "d = Unsqueeze (b, zero)  h, i, j = LSTM <hidden_size = 2> (d, w, v)  y = Relu (i)"
    rng = numbers(9)
    weights = {
        "w": single(rng.normal(size=(1, 8, 4))),
        "v": single(rng.normal(size=(1, 8, 2))),
        "zero": np.array([0]),
        "two": np.array(2),
        "least": single(np.zeros(())),
    }

    def one(choice: str) -> onnx.ModelProto:
        return model(f"{head} {{ {first}  {choice}  {last} }}", weights)

    return Rewrite(
        "If of a rank",
        one(f"{rank}  {second}"),
        one("b = Abs (a)"),
        {"what the other branch computes": one("b = Neg (a)"), "neither": one("b = Identity (a)")},
    )


def rewrites() -> list[Rewrite]:
    """All of them."""
    ifs = [decided(), decided_by_sizes(), decided_by_the_batch(), decided_by_rank()]
    return [
        transposes(),
        targets(),
        sizes(),
        narrow(),
        twins(),
        additions(),
        joined_axes(),
        slices(),
        rows(),
        joined(),
        *ifs,
    ]
