"""On the way down, little is asked for nodes that stand as they are, and nothing is inferred for them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx
import pytest

from bnfold import analysis, ir
from bnfold.analysis.shapes import computed
from bnfold.analysis.shapes.stepwise import Types
from bnfold.converting import as_is, convert, downgrade, walk
from bnfold.converting.context import ConversionContext
from bnfold.converting.node_conversion import NodeConversion
from bnfold.errors import ConversionBlocked
from bnfold.ir.schemas import version_at
from bnfold.semantics import Policy

Text = Callable[..., str]
NEVER = 99
NODES = {
    "Relu": ("y = Relu (x)", 8),
    "Add": ("y = Add (x, x)", 8),
    "Concat": ("y = Concat <axis = 1> (x, x)", 11),
    "an axis from the end": ("y = Concat <axis = -1> (x, x)", 11),
    "Reshape": ("i = Constant <value = int64[2] {3, 2}> () y = Reshape (x, i)", 8),
    "an attribute that is gone below": (
        "i = Constant <value = int64[2] {3, 2}> () y = Reshape <allowzero = 1> (x, i)",
        14,
    ),
    "an input that is an attribute below": (
        "i = Constant <value = int64[1] {0}> () y = Unsqueeze (x, i)",
        13,
    ),
    "fewer inputs than below": ("y = Gemm <transB = 1> (x, x)", 11),
    "Softmax": ("y = Softmax (x)", 13),
    "a type that is too new": ("i = Cast <to = 16> (x) y = Relu (i)", 13),
    "a type that comparisons lack": ("i = Shape (x) y = Max (i, i)", 12),
    "a type of Max": ("y = Max (x, x)", 8),
    "an omitted input": ("y = Clip (x, , x)", NEVER),
    "Pow of two types": ("i = Cast <to = 7> (x) y = Pow (x, i)", 12),
    "a literal": ("y = Constant <value_float = 1.0> ()", 12),
    "a tensor": ("y = Constant <value = float[1] {1}> ()", 9),
}


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("target", [17, 13, 11, 10, 9, 8])
def test_what_stands_is_what_the_steps_down_leave_alone(text: Text, name: str, target: int) -> None:
    body, lowest = NODES[name]
    model = ir.load(onnx.parser.parse_model(text(18, "float[2, 3] x", body, outputs="y")))
    node = model.graph.nodes[-1]
    version = version_at(node.op_type, 18)
    assert version is not None
    types = Types(target, partial(analysis.infer_shapes, model))
    assert as_is.stands(node, version, target, types) == (target >= lowest)
    if target < lowest:
        return
    before = node.proto.SerializeToString()
    conversion = NodeConversion(node, ConversionContext(target, Policy(), types))
    downgrade.step_down(conversion, 18)
    assert node.proto.SerializeToString() == before
    assert not conversion.added
    assert not conversion.replaced


WITHDRAWN = {
    "Upsample": "s = Constant <value = float[2] {1, 2}> () y = Upsample (x, s)",
    "Scatter": "i = Constant <value = int64[1, 1] {1}> () u = Neg (x) y = Scatter (x, i, u)",
}


@pytest.mark.parametrize("op_type", WITHDRAWN)
def test_operators_that_the_target_withdrew_are_replaced_on_the_way_down(text: Text, op_type: str) -> None:
    """Some exporters write them at opsets that know them no more."""
    proto = onnx.parser.parse_model(text(18, "float[2, 3] x", WITHDRAWN[op_type], outputs="y"))
    for target, kept in ((13, False), (9, True)):
        model = ir.load(proto)
        convert(model, target)
        assert (op_type in {node.op_type for node in model.graph.nodes}) == kept


def test_a_withdrawn_operator_without_what_it_needs_is_refused(text: Text) -> None:
    proto = onnx.parser.parse_model(text(18, "float[2, 3] x, float[2] s", "y = Relu (x)", outputs="y"))
    proto.graph.node[0].CopyFrom(onnx.helper.make_node("Upsample", ["x", "", "s"], ["y"]))
    with pytest.raises(ConversionBlocked, match="Upsample"):
        convert(ir.load(proto), 13)


def test_nothing_is_inferred_unless_a_step_asks(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[ir.Model] = []
    infer = analysis.infer_shapes

    def counted(model: ir.Model, **options: Any) -> frozenset[ir.Value]:
        calls.append(model)
        return infer(model, **options)

    for module in (analysis, computed):
        monkeypatch.setattr(module, "infer_shapes", counted)
    head = "z = Constant <value = int64[1] {0}> () a = Shape (x) b = Unsqueeze (a, z)"
    known = f"{head} c = Conv (x, w) r = Relu (c)"
    inputs, outputs = "float[n, 3, 5, 5] x, float[4, 3, 2, 2] w, int64[k] e", "float[n, i, j, k] y"
    for body in (f"{known} y = Relu (r)", f"{known} y = Softmax <axis = 3> (r)"):  # the weight tells the rank
        convert(ir.load(onnx.parser.parse_model(text(18, inputs, body, outputs=outputs))), 11)
    assert not calls
    body = f"{known} s = Softmax <axis = 1> (r) y = Softmax <axis = 2> (s)"
    convert(ir.load(onnx.parser.parse_model(text(18, inputs, body, outputs=outputs))), 11)
    assert len(calls) == 1


def test_the_walk_uses_it(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downgrade, "step_down", lambda *_args, **_options: pytest.fail("stepped"))
    model = ir.load(onnx.parser.parse_model(text(18, "float[2, 3] x", "y = Relu (x)", outputs="float[2, 3] y")))
    assert convert(model, 11).operators == (walk.OperatorChange("Relu", 1, 0, 0, 0),)
