"""What is zero in every run, at whatever size."""

from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.analysis.zeros import is_zero
from tests.simplifying.small import model

CASES = {
    "a fill": ("v = ConstantOfShape (s)", "", True),
    "a fill of a stated 0": ("v = ConstantOfShape <value = float[1] {0}> (s)", "", True),
    "a fill of -0": ("v = ConstantOfShape <value = float[1] {-0.0}> (s)", "", False),
    "a fill of 1": ("v = ConstantOfShape <value = float[1] {1}> (s)", "", False),
    "stored zeros": ("v = Identity (z)", "float[2] z = {0, 0}", True),
    "stored zeros, and one that is none": ("v = Identity (z)", "float[3] z = {0, 0, 0.1}", False),
    "stored -0": ("v = Identity (z)", "float[1] z = {-0.0}", False),
    "stored integers": ("v = Identity (z)", "int64[2] z = {0, 0}", False),
    "a Constant": ("v = Constant <value = float[2] {0, 0}> ()", "", True),
    "expanded": ("v = Expand (z, s)", "float[1] z = {0}", True),
    "tiled": ("v = Tile (z, s)", "float[1,1] z = {0}", True),
    "a part of zeros, moved": (
        "a = Tile (z, s) b = Transpose (a) c = Slice (b, o, t) v = Unsqueeze (c, o)",
        "float[1,1] z = {0}, int64[1] o = {0}, int64[1] t = {1}",
        True,
    ),
    "zeros beside zeros": ("a = ConstantOfShape (s) v = Concat <axis = 0> (a, a, z)", "float[1,2] z = {0, 0}", True),
    "zeros beside others": ("a = ConstantOfShape (s) v = Concat <axis = 0> (a, x)", "", False),
    "zeros padded by ones": (
        "a = ConstantOfShape (s) v = Pad (a, p, o)",
        "int64[4] p = {0, 0, 1, 1}, float o = {1}",
        False,
    ),
    "of another type": ("a = ConstantOfShape <value = int64[1] {0}> (s) v = Cast <to = 1> (a)", "", True),
    "multiplied by 0": ("v = Mul (x, z)", "float z = {0}", False),
    "an input": ("y0 = Identity (x) v = Relu (y0)", "", False),
    "a default": ("v = Identity (d)", "float d = {0}", False),
}


@pytest.mark.parametrize("case", CASES)
def test_zeros(case: str) -> None:
    body, constants, expected = CASES[case]
    head = "(float[N,2] x, float d)" if case == "a default" else "(float[N,2] x)"
    proto = model(f"{head} => (float[A,B] v)", f"s = Shape (x) {body}", constants)
    assert is_zero(ir.load(proto.SerializeToString()).graph.values["v"]) is expected


def test_a_long_way_to_zeros_is_not_followed() -> None:
    steps = "".join(f" v{step + 1} = Identity (v{step})" for step in range(40))
    proto = model("(float[N,2] x) => (float[A,B] v40)", f"s = Shape (x) v0 = ConstantOfShape (s){steps}")
    values = ir.load(proto.SerializeToString()).graph.values
    assert is_zero(values["v20"])
    assert not is_zero(values["v40"])


def test_a_function_of_the_name_of_an_operator_is_none() -> None:
    proto = model("(float[N,2] x) => (float[A,B] v)", "s = Shape (x) a = ConstantOfShape (s) v = Identity (a)")
    function = proto.functions.add(name="Identity", domain="", input=["i"], output=["o"])
    function.node.add(op_type="Exp", input=["i"], output=["o"])
    function.opset_import.add(version=15)
    assert not is_zero(ir.load(proto.SerializeToString()).graph.values["v"])
