"""Sizes that choose another way through a part, and rows that only computed indices choose."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.converting import convert
from bnfold.verification import verify
from bnfold.verification.subgraphs.further import deciding_shapes
from tests.verification.graphs import Depth, model, numbers, single

UNRANKED = "(float x) => (float y)"


def status(before: onnx.ModelProto, after: onnx.ModelProto, depth: Depth = "local") -> str:
    return verify(ir.load(before), ir.load(after), depth=depth, runtime="none").status


def unranked(nodes: str, opset: int) -> onnx.ModelProto:
    """A model whose input may have any rank."""
    proto = model(f"{UNRANKED} {{ {nodes} }}", {}, opset=opset)
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize("target", [13, 15, 18])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_operator_that_flattens_is_verified_at_any_rank(op_type: str, axis: int, target: int) -> None:
    before = unranked(f"y = {op_type} <axis = {axis}> (x)", 11)
    assert status(before, at_opset(before, target), "auto") == "verified"


def at_opset(before: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """The model in another opset, as bnfold converts it."""
    after = ir.load(before)
    convert(after, target)
    after.sync()
    return after.proto


def converted() -> onnx.ModelProto:
    """A Softmax-11 of unknown rank in opset 13: an If chooses another way for empty tensors."""
    return at_opset(unranked("y = Softmax <axis = 1> (x)", 11), 13)


@pytest.mark.parametrize("fault", ["threshold", "axis", "branches", "empty"])
def test_faults_in_the_choice_by_size_are_seen(fault: str) -> None:
    after = converted()
    nodes = {node.op_type: node for node in after.graph.node}
    branches = {attribute.name: attribute for attribute in nodes["If"].attribute}
    if fault == "threshold":
        zero = next(tensor for tensor in after.graph.initializer if "zero" in tensor.name)
        zero.CopyFrom(onnx.numpy_helper.from_array(np.array(1), zero.name))
    elif fault == "axis":
        nodes["Flatten"].attribute[0].i = 2
    elif fault == "branches":
        branches["then_branch"].name, branches["else_branch"].name = "else_branch", "then_branch"
    else:
        empty = branches["then_branch"].g.node
        empty[0].input[0] = "flat_shape"
        empty.insert(0, onnx.helper.make_node("Shape", nodes["Flatten"].output, ["flat_shape"]))
    expected = "unverified" if fault == "empty" else "failed"  # no numbers differ, but an assumed shape
    assert status(unranked("y = Softmax <axis = 1> (x)", 11), after) == expected


def test_sizes_are_tried_where_a_comparison_of_sizes_decides() -> None:
    text = (
        "(float[N,4] x) => (float[N,4] y) { s = Size (x)  b = Equal (s, zero)  c = Cast <to = 1> (b)  y = Mul (x, c) }"
    )
    graph = ir.load(model(text, {"zero": np.array(0)})).graph
    fed = {"x": graph.values["x"]}
    assert [*deciding_shapes(fed, {"x": (3, 4)}, graph.nodes)] == [{"x": (1, 4)}, {"x": (0, 4)}]
    assert not [*deciding_shapes(fed, {"x": (3, 4)}, graph.nodes[-1:])]


INDICES = {
    "ArgMax": "(float[N,8] x) => (float[N,4] y) { l = MatMul (x, W)  i = ArgMax <axis = 1, keepdims = 0> (l)",
    "offset": "(int64[N] x) => (float[N,4] y) { i = Add (x, two)",
    "bucket": "(float[N] x) => (float[N,4] y) { f = Mul (x, ten)  c = Cast <to = 7> (f)  d = Min (c, top)"
    "  i = Max (d, zero)",
    "TopK": "(float[N,8] x) => (float[N,3,4] y) { l = MatMul (x, W)  v, i = TopK (l, three)",
    "running": "(int64[N,L] x) => (float[N,L,4] y) { b = Cast <to = 9> (x)  c = Cast <to = 7> (b)  i = CumSum (c, one)",
}
ROWS = 200
WEIGHTS = {
    "W": single(numbers(2).normal(size=(8, ROWS))),
    "ten": np.array(10.0),
    **{name: np.array(number) for name, number in (("two", 2), ("zero", 0), ("one", 1), ("top", ROWS - 1))},
    "three": np.array([3]),
}


@pytest.mark.parametrize("depth", ["auto", "local"])
@pytest.mark.parametrize("kind", INDICES)
def test_every_row_of_a_table_counts_whatever_computes_the_indices(kind: str, depth: Depth) -> None:
    rows, factor = single(numbers(3).normal(size=(ROWS, 4))), single(numbers(4).uniform(0.5, 1.5, 4))
    before = model(f"{INDICES[kind]}  h = Gather (T, i)  y = Mul (h, s) }}", {**WEIGHTS, "T": rows, "s": factor})
    text = f"{INDICES[kind]}  y = Gather (T, i) }}"
    scaled = rows.astype(np.float64) * factor
    assert status(before, model(text, {**WEIGHTS, "T": scaled}), depth) == "verified"
    scaled[ROWS - 3] = rows[ROWS - 3]
    assert status(before, model(text, {**WEIGHTS, "T": scaled}), depth) != "verified"
    assert status(before, model(text, {**WEIGHTS, "T": scaled})) == "failed"


@pytest.mark.parametrize(("name", "number"), [("top", ROWS - 20), ("two", 3), ("ten", 10.5)])
def test_indices_that_differ_are_no_boundary(name: str, number: float) -> None:
    kind = {"top": "bucket", "two": "offset", "ten": "bucket"}[name]
    rows, factor = single(numbers(3).normal(size=(ROWS, 4))), single(numbers(4).uniform(0.5, 1.5, 4))
    before = model(f"{INDICES[kind]}  h = Gather (T, i)  y = Mul (h, s) }}", {**WEIGHTS, "T": rows, "s": factor})
    weights = {**WEIGHTS, "T": rows.astype(np.float64) * factor, name: np.array(number)}
    assert status(before, model(f"{INDICES[kind]}  y = Gather (T, i) }}", weights)) != "verified"


@pytest.mark.parametrize(("other", "status"), [("Less", "unverified"), ("Greater", "verified")])
def test_a_size_that_is_broadcast_elsewhere_is_tried_as_1(other: str, status: str) -> None:
    """The branch says that it is 4, or 1; at 4, neither comparison is true."""
    text = """(float[5,2,N,7] x, bool f) => (float[a,b,c,d] y) {{ s = Size (x)  g = {} (s, most)  c = Xor (f, g)
        y = If (c) <then_branch = t () => (float[P,Q,R,S] u) {{ u = Mul (x, w) }},
                    else_branch = e () => (float[P,Q,R,S] v) {{ v = Neg (x) }}> }}"""
    weights = {"most": np.array(280), "w": np.arange(1.0, 21.0).reshape(5, 1, 4, 1)}
    before, after = (ir.load(model(text.format(it), weights, opset=13)) for it in ("Greater", other))
    assert verify(before, after, runtime="none", depth="local").status == status


@pytest.mark.parametrize("depth", ["auto", "local"])
def test_other_sizes_of_one_product_are_tried(depth: Depth) -> None:
    """A constant fixes the product; the first sizes found are 1 and 6."""
    text = "(float[N,7,M,5] x) => (float[a,b] y) {{ f = Flatten <axis = {}> (x)  y = Sub (f, w) }}"
    before, after = (model(text.format(axis), {"w": np.arange(210.0).reshape(1, 210)}, opset=13) for axis in (0, 1))
    assert status(before, before, depth) == "verified"
    assert status(before, after, depth) != "verified"


@pytest.mark.parametrize(("other", "expected"), [("Or", False), ("Xor", True)])
def test_flags_whose_branch_fits_at_other_sizes_are_open(other: str, expected: bool) -> None:
    text = """(float[N,3,M] x, bool f, bool g) => (float[a,b,c] y) {{ {1} = {0} (f, g)
        y = If ({1}) <then_branch = t () => (float[P,Q,R] u) {{ u = Neg (x) }},
                    else_branch = e () => (float[P,Q,R] v) {{ v = Mul (x, w) }}> }}"""
    weights = {"w": np.arange(72.0).reshape(4, 3, 6)}
    before, after = (model(text.format(*it), weights, opset=13) for it in (("Xor", "c"), (other, "d")))
    assert (status(before, after) == "verified") == expected


@pytest.mark.parametrize("depth", ["auto", "local"])
def test_what_is_broadcast_inside_is_tried_at_full_size(depth: Depth) -> None:
    """The mean takes away all that a single position adds to a row."""
    text = """(float[N,4,L] x, float[7,2,M] z) => (float[a,b,c] y) {{ v = Conv <group = 2> (x, {})  s = Sub (z, v)
        t = Add (s, w)  y = InstanceNormalization (t, one, one) }}"""
    kernel = np.arange(8.0).reshape(2, 2, 2)
    other = kernel + np.array([0.0] * 7 + [1.0]).reshape(2, 2, 2)
    weights = {"k": kernel, "q": other, "w": np.arange(28.0).reshape(7, 1, 4) % 5, "one": np.ones(2)}
    before, after = (model(text.format(name), weights, opset=13) for name in "kq")
    assert status(before, before, depth) == "verified"
    assert status(before, after, depth) != "verified"
