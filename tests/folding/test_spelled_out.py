"""A BatchNormalization that is written as arithmetic: which rows are one, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import bnfold
from tests.folding.nets import Net

QUICK = bnfold.VerifyOptions(depth="full", runtime="none")


def _frozen(net: Net, x: str, *, reciprocal: bool = False) -> str:
    """As detectron2 and detr export it: ``x·scale + (bias - mean·scale)``, ``scale = weight·rsqrt(var + eps)``."""
    weight, bias, mean = net.const(1, 4, 1, 1), net.const(1, 4, 1, 1), net.const(1, 4, 1, 1)
    var = net.const(value=net.rng.uniform(0.5, 2.0, (1, 4, 1, 1)))
    root = net.node("Sqrt", net.node("Add", var, net.const(value=np.array(1e-5))))
    inverse = net.node("Reciprocal", root) if reciprocal else net.node("Div", net.const(value=np.array(1.0)), root)
    scale = net.node("Mul", weight, inverse)
    shift = net.node("Sub", bias, net.node("Mul", mean, scale))
    return net.node("Add", net.node("Mul", x, scale), shift)


def _steps(net: Net, x: str) -> str:
    root = net.node("Sqrt", net.node("Add", net.const(value=np.full((4, 1, 1), 2.0)), net.const(value=np.array(1e-5))))
    centred = net.node("Div", net.node("Sub", x, net.const(4, 1, 1)), root)
    return net.node("Add", net.node("Mul", centred, net.const(4, 1, 1)), net.const(4, 1, 1))


FORMS: dict[str, Callable[[Net, str], str]] = {
    "scale and shift": lambda net, x: net.node("Add", net.node("Mul", x, net.const(1, 4, 1, 1)), net.const(1, 4, 1, 1)),
    "constants first": lambda net, x: net.node("Add", net.const(4, 1, 1), net.node("Mul", net.const(4, 1, 1), x)),
    "frozen": _frozen,
    "reciprocal": lambda net, x: _frozen(net, x, reciprocal=True),
    "step by step": _steps,
    "a number between": lambda net, x: net.node(
        "Sub", net.node("Mul", net.node("Div", x, net.const(4, 1, 1)), net.const(1)), net.const(4, 1, 1)
    ),
    "negated": lambda net, x: net.node("Sub", net.const(4, 1, 1), net.node("Mul", x, net.const(4, 1, 1))),
}


def _conv(net: Net) -> str:
    return net.node("Conv", net.input(2, 3, 6, 5), net.const(4, 3, 2, 2))


def _rows(model: onnx.ModelProto, **options: Any) -> tuple[list[tuple[str, str]], list[str]]:
    outcome = bnfold.fold(model, verify=QUICK, **options)
    assert outcome.verdict is not None
    assert outcome.verdict.status != "failed"
    return [(event.mode, event.verdict) for event in outcome.report.batchnorms], [
        node.op_type for node in outcome.to_proto().graph.node if node.op_type != "Constant"
    ]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_a_row_of_the_report_and_folds(form: str) -> None:
    net = Net()
    assert _rows(net.model(FORMS[form](net, _conv(net)))) == ([("spelled-out", "folded")], ["Conv"])


def test_an_image_that_is_normalised_folds_downward() -> None:
    net = Net()
    x = net.node("Div", net.node("Sub", net.input(2, 3, 6, 5), net.const(1, 3, 1, 1)), net.const(1, 3, 1, 1))
    assert _rows(net.model(net.node("Conv", x, net.const(4, 3, 2, 2)))) == ([("spelled-out", "folded")], ["Conv"])


def test_an_image_before_a_border_of_zeros_keeps_an_add() -> None:
    net = Net()
    x = net.node("Div", net.node("Sub", net.input(2, 3, 6, 5), net.const(1, 3, 1, 1)), net.const(1, 3, 1, 1))
    y = net.node("Conv", x, net.const(4, 3, 3, 3), pads=[1, 1, 1, 1])
    assert _rows(net.model(y)) == ([("spelled-out", "exchanged")], ["Add", "Conv"])


def _left(net: Net, x: str) -> str:
    """Between two operators that take and pass nothing."""
    return net.node("Sin", FORMS["scale and shift"](net, net.node("Sin", x)))


def test_what_does_not_fold_stays_as_it_was() -> None:
    net = Net()
    model = net.model(_left(net, net.input(2, 4, 6, 5)))
    outcome = bnfold.fold(model, verify=QUICK)
    assert [event.reason and event.reason.code for event in outcome.report.batchnorms] == ["no-handler"]
    assert outcome.to_proto().SerializeToString() == model.SerializeToString()


def _lone(net: Net) -> str:
    return net.node("Mul", _conv(net), net.const(4, 1, 1))


def _numbers(net: Net) -> str:
    return net.node("Add", net.node("Mul", _conv(net), net.const()), net.const(1, 1, 1))


def _one_number(net: Net) -> str:
    return net.node("Add", net.node("Mul", _conv(net), net.const(1)), net.const(4, 1, 1))


def _width(net: Net) -> str:
    return net.node("Add", net.node("Mul", _conv(net), net.const(4)), net.const(4))


def _both_axes(net: Net) -> str:
    return net.node("Add", net.node("Mul", _conv(net), net.const(4, 1, 1)), net.const(4, 5, 4))


def _last_axis(net: Net) -> str:
    y = net.node("MatMul", net.input(2, 7, 3), net.const(3, 7))
    return net.node("Add", net.node("Mul", y, net.const(7)), net.const(7))


def _other_normaliser(net: Net) -> str:
    x = net.node("Reshape", _conv(net), net.ints(2, 2, -1))
    y = net.node("InstanceNormalization", x, net.const(2), net.const(2))
    y = net.node("Reshape", y, net.ints(2, 4, 5, 4))
    y = net.node("Add", net.node("Mul", y, net.const(4, 1, 1)), net.const(4, 1, 1))
    return net.node("Conv", y, net.const(2, 4, 1, 1))


def _spelled_normaliser(net: Net) -> str:
    x = net.node("Flatten", _conv(net))
    mean = net.node("ReduceMean", x, axes=[1])
    y = net.node("Div", net.node("Sub", x, mean), net.node("Exp", mean))
    y = net.node("Add", net.node("Mul", y, net.const(80)), net.const(80))
    return net.node("MatMul", y, net.const(80, 3))


def _two_readers(net: Net) -> str:
    scaled = net.node("Mul", _conv(net), net.const(4, 1, 1))
    return net.node("Mul", net.node("Add", scaled, net.const(4, 1, 1)), net.node("Sin", scaled))


@pytest.mark.parametrize(
    "make",
    [
        *(_lone, _numbers, _one_number, _width, _both_axes, _last_axis, _other_normaliser, _spelled_normaliser),
        _two_readers,
    ],
)
def test_other_arithmetic_is_none(make: Callable[[Net], str]) -> None:
    net = Net()
    model = net.model(make(net))
    rows, operators = _rows(model)
    assert rows == []
    assert operators == [node.op_type for node in model.graph.node]


def test_one_beside_a_batchnorm_goes_by_that() -> None:
    net = Net()
    y = FORMS["scale and shift"](net, net.batchnorm(_conv(net), 4))
    assert _rows(net.model(y)) == ([("inference", "folded")], ["Conv"])


def test_overridable_constants() -> None:
    net = Net()
    model = net.model(FORMS["scale and shift"](net, _conv(net)))
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    assert _rows(model, overridable="keep") == ([], ["Conv", "Mul", "Add"])
    assert _rows(model) == ([("spelled-out", "folded")], ["Conv"])
    del model.graph.input[-1]
    assert _rows(model) == ([], ["Conv", "Mul", "Add"])


def test_a_constant_that_is_an_output_stays_one() -> None:
    net = Net()
    model = net.model(FORMS["scale and shift"](net, _conv(net)))
    tensor = model.graph.initializer[1]
    model.graph.output.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    outcome = bnfold.fold(model, verify=QUICK)
    assert [event.verdict for event in outcome.report.batchnorms] == ["folded"]
    assert tensor.name in {held.name for held in outcome.to_proto().graph.initializer}


def test_integers_are_none() -> None:
    net = Net(dtype=np.int64)
    constants = [net.const(value=np.arange(4).reshape(4, 1, 1)) for _ in range(2)]
    x = net.name("x")
    net.inputs.append(helper.make_tensor_value_info(x, onnx.TensorProto.INT64, (2, 4, 3, 2)))
    model = net.model(net.node("Add", net.node("Mul", x, constants[0]), constants[1]))
    assert _rows(model) == ([], ["Mul", "Add"])


def test_an_unknown_number_of_channels_is_none() -> None:
    """Where it may be one, the constant stretches the value."""
    net = Net()
    x = net.input(2, 4, 6, 5, declared=["N", "C", "H", "W"])
    model = net.model(net.node("Conv", FORMS["scale and shift"](net, x), net.const(3, 4, 1, 1)))
    assert _rows(model) == ([], ["Mul", "Add", "Conv"])


def test_in_a_branch() -> None:
    net = Net()
    x = _conv(net)
    condition = net.const(value=np.array(True))
    nodes = net.nodes
    net.nodes = []
    inner = FORMS["scale and shift"](net, net.node("Conv", x, net.const(4, 4, 1, 1)))
    yes = helper.make_graph(net.nodes, "yes", [], [helper.make_tensor_value_info(inner, onnx.TensorProto.DOUBLE, None)])
    net.nodes = []
    other = net.node("Identity", x)
    no = helper.make_graph(net.nodes, "no", [], [helper.make_tensor_value_info(other, onnx.TensorProto.DOUBLE, None)])
    net.nodes = nodes
    y = net.node("If", condition, then_branch=yes, else_branch=no)
    outcome = bnfold.fold(net.model(y), verify=QUICK)
    assert [(event.graph != "", event.verdict) for event in outcome.report.batchnorms] == [(True, "folded")]


def test_what_other_folds_leave_of_one() -> None:
    """Int8 numbers without negatives take the shift in front of a negative factor, but not the factor."""
    net = Net(dtype=np.float32)
    weight = net.node(
        "DequantizeLinear", net.tensor(np.full((4, 3, 1, 1), -128, np.int8)), net.const(value=np.array(0.1))
    )
    y = net.node("Add", net.node("Conv", net.input(2, 3, 6, 5), weight), net.const(4, 1, 1))
    y = net.node("Mul", y, net.const(value=np.full((4, 1, 1), -2.0)))
    rows, operators = _rows(net.model(y), all_affines=True)
    assert rows == [("spelled-out", "kept")]
    assert operators == ["DequantizeLinear", "Conv", "Mul"]


def test_the_report_draws_it_and_knows_its_ranges() -> None:
    net = Net()
    (row,) = bnfold.fold(net.model(FORMS["frozen"](net, _conv(net))), verify=QUICK).to_json()["batchnorms"]
    assert row["parameters"] is None
    assert row["affine"]["channels"] == 4
    assert "batchnorm" in {node["role"] for node in row["drawing"]["before"]["nodes"]}


@pytest.mark.parametrize(
    "circle",
    ["p = Identity (q) q = Identity (p) m = Mul (p, k) y = Add (m, k)", "p = Mul (q, k) q = Mul (p, k) y = Relu (x)"],
)
def test_in_a_damaged_model_that_goes_in_circles_the_search_ends(circle: str) -> None:
    text = f"g (float[1,3,4,4] x) => (float[1,3,4,4] y) <float[3,1,1] k = {{1, 2, 3}}> {{ {circle} }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 15]> {text}')
    outcome = bnfold.fold(proto, verify=bnfold.VerifyOptions(depth="none"))
    assert outcome.report.batchnorms == []


TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def _beside(net: Net, x: str, *dims: int) -> str:
    return net.node("Add", net.node("Mul", x, net.const(*dims)), net.const(*dims))


@pytest.mark.parametrize("dims", [(4,), (1, 1, 1, 4)])
def test_in_nhwc_between_transposes(dims: tuple[int, ...]) -> None:
    net = Net()
    x = _beside(net, net.node("Transpose", _conv(net), perm=TO_NHWC), *dims)
    rows, operators = _rows(net.model(net.node("Transpose", net.node("Relu", x), perm=TO_NCHW)))
    assert rows == [("spelled-out", "folded")]
    assert operators == ["Conv", "Transpose", "Relu", "Transpose"]


def test_in_nhwc_before_a_transpose() -> None:
    net = Net()
    x = net.node("Transpose", _beside(net, net.input(2, 6, 5, 4), 4), perm=TO_NCHW)
    rows, operators = _rows(net.model(net.node("Conv", x, net.const(3, 4, 2, 2))))
    assert rows == [("spelled-out", "folded")]
    assert operators == ["Transpose", "Conv"]


@pytest.mark.parametrize("perm", [[0, 3, 2, 1], None])
def test_other_orders(perm: list[int] | None) -> None:
    """The axis that was the second counts, wherever it is; without an order it is the last but one."""
    net = Net()
    x = net.node("Transpose", _conv(net), **({} if perm is None else {"perm": perm}))
    channels = (4,) if perm else (4, 1)
    rows, _ = _rows(net.model(net.node("Relu", _beside(net, x, *channels))))
    assert rows == [("spelled-out", "folded")]
    net = Net()
    x = net.node("Transpose", _conv(net), **({} if perm is None else {"perm": perm}))
    elsewhere = (5, 1) if perm else (2,)
    assert _rows(net.model(net.node("Relu", _beside(net, x, *elsewhere))))[0] == []


def test_the_beside_of_what_no_transpose_made_is_none() -> None:
    net = Net()
    x = net.node("MatMul", net.input(2, 6, 3), net.const(3, 4))
    assert _rows(net.model(net.node("Relu", _beside(net, x, 4))))[0] == []
