"""Steps that only change how attributes are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down, down_unchanged, new_values, up
from bnfold.ir.elements import type_name
from bnfold.ir.schemas import schema_of

_WITHOUT_CONSUMED_INPUTS = (
    "Abs Add Ceil Div Dropout Elu Exp Floor HardSigmoid LeakyRelu Log Max Mean Min Mul Neg PRelu Reciprocal Relu "
    "Sigmoid Sqrt Sub Sum Tanh"
)
"""Operators whose version 6 lost the attribute that named inputs to overwrite, and nothing else."""

new_values("Pad", "mode", wrap=19)
new_values("ScatterElements ScatterND", "reduction", max=18, min=18)


def drop(name: str, conversion: NodeConversion) -> None:
    """Drop an attribute that never had a meaning, or can only ask for what the operator does anyway."""
    conversion.node.del_attr(name)


up(_WITHOUT_CONSUMED_INPUTS, 6)(partial(drop, "consumed_inputs"))
down_unchanged(_WITHOUT_CONSUMED_INPUTS, 6)
up("GRU LSTM RNN", 7)(partial(drop, "output_sequence"))


@up("Gemm", 7)
def gemm_broadcast(conversion: NodeConversion) -> None:
    """Convert Gemm 6 → 7: C always broadcasts. Some exporters relied on that before, and did not say so."""
    bias = conversion.node.input(2)
    shape = conversion.shape(bias) if bias is not None else None
    if not conversion.take("broadcast", 0) and shape is not None and len(shape) != 2:
        conversion.repair("later-form", "C does not broadcast before Gemm-7 unless broadcast is set: read as Gemm-7")


def keep_default(defaults: Mapping[str, float | str], conversion: NodeConversion) -> None:
    """State a default that the next version changes, if the node relies on it."""
    for name, value in defaults.items():
        if not conversion.node.has_attr(name):
            conversion.node.set_attr(name, value)


up("Concat", 4)(partial(keep_default, {"axis": 1}))
up("RoiAlign", 16)(partial(keep_default, {"coordinate_transformation_mode": "output_half_pixel"}))
down("Selu", 6)(partial(keep_default, {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}))
down("Split", 2)(partial(keep_default, {"axis": 0}))


@down("GRU LSTM RNN", 7)
def stated_sequence(conversion: NodeConversion) -> None:
    """Convert GRU, LSTM, RNN 7 → 1: before, an attribute says whether the first output is made."""
    if conversion.node.output(0) is not None:
        conversion.node.set_attr("output_sequence", 1)


def rename(op_type: str, conversion: NodeConversion) -> None:
    """Give the same operator a new name."""
    conversion.node.set_op_type(op_type)


up("Scatter", 11)(partial(rename, "ScatterElements"))


def respell(name: str, forms: Mapping[str, str], conversion: NodeConversion) -> None:
    """Rename values of a string attribute; the default keeps its name."""
    value = conversion.node.attr(name)
    if value in forms:
        conversion.node.set_attr(name, forms[value])


up("GRU", 3)(partial(respell, "direction", {"foward": "forward"}))
up("GridSample", 20)(partial(respell, "mode", {"bilinear": "linear", "bicubic": "cubic"}))


def only_types_of(op_type: str, version: int, conversion: NodeConversion) -> None:
    """Take a step to a version without some element types, which never made sense; raise Inexpressible for these."""
    dtype = conversion.context.types.dtype(conversion.input(0))
    if dtype is None:
        return
    name = type_name(dtype)
    if f"tensor({name})" not in schema_of(op_type, version).inputs[0].types:
        raise Inexpressible(f"version {version} does not take {name} tensors")


up("Erf", 13)(partial(only_types_of, "Erf", 13))
up("ReduceLogSum", 28)(partial(only_types_of, "ReduceLogSum", 28))
up("ReduceLogSumExp", 28)(partial(only_types_of, "ReduceLogSumExp", 28))


@up("Selu", 6)
def selu_constants(conversion: NodeConversion) -> None:
    """Convert Selu 1 → 6: more digits of the default constants."""
    drop("consumed_inputs", conversion)
    keep_default({"alpha": 1.673200011253357, "gamma": 1.0506999492645264}, conversion)


@up("GlobalLpPool LpPool", 2)
def whole_power(conversion: NodeConversion) -> None:
    """Convert LpPool, GlobalLpPool 1 → 2: ``p`` becomes an integer."""
    power = conversion.take("p", 2.0)
    if power != int(power):
        raise Inexpressible(f"p={power} is not a whole number")
    conversion.node.set_attr("p", int(power))


@up("Cast", 6)
def cast_to(conversion: NodeConversion) -> None:
    """Cast 1 → 6: ``to`` names the type by number."""
    to = conversion.take("to")
    if to is None:
        raise Inexpressible("does not say which type to cast to")
    if isinstance(to, str):
        if to.upper() not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 - a protobuf enum, not a dict
            raise Inexpressible(f"casts to an unknown type {to!r}")
        to = onnx.TensorProto.DataType.Value(to.upper())
    conversion.node.set_attr("to", to)


@up("Clip", 6)
def clip_bounds(conversion: NodeConversion) -> None:
    """Clip 1 → 6: an absent bound was none; from 6 on it is the largest float, which would also clip infinities."""
    conversion.node.del_attr("consumed_inputs")
    if len(conversion.node.inputs) == 1:
        keep_default({"min": -np.inf, "max": np.inf}, conversion)


@up("Pad", 2)
def pad_pads(conversion: NodeConversion) -> None:
    """Pad 1 → 2: ``paddings`` is called ``pads``."""
    pads = conversion.take("paddings") if conversion.node.has_attr("paddings") else conversion.take("pads")
    if pads is None:
        raise Inexpressible("has no paddings")
    conversion.node.set_attr("pads", pads)


@up("QuantizeLinear", 19)
def float_input(conversion: NodeConversion) -> None:
    """Convert QuantizeLinear 13 → 19: x has the scale's type; an integer x is divided by a float in any case."""
    data = conversion.input(0)
    if conversion.context.types.dtype(data) == onnx.TensorProto.INT32:
        conversion.node.set_input(0, conversion.add("Cast", [data], "float", to=onnx.TensorProto.FLOAT))


@down("RoiAlign", 16)
def output_half_pixel(conversion: NodeConversion) -> None:
    """Convert RoiAlign 16 → 10, which has this mode only, and no name for it."""
    mode = conversion.take("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise Inexpressible(f"coordinate_transformation_mode={mode} does not exist before opset 16")


@down("Pad", 2)
def paddings(conversion: NodeConversion) -> None:
    """Convert Pad 2 → 1: ``pads`` were called ``paddings``."""
    conversion.node.set_attr("paddings", conversion.take("pads"))


@down("Clip", 6)
def stated_limits(conversion: NodeConversion) -> None:
    """Convert Clip 6 → 1, where an absent bound is none at all: the largest floats are stated."""
    limit = float(np.finfo(np.float32).max)
    keep_default({"min": -limit, "max": limit}, conversion)


@down("Cast", 6)
def type_by_name(conversion: NodeConversion) -> None:
    """Convert Cast 6 → 1: ``to`` is the type's name."""
    conversion.node.set_attr("to", onnx.TensorProto.DataType.Name(conversion.take("to")))
