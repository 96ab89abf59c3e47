"""A lower opset is accepted where every node is also one of the older version."""

import re
from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import defs

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.converting import registry
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize(
    ("opset", "target", "body"),
    [
        (18, 15, "p = Relu (x) y = Add (p, x)"),
        (28, 13, "p = Flatten (x) y = Softmax <axis = 1> (p)"),
        (19, 11, "y = AveragePool <kernel_shape = [2], count_include_pad = 0> (x)"),
        (19, 13, "y = Cast <to = 1, saturate = 1> (x)"),
        (22, 15, "y = MaxPool <kernel_shape = [2]> (x)"),
    ],
)
def test_the_same_at_both(upgraded: Converted, text: Text, opset: int, target: int, body: str) -> None:
    outcome = upgraded(text(opset, "float[2, 3, 4] x", body), target)
    assert outcome.model.opset("") == target


@pytest.mark.parametrize(
    ("opset", "target", "inputs", "body", "reason"),
    [
        (18, 15, "float[2, 3] x, int64[2] p, int64[1] a", "y = Pad (x, p, , a)", r"its axes \('a'\) is not constant"),
        (
            20,
            16,
            "float[2, 8, 1] x, int64 n",
            "y = DFT (x, n)",
            "does not exist before opset 17",
        ),
        (26, 15, "int64[2] x", "y = BitCast <to = 11> (x)", "does not exist before opset 26"),
        (13, 12, "string[2] x, int64[2] p", "y = Pad (x, p)", r"does not take tensor\(string\)"),
        (13, 11, "bfloat16[2, 3] x", "y = Neg (x)", r"does not take tensor\(bfloat16\)"),
        (
            18,
            15,
            "float[3] x, int64[3] i",
            'y = ScatterElements <reduction = "max"> (x, i, x)',
            "has reduction=max at places",
        ),
        (
            28,
            16,
            "float[3] x, int64[3, 1] i",
            'y = ScatterND <reduction = "min"> (x, i, x)',
            "has reduction=min at places",
        ),
        (
            18,
            13,
            "float[3] x, int64[2] i",
            'y = Pad <mode = "wrap"> (x, i)',
            "mode=wrap does not exist",
        ),
        (
            *(18, 18, "float[3] x, float[1] s"),
            'y = Resize <coordinate_transformation_mode = "half_pixel_symmetric"> (x, , s)',
            "half_pixel_symmetric does not exist before opset 19",
        ),
        (19, 11, "float[1, 1, 9] x", "y = LpPool <kernel_shape = [2], dilations = [2]> (x)", "dilations is newer"),
    ],
)
def test_what_the_older_version_lacks_is_named(
    upgraded: Converted, text: Text, opset: int, target: int, inputs: str, body: str, reason: str
) -> None:
    kind = inputs.split("[", maxsplit=1)[0]
    with pytest.raises(ConversionBlocked, match=reason):
        upgraded(text(opset, inputs, body, outputs=f"{kind}[] y"), target)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("y = Concat <axis = -1> (x, x)", 2),
        ("p = Abs (x) y = Softmax <axis = -2> (p)", 1),
        ("y = Flatten <axis = -3> (x)", 0),
        ("y = Squeeze <axes = [-3, 1]> (x)", [0, 1]),
        ("y = Unsqueeze <axes = [-1, 0]> (x)", [4, 0]),
        ("y = ReduceMean <axes = [-1, -2]> (x)", [2, 1]),
        ("y = Gather <axis = -1> (x, i)", -1),
        ("y = LpNormalization <axis = -1> (x)", -1),
        ("y = Concat <axis = 2> (x, x)", 2),
    ],
)
def test_axes_are_counted_from_the_front_below_opset_11(
    upgraded: Converted, text: Text, body: str, wanted: Any
) -> None:
    node = upgraded(text(11, "float[1, 1, 4] x, int64[1] i", body), 9).model.graph.nodes[-1]
    assert node.attr("axes", node.attr("axis")) == wanted


def test_axes_of_an_unknown_rank_cannot_be_counted(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="axis=-1 counts from the end, which opset 9 does not know"):
        upgraded(text(11, "float x, int64[n] s", "p = Reshape (x, s) y = Softmax <axis = -1> (p)"), 9)
    with pytest.raises(ConversionBlocked, match=r"axes=\[-1\] counts from the end"):
        upgraded(text(11, "float x, int64[n] s", "p = Reshape (x, s) y = ReduceSum <axes = [-1]> (p)"), 10)


def test_a_type_that_the_older_version_does_not_make_is_named(upgraded: Converted, text: Text) -> None:
    source = text(19, "float[3] x", "y = Cast <to = 17> (x)", outputs="float8e4m3fn[] y")
    with pytest.raises(ConversionBlocked, match=r"does not make tensor\(float8e4m3fn\)"):
        upgraded(source, 13)


def test_every_later_value_is_listed() -> None:
    """A value that only the newer of two versions' texts speaks of, where the attribute is the same."""
    for op_type, (name, since) in registry.LATER_VALUES.items():
        for value, opset in since.items():
            older, newer = (defs.get_schema(op_type, at, "").attributes[name].description for at in (opset - 1, opset))
            assert value.decode() in newer
            assert not re.search(rf"\b{value.decode()}\b", older)


def test_values_of_a_newer_opset_reach_it(upgraded: Converted, text: Text) -> None:
    upgraded(text(18, "float[3] x, int64[3] i", 'y = ScatterElements <reduction = "max"> (x, i, x)'), 19)


def test_an_unknown_type_blocks(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match=r"the element type of 'p' is not known"):
        upgraded(text(14, "float[2, 3] x", "p = my.Op (x) q = Add (p, p) y = my.Op (q)"), 13)


def test_all_blocking_nodes_are_listed(upgraded: Converted, text: Text) -> None:
    body = "p = Pad (x, b, , a) q = Col2Im (p, a, a) y = Relu (q)"
    with pytest.raises(ConversionBlocked) as caught:
        upgraded(text(18, "float[2, 3] x, int64[2] b, int64[1] a", body), 15)
    assert len(caught.value.blockers) == 2
    assert isinstance(caught.value, RuntimeError)


def test_what_is_in_the_way_is_one_line_by_operator_with_what_to_type() -> None:
    nodes = "  ".join(f"y{number} = StringConcat (x, x)" for number in range(5))
    outputs = ", ".join(f"string[2] y{number}" for number in range(5))
    last = "m = Pad (z, p, , a)  k = Pad (m, p, , b)"
    inputs = "string[2] x, float[2, 3] z, int64[2] p, int64[1] a, int64[1] b"
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => ({outputs}, float[n, m] k) {{ {nodes}  {last} }}'
    with pytest.raises(ConversionBlocked) as caught:
        upgrade(ir.load(onnx.parser.parse_model(text)), 15)
    strings = "5 StringConcat ('y0', 'y1', 'y2' and 2 more): does not exist before opset 20"
    pad = "2 Pad ('m', 'k'): its axes ('a') is not constant (and 1 other reason)"
    assert str(caught.value) == f"cannot convert opset 20 to 15: {strings}; {pad}"
    assert len(caught.value.blockers) == 7


def test_what_follows_from_a_refused_node_is_not_named(text: Text) -> None:
    """What a custom operator makes has no type, so the first Add is in the way and the others only follow."""
    body = "p = my.Op (x) q = Add (p, p) r = Mul (q, q) s = Sub (r, q) y = my.Op (s)"
    with pytest.raises(ConversionBlocked) as caught:
        upgrade(ir.load(onnx.parser.parse_model(text(14, "float[2, 3] x", body))), 13)
    assert [line.split(" ")[0] for line in caught.value.blockers] == ["Add-14"]


def test_nodes_behind_a_refused_one_have_their_types(text: Text) -> None:
    body = "p = DeformConv (x, g, g) y = Add (p, x)"
    inputs = "float[2, 3, 4, 5] x, float[3, 3, 1, 1] g"
    with pytest.raises(ConversionBlocked) as caught:
        upgrade(ir.load(onnx.parser.parse_model(text(20, inputs, body))), 13)
    assert [line.split(" ")[0] for line in caught.value.blockers] == ["DeformConv-19"]


LOWERED_CALL = """<ir_version: 9, opset_import: ["" : 18, "my" : 1]>
g (float[2, 3, 4] x, float[4] s) => (float[2, 3, 4] y, float[2, 3, 4] z) {
  y = my.norm <last = 2> (x, s)
  z = my.plain (y)
}
<domain: "my", opset_import: ["" : 18]>
norm <last> (x, s) => (y) { n = LayerNormalization (x, s)  y = Softmax <axis: int = @last> (n) }
<domain: "my", opset_import: ["" : 18]>
plain (x) => (y) { y = Relu (x) }
"""


@pytest.mark.parametrize(("target", "left", "ir_version"), [(17, ["plain"], 8), (15, ["plain"], 8), (13, [], 7)])
def test_functions_are_inlined_where_the_target_needs_it(
    lowered: Converted, target: int, left: list[str], ir_version: int
) -> None:
    """Below IR version 8 there are none; above, those stay whose nodes are the same at the target."""
    source = LOWERED_CALL if target < 17 else LOWERED_CALL.replace("LayerNormalization (x, s)", "ReduceMean (x)")
    if target == 17:
        source = source.replace("n = ReduceMean (x)", "m = ReduceMean (x) n = Add (x, m)")
    model = lowered(source, target).model.proto
    assert [function.name for function in model.functions] == left
    assert model.ir_version == ir_version
