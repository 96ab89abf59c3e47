"""Every evaluator against onnx's own reference, and what each has to refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from bnfold import analysis, ir
from bnfold.analysis import evaluators
from tests.ir.build import model

Array = np.ndarray[Any, Any]


def evaluated(
    op_type: str, *operands: Array | None, opset: int = 15, **attributes: Any
) -> tuple[ir.Tensor | None, onnx.ModelProto]:
    names = [f"w{index}" if operand is not None else "" for index, operand in enumerate(operands)]
    weights = [
        numpy_helper.from_array(operand, names[at]) for at, operand in enumerate(operands) if operand is not None
    ]
    proto = model([helper.make_node(op_type, names, ["y"], **attributes)], weights, inputs=[], opset=opset)
    return analysis.constant(ir.load(proto).graph.values["y"]), proto


def f32(*dims: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=dims) * 3).astype(np.float32)


def of(kind: Any, *numbers: float) -> Array:
    return np.array(numbers, kind)


def ints(*numbers: int) -> Array:
    return of(np.int64, *numbers)


COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
CASES: list[tuple[str, tuple[Array | None, ...], dict[str, Any]]] = [
    ("Identity", (f32(2, 3),), {}),
    ("Cast", (f32(2, 3),), {"to": TensorProto.FLOAT16}),
    ("Cast", (f32(2, 3),), {"to": TensorProto.DOUBLE}),
    ("Reshape", (f32(2, 3, 5), ints(5, -1)), {}),
    ("Reshape", (f32(2, 3, 5), ints(0, -1)), {}),
    ("Reshape", (f32(2, 0, 5), ints(0, 3)), {"allowzero": 1}),
    ("Reshape", (np.arange(6), ints(3, 2)), {}),
    ("Flatten", (f32(2, 3, 5, 7),), {}),
    ("Flatten", (f32(2, 3, 5, 7),), {"axis": 0}),
    ("Flatten", (f32(2, 3, 5, 7),), {"axis": 3}),
    ("Flatten", (f32(2, 3, 5, 7),), {"axis": -2}),
    ("Flatten", (f32(2, 3, 0, 7),), {"axis": 2}),
    ("Squeeze", (f32(1, 3, 1), ints(0)), {}),
    ("Squeeze", (f32(1, 3, 1), ints(-1, 0)), {}),
    ("Squeeze", (f32(1, 3, 1),), {}),
    ("Unsqueeze", (f32(3, 5), ints(0)), {}),
    ("Unsqueeze", (f32(3, 5), ints(1, -1)), {}),
    ("Transpose", (f32(2, 3, 5),), {}),
    ("Transpose", (f32(2, 3, 5),), {"perm": [2, 0, 1]}),
    ("ConstantOfShape", (ints(2, 3),), {}),
    ("ConstantOfShape", (ints(),), {}),
    ("ConstantOfShape", (ints(2, 0),), {"value": helper.make_tensor("", TensorProto.FLOAT16, [1], [1.5])}),
    ("ConstantOfShape", (ints(3),), {"value": helper.make_tensor("", TensorProto.INT64, [1], [7])}),
    ("Expand", (f32(3, 1), ints(2, 1, 5)), {}),
    ("Expand", (f32(3, 5), ints(1)), {}),
    ("Add", (f32(2, 3), f32(3, seed=1)), {}),
    ("Sub", (f32(2, 1), f32(1, 3, seed=1)), {}),
    ("Mul", (f32(5), f32(1, seed=1)), {}),
    ("Div", (f32(5), f32(5, seed=1)), {}),
    ("Pow", (np.abs(f32(5)), of(np.float32, 0.5)), {}),
    ("Neg", (f32(2, 3),), {}),
    ("Sqrt", (np.abs(f32(5)),), {}),
    ("Reciprocal", (f32(5),), {}),
    ("Clip", (f32(2, 3), np.array(-1, np.float32), np.array(2, np.float32)), {}),
    ("Clip", (f32(2, 3), None, np.array(0.5, np.float32)), {}),
    ("Clip", (np.arange(-6, 6, dtype=np.int8), np.array(-3, np.int8)), {}),
    ("Cast", (np.array([-3, 100], np.int32),), {"to": TensorProto.INT8}),
    ("Cast", (ints(-3, 2**53 - 1),), {"to": TensorProto.FLOAT}),
    ("Cast", (of(np.float32, -2.9, -0.5, 0.0, 3, 7.9),), {"to": TensorProto.INT64}),
    ("Cast", (of(np.float32, -(2.0**63), 2.0**62),), {"to": TensorProto.INT64}),
    ("Cast", (of(np.float64, -128.9, 127.9),), {"to": TensorProto.INT8}),
    ("Cast", (of(np.float16, 0.9, 255),), {"to": TensorProto.UINT8}),
    ("Cast", (of(np.float32, 0, -0.0, 0.5, -3),), {"to": TensorProto.BOOL}),
    ("Add", (np.array([100, -7], np.int8), np.array([100, -100], np.int8)), {}),
    ("Sub", (ints(3, -5), ints(7)), {}),
    ("Mul", (np.array([3, -5], np.int32), np.array(7, np.int32)), {}),
    ("Div", (ints(7, -6, 8), ints(2, 2, -4)), {}),
    ("Mod", (ints(7, -7, 7, -7), ints(3, 3, -3, -3)), {}),
    ("Mod", (ints(7, -7, 7, -7), ints(3, 3, -3, -3)), {"fmod": 1}),
    ("Neg", (np.array([3, -128], np.int8),), {}),
    ("Abs", (f32(2, 3),), {}),
    ("Abs", (ints(-3, 5),), {}),
    ("Exp", (f32(2, 3),), {}),
    ("Log", (np.abs(f32(5)),), {}),
    ("Tanh", (f32(2, 3),), {}),
    ("Sigmoid", (f32(2, 3),), {}),
    ("Softplus", (f32(2, 3),), {}),
    ("Relu", (f32(2, 3),), {}),
    ("Pow", (np.abs(f32(5)), ints(3)), {}),
    ("Sum", (f32(2, 3), f32(3, seed=1), f32(2, 1, seed=2)), {}),
    ("Mean", (f32(2, 3), f32(3, seed=1), f32(2, 1, seed=2)), {}),
    ("Max", (f32(2, 3), f32(3, seed=1), f32(2, 1, seed=2)), {}),
    ("Max", (ints(3, -5), ints(1)), {}),
    ("Min", (f32(2, 3), f32(3, seed=1)), {}),
    *(
        (f"Reduce{name}", (np.abs(f32(2, 3, 5)),), {"axes": axes, "keepdims": keeps})
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
        for axes, keeps in (([0, 2], 1), ([-2], 0))
    ),
    ("ReduceMean", (np.abs(f32(2, 3)),), {}),
    ("ReduceMean", (np.abs(f32(2, 3)),), {"keepdims": 0}),
    ("ReduceSum", (np.abs(f32(2, 3, 5)), ints(0, -1)), {}),
    ("ReduceSum", (np.abs(f32(2, 3, 5)),), {"keepdims": 0}),
    ("ReduceSum", (np.array([[100, 100]], np.int32), ints(1)), {}),
    ("MatMul", (np.abs(f32(2, 3)), np.abs(f32(3, 5, seed=1))), {}),
    ("MatMul", (np.abs(f32(7, 2, 3)), np.abs(f32(3, seed=1))), {}),
    ("Gemm", (np.abs(f32(2, 3)), np.abs(f32(3, 5, seed=1))), {}),
    (
        "Gemm",
        (np.abs(f32(3, 2)), np.abs(f32(5, 3, seed=1)), np.abs(f32(5))),
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    ("Concat", (f32(2, 3), f32(2, 5, seed=1)), {"axis": 1}),
    ("Concat", (ints(2), ints(-1, 3)), {"axis": -1}),
    ("Slice", (f32(5, 7), ints(1), ints(4), ints(1)), {}),
    ("Slice", (f32(5, 7), ints(1, -3), ints(99, -1)), {}),
    ("Slice", (f32(5, 7), ints(-1, 5), ints(-99, 0), ints(0, -1), ints(-1, -2)), {}),
    ("Slice", (f32(5, 7), ints(3), ints(2), ints(0)), {}),
    ("Gather", (f32(5, 3), ints(4, -5, 1)), {}),
    ("Gather", (f32(5, 3), np.array([[2, 0]])), {"axis": -1}),
    ("Gather", (ints(5, 3, 7), np.array(1)), {}),
    ("Tile", (f32(2, 3), ints(2, 1)), {}),
    ("Pad", (f32(2, 3), ints(1, 0, 0, 2)), {}),
    ("Pad", (f32(2, 3), ints(1, 0, 0, 2), np.array(1.5, np.float32)), {"mode": "constant"}),
    ("Where", (np.array([[True], [False]]), f32(2, 3), f32(3, seed=1)), {}),
    ("Shape", (f32(2, 3, 5),), {}),
    ("Shape", (f32(2, 3, 5),), {"start": -2, "end": 2}),
    ("Size", (f32(2, 3, 5),), {}),
    ("Cast", (np.array([True, False]),), {"to": TensorProto.FLOAT}),
    ("Cast", (np.array([True, False]),), {"to": TensorProto.INT64}),
    ("Cast", (ints(0, -2, 3),), {"to": TensorProto.BOOL}),
    ("Sin", (f32(2, 3),), {}),
    ("Cos", (f32(2, 3),), {}),
    ("Floor", (f32(2, 3),), {}),
    ("Ceil", (f32(2, 3),), {}),
    ("Round", (of(np.float32, 0.5, 1.5, -2.5, 2.4),), {}),
    *((op_type, (ints(1, 2, 3), ints(2)), {}) for op_type in COMPARISONS),
    *((op_type, (f32(2, 3), f32(3, seed=1)), {}) for op_type in COMPARISONS),
    ("Equal", (np.array([True, False]), np.array([True])), {}),
    *((op_type, (np.array([True, False]), np.array([[True], [False]])), {}) for op_type in ("And", "Or", "Xor")),
    ("Not", (np.array([True, False]),), {}),
    ("Range", (np.array(1), np.array(8), np.array(3)), {}),
    ("Range", (np.array(5), np.array(-2), np.array(-2)), {}),
    ("Range", tuple(np.array(bound, np.float32) for bound in (0, 4, 1)), {}),
    ("GatherElements", (f32(2, 3), np.array([[0, -1, 1], [1, 1, 0]])), {}),
    ("GatherElements", (f32(2, 3), np.array([[2], [-3]])), {"axis": 1}),
    ("ScatterElements", (f32(4, 3), np.array([[0, -1, 1], [3, 1, 0]]), f32(2, 3)), {}),
    ("ScatterElements", (f32(2, 3), np.array([[2], [-3]]), f32(2, 1)), {"axis": 1}),
    ("ScatterND", (f32(4, 3), np.array([[1], [-1]]), f32(2, 3, seed=1)), {}),
    ("ScatterND", (f32(4, 3), np.array([[1, 0], [-1, 2]]), f32(2, seed=1)), {}),
    ("Trilu", (f32(2, 3, 4),), {}),
    ("Trilu", (f32(3, 4), np.array(-1)), {"upper": 0}),
    ("QuantizeLinear", (f32(2, 3), np.array(0.1, np.float32)), {}),
    ("QuantizeLinear", (f32(2, 3), f32(2) ** 2, of(np.int8, 3, -4)), {"axis": 0}),
    ("QuantizeLinear", (f32(2, 3), f32(2, 2) ** 2), {"axis": 1, "block_size": 2, "output_dtype": TensorProto.INT16}),
    ("DequantizeLinear", (np.arange(-3, 3, dtype=np.int8), np.array(0.1, np.float32)), {}),
    ("DequantizeLinear", (np.arange(6, dtype=np.uint8), np.array(0.1, np.float32), np.array(3, np.uint8)), {}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(3), of(np.int8, 1, -2, 3)), {"axis": 1}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2), of(np.int8, 1, -2)), {"axis": -2}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2), None), {"axis": 0}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2, 3)), {"axis": 1, "block_size": 1}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2, 2)), {"axis": -1, "block_size": 2}),
]


@pytest.mark.parametrize(("op_type", "operands", "attributes"), CASES)
def test_as_the_reference_has_it(op_type: str, operands: tuple[Array | None, ...], attributes: dict[str, Any]) -> None:
    # The reference has the newest version of that operator only; without its new attributes it means the same.
    tensor, proto = evaluated(op_type, *operands, opset=21 if "Linear" in op_type else 15, **attributes)
    (expected,) = map(np.asarray, ReferenceEvaluator(proto).run(None, {}))
    assert tensor is not None
    assert tensor.dims == expected.shape
    assert tensor.numpy().dtype == expected.dtype
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-6 if expected.dtype.kind == "f" else 0)
    np.testing.assert_array_equal(tensor.numpy(), tensor.float64().astype(tensor.numpy().dtype))


def test_flattening_nothing() -> None:
    """Where the reference gives up: no rows, but columns all the same."""
    tensor, _ = evaluated("Flatten", f32(0, 3, 5))
    assert tensor is not None
    assert tensor.dims == (0, 15)


def test_every_evaluator_is_tried() -> None:
    assert {op_type for op_type, _, _ in CASES} == set(evaluators.EVALUATORS)


def test_arithmetic_is_not_rounded_on_the_way() -> None:
    tensor, _ = evaluated("Div", of(np.float32, 1), of(np.float32, 3))
    assert tensor is not None
    assert tensor.float64()[0] == 1 / 3


def test_what_is_not_rounded_decides_nothing() -> None:
    """The model rounds the quotient before it compares, or cuts it off."""
    nodes = [helper.make_node("Div", ["w0", "w1"], ["q"]), helper.make_node("Floor", ["q"], ["y"])]
    nodes.append(helper.make_node("Less", ["q", "w1"], ["z"]))
    nodes += [helper.make_node("Cast", ["q"], [f"c{to}"], to=to) for to in (TensorProto.INT64, TensorProto.BOOL)]
    weights = [numpy_helper.from_array(of(np.float32, number), f"w{at}") for at, number in enumerate((1, 3))]
    values = ir.load(model(nodes, weights, inputs=[], opset=15)).graph.values
    assert analysis.constant(values["q"]) is not None
    assert analysis.constant(values["y"]) is None
    assert analysis.constant(values["z"]) is None
    assert analysis.constant(values[f"c{TensorProto.INT64}"]) is None
    assert analysis.constant(values[f"c{TensorProto.BOOL}"]) is None


def test_old_versions_mean_what_they_meant() -> None:
    shape = {"shape": [3, -1]}
    assert evaluated("Reshape", f32(2, 3), opset=1, **shape)[0] is not None
    assert evaluated("Squeeze", f32(1, 3), opset=1, axes=[0])[0] is not None
    assert evaluated("Unsqueeze", f32(3), opset=1, axes=[1])[0] is not None
    cast, _ = evaluated("Cast", f32(3), opset=1, to="DOUBLE")
    assert cast is not None
    assert cast.dtype == TensorProto.DOUBLE
    assert evaluated("Add", f32(2, 3), f32(2, 3), opset=6)[0] is not None


REFUSED: list[tuple[str, tuple[Array | None, ...], dict[str, Any]]] = [
    ("Add", (f32(2, 3), f32(3)), {"opset": 6}),
    ("Add", (f32(2, 3), f32(3)), {"opset": 6, "broadcast": 1}),
    ("Mul", (f32(2, 3), f32(2)), {"opset": 6, "broadcast": 1, "axis": 0}),
    ("Add", (f32(2, 3), f32(4)), {}),
    ("Add", (f32(3), None), {}),
    ("Add", (np.arange(3), f32(3)), {}),
    ("Add", (np.array([True]), np.array([True])), {}),
    ("Div", (ints(3), ints(0)), {}),
    ("Mod", (ints(3), ints(0)), {}),
    ("Mod", (f32(3), f32(3, seed=1)), {"fmod": 1}),
    ("Exp", (of(np.float32, 100),), {}),
    ("Log", (of(np.float32, 0),), {}),
    ("Max", (f32(2, 3), f32(3)), {"opset": 7}),
    ("Max", (), {}),
    ("ReduceL2", (f32(2, 3),), {"axes": [2]}),
    ("ReduceL2", (f32(2, 3),), {"axes": [1, -1]}),
    ("ReduceMax", (f32(0, 3),), {}),
    ("ReduceMean", (ints(1, 2),), {}),
    ("ReduceSum", (f32(3), None), {"noop_with_empty_axes": 1}),
    ("ReduceSum", (f32(3),), {"noop_with_empty_axes": 1}),
    ("MatMul", (f32(2, 3), f32(2, 3)), {}),
    ("MatMul", (np.array(1.0), np.array(1.0)), {}),
    ("MatMul", (ints(2), ints(2)), {}),
    ("Gemm", (f32(2, 3, 1), f32(3, 5)), {}),
    ("Gemm", (ints(2), ints(2)), {}),
    ("Concat", (f32(2, 3), f32(3, 2)), {"axis": 0}),
    ("Concat", (f32(3), f32(3).astype(np.float64)), {"axis": 0}),
    ("Slice", (f32(5), ints(1), ints(2), ints(1)), {}),
    ("Slice", (f32(5), ints(1), ints(2), ints(0), ints(0)), {}),
    ("Slice", (f32(5), ints(1), ints(2, 3)), {}),
    ("Slice", (f32(5), ints(1), ints(2), ints(0, 0)), {}),
    ("Slice", (f32(5), ints(1, 2), ints(2, 3), ints(0, -1)), {}),
    ("Slice", (f32(5), f32(1), f32(1)), {}),
    ("Gather", (f32(5), ints(5)), {}),
    ("Gather", (f32(5), f32(1)), {}),
    ("Tile", (f32(5), ints(2, 2)), {}),
    ("Tile", (f32(5), ints(2), ints(0)), {"opset": 5}),
    ("Pad", (f32(5), ints(1, 1)), {"mode": "edge"}),
    ("Pad", (f32(5), ints(-1, 0)), {}),
    ("Pad", (f32(5), ints(1, 0), np.array(1.0)), {}),
    ("Where", (of(np.float32, 1), f32(3), f32(3)), {}),
    ("Where", (np.array([True]), f32(3)), {}),
    ("Cast", (np.arange(3, dtype=np.int8),), {"to": TensorProto.FLOAT}),
    ("Cast", (ints(2**53),), {"to": TensorProto.FLOAT}),
    ("Floor", (f32(3).astype(np.float16),), {}),
    ("Equal", (f32(3), f32(3).astype(np.float64)), {}),
    ("Less", (f32(3), f32(3), f32(3)), {}),
    ("Less", (f32(2, 3), f32(3)), {"opset": 6}),
    ("And", (ints(1), ints(1)), {}),
    ("Not", (ints(1),), {}),
    ("Range", (np.array(1), np.array(8), np.array(0)), {}),
    ("Range", (np.array(1), np.array(8), np.array(2.0)), {}),
    ("Range", tuple(np.array(bound, np.float32) for bound in (0, 1, 0.1)), {}),
    ("GatherElements", (f32(2, 3), np.array([[2]])), {}),
    ("GatherElements", (f32(2, 3), ints(1)), {}),
    ("ScatterElements", (f32(2, 3), np.array([[2]]), f32(1, 1)), {}),
    ("ScatterElements", (f32(2, 3), np.array([[1], [1]]), f32(2, 1)), {}),
    ("ScatterElements", (f32(2, 3), np.array([[1]]), f32(2, 1)), {}),
    ("ScatterElements", (f32(2, 3), np.array([[1]]), f32(1, 1)), {"opset": 16, "reduction": "add"}),
    ("ScatterND", (f32(4, 3), np.array([[1], [-3]]), f32(2, 3)), {}),
    ("ScatterND", (f32(4, 3), np.array([[4]]), f32(1, 3)), {}),
    ("ScatterND", (f32(4, 3), np.array([[1, 1, 1]]), f32(1)), {}),
    ("ScatterND", (f32(4, 3), np.array([[1]]), f32(1, 3)), {"opset": 16, "reduction": "add"}),
    ("Add", (f32(3), f32(3).astype(np.float16)), {}),
    ("Add", (f32(3),), {}),
    ("Add", (f32(3), f32(3), f32(3)), {}),
    ("Add", (ints(3),), {}),
    ("Exp", (f32(3), f32(3)), {}),
    ("Sum", (), {}),
    ("Cast", (of(np.float32, 1, np.inf),), {"to": TensorProto.INT64}),
    ("Cast", (of(np.float32, 1, np.nan),), {"to": TensorProto.INT32}),
    ("Cast", (of(np.float32, np.nan),), {"to": TensorProto.BOOL}),
    ("Cast", (of(np.float32, 2.0**63),), {"to": TensorProto.INT64}),
    ("Cast", (of(np.float64, 2.0**64),), {"to": TensorProto.UINT64}),
    ("Cast", (of(np.float32, 128),), {"to": TensorProto.INT8}),
    ("Cast", (of(np.float32, -129),), {"to": TensorProto.INT8}),
    ("Cast", (of(np.float16, -1),), {"to": TensorProto.UINT8}),
    ("Cast", (of(np.float32, 3),), {"to": TensorProto.STRING}),
    ("Cast", (np.array([200]),), {"to": TensorProto.INT8}),
    ("QuantizeLinear", (f32(3).astype(np.float16), np.array(0.1, np.float16)), {"opset": 21}),
    ("QuantizeLinear", (f32(3), np.array(0.1, np.float32)), {"output_dtype": TensorProto.FLOAT8E4M3FN, "opset": 21}),
    ("QuantizeLinear", (f32(3), np.array(0, np.float32)), {}),
    ("Cast", (f32(3),), {}),
    ("Reshape", (f32(2, 3), ints(4, -1)), {}),
    ("Reshape", (f32(2, 3), ints(-2, 3)), {}),
    ("Reshape", (f32(2, 3), ints(-1, -1)), {}),
    ("Reshape", (f32(2, 3), ints(2, 3, 0)), {}),
    ("Reshape", (f32(2, 3),), {}),
    ("Flatten", (f32(2, 3),), {"axis": 3}),
    ("Flatten", (f32(2, 3),), {"axis": -3}),
    ("Squeeze", (f32(2, 3), ints(0)), {}),
    ("Unsqueeze", (f32(3), ints(5)), {}),
    ("Unsqueeze", (f32(3), ints(0, 0)), {}),
    ("Unsqueeze", (f32(3),), {}),
    ("Transpose", (f32(2, 3),), {"perm": [0, 0]}),
    ("ConstantOfShape", (ints(2, -1),), {}),
    ("ConstantOfShape", (ints(3),), {"value": helper.make_tensor("", TensorProto.FLOAT, [2], [1, 2])}),
    ("ConstantOfShape", (ints(3),), {"value": helper.make_tensor("", TensorProto.FLOAT, [0], [])}),
    ("Expand", (f32(3), ints(2)), {}),
    ("Expand", (f32(1), ints(-1)), {}),
    (
        "DequantizeLinear",
        (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2, 3)),
        {"axis": 1, "block_size": 2, "opset": 21},
    ),
    ("DequantizeLinear", (np.arange(3, dtype=np.int8).reshape(1, 3), f32(2)), {"axis": 0}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8).reshape(2, 3), f32(2)), {"axis": 1}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8), f32(1), of(np.int8, 1, 2, 3, 4, 5, 6)), {"axis": 0}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8), f32(1), np.array(3, np.uint8)), {}),
    ("DequantizeLinear", (np.arange(6, dtype=np.int8), f32(1)), {"output_dtype": TensorProto.FLOAT16, "opset": 23}),
    # What float64 would carry on with, and the model's own type does not:
    ("Mul", (of(np.float32, 1e30), of(np.float32, 1e30)), {}),
    ("Mul", (of(np.float32, 1e-30), of(np.float32, 1e-30)), {}),
    ("Add", (of(np.float16, 60000), of(np.float16, 60000)), {}),
    ("Sqrt", (of(np.float32, -1),), {}),
    ("Reciprocal", (of(np.float32, 0),), {}),
    ("Div", (of(np.float32, 0), of(np.float32, 0)), {}),
]


@pytest.mark.parametrize(("op_type", "operands", "attributes"), REFUSED)
def test_what_is_refused(op_type: str, operands: tuple[Array | None, ...], attributes: dict[str, Any]) -> None:
    assert evaluated(op_type, *operands, **attributes)[0] is None


@pytest.mark.parametrize(
    ("op_type", "count"), [("Sqrt", 2), ("Relu", 3), ("Add", 1), ("Add", 3), ("Pow", 4), ("Sum", 0)]
)
def test_operands_that_the_operator_does_not_have(op_type: str, count: int) -> None:
    """To numpy, what follows the operands is where to put the result."""
    held, _ = evaluated(op_type, *(f32(3, seed=seed) for seed in range(count)))
    assert held is None


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("ConstantOfShape", (ints(1 << 40),)),
        ("ConstantOfShape", (ints(1 << 20, 1 << 20, 1 << 20, 1 << 20),)),
        ("Expand", (f32(1), ints(1 << 40))),
        ("Expand", (f32(1 << 14, 1), ints(1 << 14))),
        ("Add", (f32(1 << 14, 1), f32(1, 1 << 14))),
        ("Tile", (f32(1 << 14), ints(1 << 14))),
        ("Pad", (f32(1), ints(1 << 40, 0))),
        ("Gather", (f32(1, 1 << 14), np.zeros(1 << 14, np.int64))),
        ("MatMul", (f32(1 << 20, 1), f32(1, 1 << 20))),
        ("Where", (np.ones((1 << 14, 1), bool), f32(1), f32(1 << 14))),
    ],
)
def test_small_files_cannot_ask_for_much_memory(op_type: str, operands: tuple[Array, ...]) -> None:
    assert evaluated(op_type, *operands)[0] is None


def test_an_operator_of_another_domain_is_not_ours() -> None:
    proto = model([helper.make_node("Neg", ["w"], ["y"], domain="custom")], [numpy_helper.from_array(f32(3), "w")])
    assert analysis.constant(ir.load(proto).graph.values["y"]) is None


@pytest.mark.parametrize(
    ("opset", "more", "attributes", "dims"),
    [
        (13, (), {}, [(2, 7), (2, 7), (1, 7)]),
        (13, ([1, 0, 4],), {}, [(1, 7), (0, 7), (4, 7)]),
        (11, (), {"split": [1, 2, 2]}, [(1, 7), (2, 7), (2, 7)]),
        (13, ([2, 2],), {}, None),
        (13, ([2, 2, 2],), {}, None),
        (13, (), {"axis": 2}, None),
    ],
)
def test_parts(opset: int, more: tuple[list[int], ...], attributes: dict[str, Any], dims: list[Any] | None) -> None:
    weights = [numpy_helper.from_array(f32(5, 7), "w"), *(numpy_helper.from_array(ints(*told), "n") for told in more)]
    node = helper.make_node("Split", [tensor.name for tensor in weights], ["a", "b", "c"], **attributes)
    values = ir.load(model([node], weights, inputs=[], outputs=["a"], opset=opset)).graph.values
    found = [analysis.constant(values[name]) for name in "abc"]
    assert [tensor and tensor.dims for tensor in found] == (dims or [None] * 3)
    if dims is not None:
        np.testing.assert_array_equal(np.concatenate([tensor.numpy() for tensor in found if tensor]), f32(5, 7))


def test_old_forms_of_choosing() -> None:
    sliced, _ = evaluated("Slice", f32(5, 7), opset=9, starts=[1], ends=[-1], axes=[1])
    assert sliced is not None
    np.testing.assert_array_equal(sliced.numpy(), f32(5, 7)[:, 1:-1])
    sliced, _ = evaluated("Slice", f32(5, 7), opset=1, starts=[1, 2], ends=[3, 3])
    assert sliced is not None
    np.testing.assert_array_equal(sliced.numpy(), f32(5, 7)[1:3, 2:3])
    padded, _ = evaluated("Pad", f32(3), opset=2, pads=[1, 0], value=2.5)
    assert padded is not None
    np.testing.assert_array_equal(padded.numpy(), [2.5, *f32(3)])
    assert evaluated("Pad", f32(3), opset=1, paddings=[1, 0])[0] is None
    padded, _ = evaluated("Pad", f32(2, 3), ints(1, 0), None, ints(-1), opset=18)
    assert padded is not None
    assert padded.dims == (2, 4)


def test_several_outputs_are_not_evaluated() -> None:
    proto = model([helper.make_node("Identity", ["w"], ["y", "z"])], [numpy_helper.from_array(f32(3), "w")])
    assert analysis.constant(ir.load(proto).graph.values["y"]) is None


def test_bfloat16_is_rounded_like_the_rest() -> None:
    values = f32(7).astype(ml_dtypes.bfloat16)
    proto = model([helper.make_node("Neg", ["w"], ["y"])], [numpy_helper.from_array(values, "w")])
    tensor = analysis.constant(ir.load(proto).graph.values["y"])
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), -values)
