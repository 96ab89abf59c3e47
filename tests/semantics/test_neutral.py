"""Every neutral operand is one in onnxruntime, bit for bit, over numbers of every kind; and nothing beside them is.

Where onnxruntime has no kernel for a type, onnx's reference evaluator computes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as ort

from bnfold import ir
from bnfold.ir.elements import RAW_TYPES, Array
from bnfold.ir.tensor import TP
from bnfold.semantics.neutral import OPERATORS, element, returns_operand
from bnfold.verification.changes.copies import handed_on
from tests.simplifying.small import operators, simplified

FLOATS = (TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16)
INTEGERS = (TP.INT8, TP.UINT8, TP.INT16, TP.UINT16, TP.INT32, TP.UINT32, TP.INT64, TP.UINT64)
ON_THE_RIGHT = {"Sub", "Div", "Pow", "PRelu", "BitShift"}
OPSET = 21


def numbers(dtype: int) -> Array:
    """Numbers of every kind, as a vector that is longer than what processors compute at once."""
    kind = RAW_TYPES[dtype]
    if dtype == TP.BOOL:
        return np.array([True, False] * 20)
    if dtype in INTEGERS:
        limits = np.iinfo(kind)
        few = np.array([limits.min, limits.max, limits.min + 1, 0, 1, 2, 5, limits.max // 3], kind)
    else:
        limits = ml_dtypes.finfo(kind)
        ends = [limits.max, limits.tiny, limits.smallest_subnormal]
        few = np.array([0.0, np.inf, np.nan, 1.5, 0.1, 3.0, *map(float, ends)], np.float64).astype(kind)
        few = np.concatenate([few, -few])
    return np.tile(few, 40 // len(few) + 2)


def model(op_type: str, dtype: int, constants: dict[int, Array], slot: int) -> onnx.ModelProto:
    """``y = op_type(…)`` with the input ``x`` at ``slot``, an Identity before it and a node behind it."""
    names = ["a" if place == slot else f"c{place}" if place in constants else "" for place in range(3)]
    while not names[-1]:
        names.pop()
    attributes = {"direction": "LEFT"} if op_type == "BitShift" else {}
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["a"], axis=0),
        helper.make_node(op_type, names, ["b"], **attributes),
        helper.make_node("Concat", ["b", "b"], ["y"], axis=0),
    ]
    inputs, outputs = ([helper.make_tensor_value_info(name, dtype, [None])] for name in "xy")
    stored = [onnx.numpy_helper.from_array(array, f"c{place}") for place, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", OPSET)])


def run(proto: onnx.ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except (ort.NotImplemented, ort.InvalidGraph, ort.Fail):
        session = ReferenceEvaluator(proto)
    if x.dtype == ml_dtypes.bfloat16:  # of which onnxruntime takes no arrays
        session = ReferenceEvaluator(proto)
    with np.errstate(all="ignore"):
        made: Array = session.run(None, {"x": x})[0]
    return made


def is_same(x: Array, made: Array) -> bool:
    wanted = np.tile(x, 4)
    if x.dtype.kind in "biu":
        return wanted.tobytes() == made.tobytes()
    apart = ~np.isnan(wanted)
    return bool((np.isnan(made) == ~apart).all()) and wanted[apart].tobytes() == made[apart].tobytes()


def claims(proto: onnx.ModelProto, slot: int, dtype: int) -> bool:
    node = [*ir.load(proto.SerializeToString()).nodes()][1]
    return returns_operand(node, slot, dtype)


def is_copied(proto: onnx.ModelProto) -> bool:
    """Whether verification, which has a notion of its own, takes the node for a copy."""
    node = [*ir.load(proto.SerializeToString()).nodes()][1]
    source = handed_on(node)
    return source is not None and source.name == "a"


def neutral() -> Iterator[tuple[str, int, int, dict[int, Array]]]:
    for op_type in sorted(OPERATORS - {"Clip"}):
        for dtype in (*FLOATS, *INTEGERS, TP.BOOL):
            number = element(op_type, dtype)
            if number is None:
                continue
            for slot in (0,) if op_type in ON_THE_RIGHT else (0, 1):
                for dims in ((), (1,)):
                    yield op_type, dtype, slot, {1 - slot: np.full(dims, number)}
    for dtype in (*FLOATS, *INTEGERS):
        ends = {1: np.array(element("Max", dtype)), 2: np.array(element("Min", dtype))}
        yield "Clip", dtype, 0, ends
        if dtype in INTEGERS:
            yield from (("Clip", dtype, 0, part) for part in ({}, {1: ends[1]}, {2: ends[2]}))
    for dtype in FLOATS:
        yield "Pow", dtype, 0, {1: np.array(1, np.int64)}
    yield "Max", TP.FLOAT, 0, {1: np.array(-np.inf, np.float32), 2: np.full(1, -np.inf, np.float32)}
    yield "Min", TP.INT32, 0, {1: np.array(2**31 - 1, np.int32), 2: np.full(1, 2**31 - 1, np.int32)}


def kind(case: tuple[str, int, int, dict[int, Array]]) -> str:
    op_type, dtype, slot, constants = case
    held = ",".join(f"{place}{list(array.shape)}" for place, array in constants.items())
    return f"{op_type} {TP.DataType.Name(dtype)} {slot} {held}"


@pytest.mark.parametrize("op_type", sorted(OPERATORS))
def test_a_neutral_operand_changes_no_bit(op_type: str) -> None:
    cases = [case for case in neutral() if case[0] == op_type]
    assert cases
    for _, dtype, slot, constants in cases:
        proto, x = model(op_type, dtype, constants, slot), numbers(dtype)
        assert claims(proto, slot, dtype), kind((op_type, dtype, slot, constants))
        assert is_same(x, run(proto, x)), kind((op_type, dtype, slot, constants))
        after, _ = simplified(proto)
        assert operators(after) == ["Concat", "Concat"], kind((op_type, dtype, slot, constants))
        assert is_copied(proto), kind((op_type, dtype, slot, constants))


INF, ONE = np.float32(np.inf), np.float32(1)
NOT_NEUTRAL: dict[str, tuple[str, int, dict[int, Any], int]] = {
    "Add 0": ("Add", TP.FLOAT, {1: np.float32(0)}, 0),
    "Add 0 on the left": ("Add", TP.DOUBLE, {0: np.float64(0)}, 1),
    "Add zeros of both signs": ("Add", TP.FLOAT, {1: np.array([-0.0, 0.0] * 64, np.float32)}, 0),
    "Add the smallest number": ("Add", TP.FLOAT, {1: np.float32(1e-45)}, 0),
    "Sub -0": ("Sub", TP.FLOAT, {1: np.float32(-0.0)}, 0),
    "Sub -0 in float16": ("Sub", TP.FLOAT16, {1: np.float16(-0.0)}, 0),
    "Sub from 0": ("Sub", TP.FLOAT, {0: np.float32(0)}, 1),
    "Mul by nearly 1": ("Mul", TP.FLOAT, {1: np.nextafter(ONE, np.float32(2))}, 0),
    "Mul by -1": ("Mul", TP.FLOAT, {1: np.float32(-1)}, 0),
    "Div of 1": ("Div", TP.FLOAT, {0: ONE}, 1),
    "Div by -1": ("Div", TP.INT32, {1: np.int32(-1)}, 0),
    "Pow of 1": ("Pow", TP.FLOAT, {0: ONE}, 1),
    "Pow by 2": ("Pow", TP.FLOAT, {1: np.float32(2)}, 0),
    "PRelu that flips": ("PRelu", TP.FLOAT, {1: np.float32(-1)}, 0),
    "Max with the least number": ("Max", TP.FLOAT, {1: np.finfo(np.float32).min}, 0),
    "Max with infinity": ("Max", TP.FLOAT, {1: INF}, 0),
    "Max with 0 beside bytes with a sign": ("Max", TP.INT8, {1: np.int8(0)}, 0),
    "Max with NaN": ("Max", TP.FLOAT, {1: np.float32(np.nan)}, 0),
    "Min with the largest number": ("Min", TP.FLOAT, {1: np.finfo(np.float32).max}, 0),
    "Clip without bounds": ("Clip", TP.FLOAT, {}, 0),
    "Clip from below": ("Clip", TP.FLOAT, {1: -INF}, 0),
    "Clip from above": ("Clip", TP.FLOAT, {2: INF}, 0),
    "Clip between numbers": ("Clip", TP.INT32, {1: np.int32(-(2**31)), 2: np.int32(2**31 - 2)}, 0),
    "And of false": ("And", TP.BOOL, {1: np.bool_(False)}, 0),
    "Or of true": ("Or", TP.BOOL, {1: np.bool_(True)}, 0),
    "Xor of true": ("Xor", TP.BOOL, {1: np.bool_(True)}, 0),
    "BitwiseAnd of seven bits": ("BitwiseAnd", TP.UINT8, {1: np.uint8(127)}, 0),
    "BitwiseOr of one bit": ("BitwiseOr", TP.INT16, {1: np.int16(1)}, 0),
    "BitwiseXor of all bits": ("BitwiseXor", TP.INT64, {1: np.int64(-1)}, 0),
    "BitShift by one": ("BitShift", TP.UINT32, {1: np.uint32(1)}, 0),
    "BitShift of 0": ("BitShift", TP.UINT32, {0: np.uint32(0)}, 1),
}


@pytest.mark.parametrize("case", NOT_NEUTRAL)
def test_what_changes_a_bit_stays(case: str) -> None:
    op_type, dtype, constants, slot = NOT_NEUTRAL[case]
    proto, x = (
        model(op_type, dtype, {place: np.asarray(each) for place, each in constants.items()}, slot),
        numbers(dtype),
    )
    x = np.resize(x, 64) if "both signs" in case else x
    assert not is_same(x, run(proto, x))
    assert not claims(proto, slot, dtype)
    assert operators(simplified(proto)[0]) == ["Concat", op_type, "Concat"]


@pytest.mark.parametrize("case", NOT_NEUTRAL)
def test_verification_takes_it_for_no_copy(case: str) -> None:
    """If the sign of a zero shows: here a Reciprocal reads the result."""
    op_type, dtype, constants, slot = NOT_NEUTRAL[case]
    proto = model(op_type, dtype, {place: np.asarray(each) for place, each in constants.items()}, slot)
    proto.graph.node.add(op_type="Reciprocal", input=["y"], output=["z"])
    assert not is_copied(proto)


def test_the_power_of_an_integer_stays() -> None:
    """Runtimes compute it in floats, which do not have every integer."""
    proto = model("Pow", TP.INT64, {1: np.array(1, np.int64)}, 0)
    assert not claims(proto, 0, TP.INT64)
    assert not is_copied(proto)


def test_broadcasting_of_old_opsets_is_not_looked_at() -> None:
    proto = model("Mul", TP.FLOAT, {1: np.array(1, np.float32)}, 0)
    proto.opset_import[0].version = 6
    assert not claims(proto, 0, TP.FLOAT)
