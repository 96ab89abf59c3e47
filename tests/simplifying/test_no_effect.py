"""Nodes without effect go, and those that look so stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import bnfold
from tests.simplifying.small import assert_equal, model, operators, run, simplified

WITHOUT_EFFECT = {
    "Identity": ("y0 = Identity (x) y = Relu (y0)", "", ["Relu"]),
    "Identity at an output": ("y0 = Relu (x) y = Identity (y0)", "", ["Relu"]),
    "Identity of an input that is an output": ("y = Identity (x)", "", ["Identity"]),
    "Dropout": ("y0 = Dropout (x) y = Relu (y0)", "", ["Relu"]),
    "Dropout that is told so": ("y0 = Dropout (x, r, t) y = Relu (y0)", "float r = {0.5}, bool t = {0}", ["Relu"]),
    "Cast": ("y0 = Cast <to = 1> (x) y = Relu (y0)", "", ["Relu"]),
    "Cast there and back": (
        "y0 = Cast <to = 10> (x) y1 = Cast <to = 1> (y0) y = Relu (y1)",
        "",
        ["Cast", "Cast", "Relu"],
    ),
    "Slice of all": (
        "y0 = Slice (x, a, e) y = Relu (y0)",
        "int64[1] a = {0}, int64[1] e = {9223372036854775807}",
        ["Relu"],
    ),
    "Slice of what is there": (
        "y0 = Slice (x, a, e, c) y = Relu (y0)",
        "int64[1] a = {0}, int64[1] e = {4}, int64[1] c = {1}",
        ["Relu"],
    ),
    "Slice of a part": (
        "y0 = Slice (x, a, e, c) y = Relu (y0)",
        "int64[1] a = {0}, int64[1] e = {3}, int64[1] c = {1}",
        ["Slice", "Relu"],
    ),
    "Slice of an open size": (
        "y0 = Slice (x, a, e, c) y = Relu (y0)",
        "int64[1] a = {0}, int64[1] e = {4}, int64[1] c = {0}",
        ["Slice", "Relu"],
    ),
    "Slice backward": (
        "y0 = Slice (x, a, e, c, s) y = Relu (y0)",
        "int64[1] a = {-1}, int64[1] e = {-9}, int64[1] c = {1}, int64[1] s = {-1}",
        ["Slice", "Relu"],
    ),
    "And of true": (
        "b = Greater (x, o) c = And (t, b) y = Cast <to = 1> (c)",
        "float o = {0}, bool t = {1}",
        ["Greater", "Cast"],
    ),
    "And of false": (
        "b = Greater (x, o) c = And (b, f) y = Cast <to = 1> (c)",
        "float o = {0}, bool[4] f = {0, 0, 0, 0}",
        ["Greater", "And", "Cast"],
    ),
    "Or of false": (
        "b = Greater (x, o) c = Or (b, f) y = Cast <to = 1> (c)",
        "float o = {0}, bool[4] f = {0, 0, 0, 0}",
        ["Greater", "Cast"],
    ),
    "Or of true": (
        "b = Greater (x, o) c = Or (t, b) y = Cast <to = 1> (c)",
        "float o = {0}, bool t = {1}",
        ["Greater", "Or", "Cast"],
    ),
    "Pad": ("y0 = Pad (x, p) y = Relu (y0)", "int64[4] p = {0, 0, 0, 0}", ["Relu"]),
    "Pad of something": ("y0 = Pad (x, p) y = Relu (y0)", "int64[4] p = {0, 0, 0, 1}", ["Pad", "Relu"]),
    "Expand": ("y0 = Expand (x, s) y = Relu (y0)", "int64[2] s = {1, 4}", ["Relu"]),
    "Expand of an open size": ("y0 = Expand (x, s) y = Relu (y0)", "int64[2] s = {3, 4}", ["Expand", "Relu"]),
    "Expand to another rank": ("y0 = Expand (x, s) y = Relu (y0)", "int64[3] s = {1, 1, 4}", ["Expand", "Relu"]),
    "Where that chooses everywhere": ("y = Where (c, x, o)", "bool[1] c = {1}, float o = {2}", ["Where"]),
    "Where inside": ("y0 = Where (c, o, x) y = Relu (y0)", "bool[1] c = {0}, float o = {2}", ["Relu"]),
    "Where that chooses the first": (
        "y0 = Where (c, x, o) y = Relu (y0)",
        "bool c = {1}, float[4] o = {1,2,3,4}",
        ["Relu"],
    ),
    "Where that chooses some": (
        "y0 = Where (c, x, o) y = Relu (y0)",
        "bool[4] c = {1, 1, 0, 1}, float o = {2}",
        ["Where", "Relu"],
    ),
    "Where that stretches what it chooses to another rank": (
        "y0 = Where (c, o, x) y = Relu (y0)",
        "bool[2,1,1] c = {0, 0}, float o = {2}",
        ["Where", "Relu"],
    ),
    "Mul by 1": ("y0 = Mul (o, x) y = Relu (y0)", "float o = {1}", ["Relu"]),
    "Mul by ones": ("y0 = Mul (x, o) y = Relu (y0)", "float[4] o = {1, 1, 1, 1}", ["Relu"]),
    "Mul by nearly ones": ("y0 = Mul (x, o) y = Relu (y0)", "float[4] o = {1, 1, 1, 2}", ["Mul", "Relu"]),
    "Mul by ones that stretch it to another rank": (
        "y0 = Mul (x, o) y = Relu (y0)",
        "float[1,1,1] o = {1}",
        ["Mul", "Relu"],
    ),
    "Div by 1": ("y0 = Div (x, o) y = Relu (y0)", "float o = {1}", ["Relu"]),
    "Div of 1": ("y0 = Div (o, x) y = Relu (y0)", "float o = {1}", ["Div", "Relu"]),
    "Sub of 0": ("y0 = Sub (x, o) y = Relu (y0)", "float o = {0}", ["Relu"]),
    "Add of 0": ("y0 = Add (x, o) y = Relu (y0)", "float o = {0}", ["Add", "Relu"]),
    "Concat of one": ("y0 = Concat <axis = 0> (x) y = Relu (y0)", "", ["Relu"]),
    "Concat with nothing": ("y0 = Concat <axis = 0> (e, x, e) y = Relu (y0)", "float[0,4] e = {}", ["Relu"]),
    "Split into one": ("y0 = Split (x) y = Relu (y0)", "", ["Relu"]),
    "Tile": ("y0 = Tile (x, n) y = Relu (y0)", "int64[2] n = {1, 1}", ["Relu"]),
}


@pytest.mark.parametrize("case", WITHOUT_EFFECT)
def test_what_has_no_effect_goes(case: str) -> None:
    body, constants, left = WITHOUT_EFFECT[case]
    before = model(
        "(float[N,4] x) => (float[M,K] y)" if "rank" not in case else "(float[N,4] x) => (float[L,M,K] y)",
        body,
        constants,
    )
    after, report = simplified(before)
    assert operators(after) == left
    assert len(report.simplified) == (len(before.graph.node) - len(left))
    assert_equal(
        before, after, *[(size, 4) for size in ((3,) if "open size" in case and "Expand" in case else (0, 1, 3))]
    )


WHOLE = {
    "Add of 0": ("y0 = Add (x, o)", "o = {0}", []),
    "Add to 0": ("y0 = Add (o, x)", "o = {0}", []),
    "Add of zeros": ("y0 = Add (x, o)", "[1, 4] o = {0, 0, 0, 0}", []),
    "Add of nearly zeros": ("y0 = Add (x, o)", "[4] o = {0, 0, 1, 0}", ["Add"]),
    "Sub of 0": ("y0 = Sub (x, o)", "[1] o = {0}", []),
    "Sub from 0": ("y0 = Sub (o, x)", "o = {0}", ["Sub"]),
    "Mul by 1": ("y0 = Mul (x, o)", "o = {1}", []),
    "Mul of 1": ("y0 = Mul (o, x)", "[1] o = {1}", []),
    "Mul by 0": ("y0 = Mul (x, o)", "o = {0}", ["Mul"]),
    "Div by 1": ("y0 = Div (x, o)", "[1, 1] o = {1}", []),
    "Div of 1": ("y0 = Div (o, x)", "o = {1}", ["Div"]),
    "Add of 0 that is broadcast": ("y0 = Add (x, o)", "[3, 1] o = {0, 0, 0}", ["Add"]),
    "Mul by 1 that adds an axis": ("y0 = Mul (x, o)", "[1, 1, 1] o = {1}", ["Mul"]),
}
"""Integers: what stands before Neg, the constant, and what is left before it."""


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("case", WHOLE)
def test_integers_without_effect_go(case: str, dtype: str) -> None:
    body, constant, left = WHOLE[case]
    end = "L,M,K" if "axis" in case else "M,K"
    gap = "" if constant.startswith("[") else " "
    before = model(f"({dtype}[N,4] x) => ({dtype}[{end}] y)", f"{body} y = Mul (y0, y0)", f"{dtype}{gap}{constant}")
    after, report = simplified(before)
    assert operators(after) == [*left, "Mul"]
    assert len(report.simplified) == 1 - len(left)
    x = np.arange(12, dtype=dtype).reshape(3, 4) + np.array(1, dtype)
    np.testing.assert_array_equal(run(before, x=x), run(after, x=x))


@pytest.mark.parametrize(("dims", "left"), [("", []), ("[1]", []), ("[1,1]", ["Add"]), ("[4]", ["Add"])])
def test_a_neutral_integer_keeps_sizes_that_are_known_in_part(dims: str, left: list[str]) -> None:
    """NonZero counts what no shape says; of the axis of its result that is squeezed, only the rank is known."""
    filling = "{0, 0, 0, 0}" if dims == "[4]" else "{0}"
    before = model(
        "(float[N] x) => (int64 y)",
        "i = NonZero (x) f = Squeeze (i, a) s = Add (f, o) y = ReduceSum <keepdims = 0> (s)",
        f"int64{dims}{'' if dims else ' '} o = {filling}, int64[1] a = {{0}}",
    )
    assert operators(simplified(before)[0]) == ["NonZero", "Squeeze", *left, "ReduceSum"]


def test_a_neutral_integer_that_callers_may_override_stays() -> None:
    before = model("(int64[N] x, int64 o) => (int64[N] y)", "s = Add (x, o) y = Neg (s)", "int64 o = {0}")
    assert operators(simplified(before)[0]) == ["Add", "Neg"]


@pytest.mark.parametrize("operator", ["Mul", "Div"])
def test_one_constant_of_a_product_and_a_quotient_is_verified(operator: str) -> None:
    before = model(
        "(float[N,4] x) => (float[N,4] y)", f"a = Div (x, o) b = {operator} (a, o) y = Neg (b)", "float o = {1}"
    )
    outcome = bnfold.optimize(before)
    assert outcome.status == "verified"
    assert operators(outcome.to_proto()) == ["Neg"]


@pytest.mark.parametrize(
    ("parts", "dims", "left"),
    [("x, e, x", "0,4", 2), ("x, e, x", "0,0", 3), ("x, f", "0,4", 2), ("x, e, f", "0,4", 2)],
)
def test_constants_without_elements_leave_a_concat(parts: str, dims: str, left: int) -> None:
    before = model(
        "(float[N,4] x, float[M,4] f) => (float[A,4] y)",
        f"y0 = Concat <axis = -2> ({parts}) y = Relu (y0)",
        f"float[{dims}] e = {{}}",
    )
    after, _ = simplified(before)
    assert [len(node.input) for node in after.graph.node] == [left, 1]


def test_a_dropout_in_training_mode_stays() -> None:
    for told in ("bool t = {1}", "float u = {1}"):
        head = "(float[N,4] x, bool t) => (float[N,4] y)" if "bool" not in told else "(float[N,4] x) => (float[N,4] y)"
        after, report = simplified(model(head, "y = Dropout (x, r, t)", f"float r = {{0.5}}, {told}"))
        assert operators(after) == ["Dropout"]
        assert not [event for event in report.simplified if event.operator == "Dropout"]


def test_a_mask_that_is_read_keeps_its_dropout() -> None:
    after, _ = simplified(model("(float[N] x) => (float[N] y, bool[N] m)", "d, m = Dropout (x) y = Relu (d)"))
    assert operators(after) == ["Dropout", "Relu"]


def test_annotations_are_not_believed() -> None:
    """The batch was opened, and the annotation that says 3 was left in the file."""
    before = model(
        "(float[N,4] x) => (float[M,4] y)", "a = Relu (x) b = Expand (a, s) y = Relu (b)", "int64[2] s = {3, 4}"
    )
    before.graph.value_info.append(onnx.helper.make_tensor_value_info("a", 1, (3, 4)))
    after, _ = simplified(before)
    assert operators(after) == ["Relu", "Expand", "Relu"]
    assert_equal(before, after, (1, 4), (3, 4))


def test_an_input_that_is_an_output_twice_over_stays() -> None:
    before = model("(float[N] x) => (float[N] y, float[N] z)", "y = Relu (x) z = Identity (y)")
    after, _ = simplified(before)
    assert operators(after) == ["Relu", "Identity"]
    assert_equal(before, after, (3,))


@pytest.mark.parametrize("end", [-1, 3])
def test_a_slice_of_a_dynamic_size_stays_at_opset_10(end: int) -> None:
    """Onnx's inference of Slice-10 gives the result the letter of the axis that is sliced."""
    text = '<ir_version: 5, opset_import: ["" : 10]> g (float[2, k] x) => (float[2, m] y)'
    weights = f"<int64[1] s = {{0}}, int64[1] e = {{{end}}}, int64[1] a = {{1}}>"
    model = onnx.parser.parse_model(f"{text} {weights} {{ p = Abs (x) y = Slice (p, s, e, a) }}")
    outcome = bnfold.optimize(model, target_opset=10)
    assert outcome.status == "verified"
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["Abs", "Slice"]


@pytest.mark.parametrize("is_test", [0, 1])
def test_dropout_before_opset_7(is_test: int) -> None:
    body = f"d = Dropout <is_test = {is_test}> (x) y = Neg (d)"
    after, _ = simplified(model("(float[N] x) => (float[N] y)", body, opset=6))
    assert operators(after) == (["Neg"] if is_test else ["Dropout", "Neg"])
