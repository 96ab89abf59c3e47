"""Shape functions of callers: in whole models with bodies and functions, node by node, and what they do wrong."""

# ruff: noqa: ARG001, ARG005, PLE0643 - callers' functions take what they are given, and some are wrong on purpose

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

import bnfold
from bnfold import analysis, ir
from bnfold.analysis.shapes.stepwise import Types
from bnfold.operators import ValueType
from tests import acme


def halved(x: ValueType, *_: ValueType, step: int = 2) -> list[ValueType]:
    return [ValueType((x.dims[0], *(d // step if isinstance(d, int) else None for d in x.dims[1:])), x.dtype)]


def infer(proto: onnx.ModelProto) -> ir.Model:
    model = ir.load(proto)
    analysis.infer_shapes(model)
    return model


def test_they_are_asked_in_the_whole_model() -> None:
    proto = acme.model("c = com.acme.Half<step = 3>(x)  d = Relu(c)  z = Neg(d)", "float[N,4,6,9] x")
    with acme.registered("Half", kernel=None, affine=None, shape=halved):
        values = infer(proto).graph.values
    assert [values[name].shape for name in "cd"] == [("N", 1, 2, 3)] * 2
    assert not defs.has("Half", domain="com.acme")


def test_they_are_asked_in_bodies_and_functions() -> None:
    nodes = "e = f.F(x, w)  z = If(q) <then_branch = t () => (o) { c = com.acme.Half(e) o = Relu(c) }, "
    nodes += "else_branch = e2 () => (p) { p = com.acme.Half<step = 1>(x) }>"
    function = '<domain: "f", opset_import: ["": 15, "com.acme": 1]> F (a, b) => (y) { y = com.acme.Half(a) }'
    proto = acme.model(nodes, "float[2,4,8,8] x, bool q", function)
    with acme.registered("Half", kernel=None, affine=None, shape=halved):
        model = infer(proto)
    assert model.graph.values["e"].shape == (2, 2, 4, 4)
    branch = next(graph for graph in model.graphs() if "c" in graph.values)
    assert branch.values["c"].shape == (2, 1, 2, 2)


def test_versions_of_a_function_that_differ_are_left_alone() -> None:
    function = '<domain: "f", opset_import: ["": 15, "com.acme": 2]> F (a, b) => (y) { y = com.acme.Half(a) }'
    proto = acme.model("e = f.F(x, w)  c = com.acme.Half(e)  z = Relu(c)", functions=function)
    with acme.registered("Half", kernel=None, affine=None, shape=halved, versions=[1]):
        assert infer(proto).graph.values["c"].shape is None
    with acme.registered("Half", kernel=None, affine=None, shape=halved, versions=[1, 2]):
        assert infer(proto).graph.values["c"].shape == (2, 1, None, None)


def test_they_are_asked_node_by_node() -> None:
    proto = acme.model("c = com.acme.Half(x)  d = com.acme.Half(c)  z = Relu(d)", "float[N,4,8,8] x")
    with acme.registered("Half", kernel=None, affine=None, shape=halved):
        model = ir.load(proto)
        assert Types(15).shape(model.graph.values["d"]) == ("N", 1, 2, 2)
        assert Types(15).dtype(model.graph.values["d"]) == onnx.TensorProto.FLOAT


def test_a_conversion_knows_the_type_behind_it() -> None:
    proto = acme.model("c = com.acme.Half<step = 1>(x)  z = Sum(c, x, x)")
    with acme.registered("Half", kernel=lambda x, step: x, affine=None, shape=halved):
        assert bnfold.convert(proto, opset=6).verified  # version 6 of Sum demands one shape


@pytest.mark.parametrize("external", [False, True])
def test_the_numbers_of_small_integers_are_shown(external: bool, tmp_path: Any) -> None:
    def reshaped(x: ValueType, shape: ValueType) -> list[ValueType]:
        assert x.numbers is None
        assert shape.numbers is not None
        return [ValueType(shape.numbers.tolist(), x.dtype)]

    proto = acme.model("c = com.acme.Shaped(x, size)  z = Relu(c)")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([8, 9], np.int64), "size"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=external, size_threshold=0)
    with acme.registered("Shaped", kernel=None, affine=None, shape=reshaped):
        model = ir.load(tmp_path / "m.onnx")
        analysis.infer_shapes(model)
        assert model.graph.values["c"].shape == (8, 9)
        assert Types(15).shape(ir.load(tmp_path / "m.onnx").graph.values["c"]) == (8, 9)


def test_they_are_not_asked_before_every_rank_is_known() -> None:
    proto = acme.model("u = com.acme.Unknown(x)  c = com.acme.Half(u)  z = Relu(c)")
    with acme.registered("Half", kernel=None, affine=None, shape=lambda *_: pytest.fail("asked")):
        assert infer(proto).graph.values["c"].shape is None


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (lambda x: [][0], "raised IndexError"),
        (lambda x: 3, "raised TypeError"),
        (lambda x: [(1, 2)], "it returned tuple in place of ValueType"),
        (lambda x: [ValueType((-1,), x.dtype)], "-1 is no size"),
    ],
)
def test_one_that_fails_is_named_in_the_log(shape: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    proto = acme.model("c = com.acme.Half(x)  z = Relu(c)")
    with acme.registered("Half", kernel=None, affine=None, shape=shape):
        assert infer(proto).graph.values["c"].shape is None
    assert "the shape function of com.acme::Half raised" in caplog.text
    assert text in caplog.text


def test_one_that_does_not_apply_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def declines(x: ValueType) -> list[ValueType]:
        raise bnfold.operators.DoesNotApply("of this form")

    proto = acme.model("c = com.acme.Half(x)  z = Relu(c)")
    with acme.registered("Half", kernel=None, affine=None, shape=declines):
        assert infer(proto).graph.values["c"].shape is None
    assert not caplog.text


def test_a_schema_that_is_there_stays() -> None:
    schema = defs.OpSchema("Half", "com.acme", 1)
    defs.register_schema(schema)
    try:
        with acme.registered("Half", kernel=None, affine=None, shape=halved):
            infer(acme.model("c = com.acme.Half(x)  z = Relu(c)"))
        assert defs.has("Half", domain="com.acme")
    finally:
        defs.deregister_schema("Half", 1, "com.acme")
