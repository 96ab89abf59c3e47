"""Integers of shape computations, of which open sizes are followed by name."""

from __future__ import annotations

import onnx
import pytest

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Integers, Proven

N = "0:0"
STORED = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] far = {-1}, int64 first = {0}"


def integers(body: str, result: str = "y") -> Integers | None:
    head = f'<ir_version: 8, opset_import: ["" : 15]> g (float[N, 3, 4] x, int64[1] t) => (int64[M] y) <{STORED}>'
    model = ir.load(onnx.parser.parse_model(f"{head} {{ s = Shape (x) {body} }}"))
    return Proven(model).integers(model.graph.values[result])


@pytest.mark.parametrize(
    ("body", "items"),
    [
        ("y = Identity (s)", [N, 3, 4]),
        ("y = Slice (s, zero, three, zero, one)", [N, 3, 4]),
        ("y = Slice (s, far, zero, zero, far)", [4, 3]),
        ("g = Gather (s, first) y = Unsqueeze (g, zero)", [N]),
        ("a = Mul (s, one) b = Add (zero, a) y = Div (b, one)", [N, 3, 4]),
        ("y = Mul (s, three)", [f"{N}*3", 9, 12]),
        ("a = Mul (s, s) b = Mul (three, a) y = Mul (b, zero)", [0, 0, 0]),
        ("a = Mul (s, s) y = Mul (three, a)", [f"{N}*{N}*3", 27, 48]),
        ("y = Mul (s, far)", [None, -3, -4]),
        ("c = Cast <to = 6> (s) y = Add (c, c)", [None, 6, 8]),
        ("c = Cast <to = 6> (s) d = Cast <to = 6> (three) y = Mul (c, d)", [None, 9, 12]),
        ("m = Mul (s, three) y = Cast <to = 6> (m)", [None, 9, 12]),
        ("y = ReduceProd (s)", [f"{N}*12"]),
        ("g = Slice (s, one, three) y = ReduceProd <axes = [0]> (g)", [12]),
        ("z = Size (x) y = Unsqueeze (z, zero)", [f"{N}*12"]),
        ("y = Max (s, three)", [None, 3, 4]),
        ("y = Max (s, s)", [N, 3, 4]),
        ("y = Concat <axis = 0> (s, t)", [N, 3, 4, None]),
        ("g = Gather (s, zero) y = Reshape (g, t)", [N]),
        ("e = Equal (s, three) y = Where (e, far, s)", [None, -1, 4]),
        ("e = Equal (s, far) y = Where (e, far, s)", [N, 3, 4]),
        ("y = Cast <to = 6> (s)", [N, 3, 4]),
        ("r = Shape (s) y = ConstantOfShape <value = int64[1] {7}> (r)", [7, 7, 7]),
        ("y = Mod (s, three)", [None, 0, 1]),
        ("y = Mod <fmod = 1> (s, one)", [0, 0, 0]),
        ("m = Mul (s, three) y = Mod (m, three)", [0, 0, 0]),
        ("m = Mul (s, three) d = Add (one, one) y = Mod (m, d)", [None, 1, 0]),
        ("m = Mul (s, three) y = Div (m, three)", [N, 3, 4]),
        ("a = Mul (s, s) b = Mul (three, a) y = Div (b, three)", [f"{N}*{N}", 9, 16]),
        ("m = Mul (s, three) d = Add (one, one) y = Div (m, d)", [None, 4, 6]),
        ("y = Div (s, s)", [None, 1, 1]),
        ("y = Mod (s, s)", [None, 0, 0]),
        ("y = Sub (s, s)", [0, 0, 0]),
        ("y = Sub (s, three)", [None, 0, 1]),
        ("a = Sub (s, three) y = Sub (a, a)", [None, 0, 0]),
        ("y = Min (s, three)", [None, 3, 3]),
        ("y = Min (zero, s)", [0, 0, 0]),
        ("y = Max (far, s)", [N, 3, 4]),
        ("a = Sub (s, three) y = Max (a, zero)", [None, 0, 1]),
        ("a = Sub (s, three) y = Min (a, a)", [None, 0, 1]),
        ("d = Constant <value_ints = [1, 2]> () u, y = Split (s, d)", [3, 4]),
        ("u, v, y = Split (s)", [4]),
        ("g = Slice (s, zero, one) y = Expand (g, three)", [N, N, N]),
        ("g = Slice (s, zero, one) h = Add (one, one) y = Tile (g, h)", [N, N]),
        ("r = Size (s) f = Add (r, far) y = Range (f, r, one)", [2]),
        ("y = Transpose <perm = [0]> (s)", [N, 3, 4]),
        ("p = Constant <value_ints = [1, 1]> () y = Pad (s, p)", [0, N, 3, 4, 0]),
        ("p = Constant <value_ints = [0, 1]> () y = Pad (s, p, first)", [N, 3, 4, 0]),
    ],
)
def test_open_sizes_keep_their_names(body: str, items: list[int | str | None]) -> None:
    found = integers(body)
    assert found is not None
    assert found.items == items
    assert (found.numbers is None) == any(not isinstance(item, int) for item in items)


def test_a_scalar_is_none_of_the_vectors() -> None:
    found = integers("y = Gather (s, first)")
    assert found is not None
    assert (found.dims, found.items) == ((), [N])


@pytest.mark.parametrize(
    "body",
    [
        "y = Identity (t)",
        "y = Slice (s, t, three)",
        "y = Slice (s, zero, three, t)",
        "y = Gather (s, t)",
        "y = Gather (s, three)",
        "y = ReduceProd <axes = [1]> (s)",
        "c = Cast <to = 6> (s) y = ReduceProd (c)",
        "y = ReduceProd (t)",
        "u = Unsqueeze (s, zero) y = Squeeze (u, zero)",
        "y = ConstantOfShape <value = int64[1] {7}> (s)",
        "n = Neg (s) y = Div (three, far)",
        "y = Mod (s, zero)",
        "y = Mod (far, three)",
        "y = Div (s, far)",
        "d = Constant <value_ints = [1, 1]> () u, y = Split (s, d)",
        "u, y = Split (s, t)",
        "y = Expand (s, t)",
        "y = Flatten <axis = 0> (s)",
        "y = Pad (s, t)",
        "p = Constant <value_ints = [-2, 1]> () y = Pad (s, p)",
        'p = Constant <value_ints = [1, 1]> () y = Pad <mode = "edge"> (s, p)',
        "g = Gather (s, first) y = Range (first, g, one)",
        "y = Range (three, first, first)",
        "m = Constant <value_int = 65> () y = Range (first, m, one)",
    ],
)
def test_what_is_not_known_is_none(body: str) -> None:
    assert integers(body) is None


@pytest.mark.parametrize(("domain", "expected"), [("com.microsoft", ("0:0", 2, "0:1", 3)), ("elsewhere", None)])
def test_an_operator_of_onnxruntime_makes_what_its_counterpart_does(domain: str, expected: object) -> None:
    loaded = ir.load(
        onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["": 15, "{domain}": 1]>
            g (float[S,N,2] x) => (float[A,B,C,D] y) <uint8[2,2,12] w = {{{", ".join(["1"] * 48)}}}> {{
                y0 = {domain}.DynamicQuantizeLSTM <direction = "bidirectional", hidden_size = 3> (x, w, w)
                y = Abs (y0)
            }}"""
        ).SerializeToString()
    )
    assert Proven(loaded).dims(loaded.graph.values["y"]) == expected


@pytest.mark.parametrize(("attributes", "items"), [("", ["0:0*12"]), ("<noop_with_empty_axes = 1>", None)])
def test_a_product_of_all_or_of_none(attributes: str, items: list[str] | None) -> None:
    model = ir.load(
        onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 18]> g (float[N,3,4] x) => (int64[M] y) {{
                s = Shape (x)  y = ReduceProd {attributes} (s)
            }}"""
        ).SerializeToString()
    )
    found = Proven(model).integers(model.graph.values["y"])
    assert (found.items if found is not None else None) == items


def test_what_is_learned_of_a_size_holds_for_its_products() -> None:
    model = ir.load(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 18]> g (float[N,3,4] x, int64[3] t) => (int64 y) {
                r = Reshape (x, t)  s = Shape (r)  y = ReduceProd (s)
            }"""
        ).SerializeToString()
    )
    known, values = Proven(model), model.graph.values
    before = known.integers(values["y"])
    known.learn(values["r"], ["0:0", 3, 4])
    after = known.integers(values["y"])
    assert before is not None
    assert before.items != ["0:0*12"]
    assert after is not None
    assert after.items == ["0:0*12"]
    known.learn(values["r"], ["0:0*2", 3, 4])  # of a graph that no run gets through
    assert known.dims(values["r"]) == ("0:0", 3, 4)
