"""What a layer means in ONNX's words: operator, attributes, and which input port is which input.

Only what is proven to be the same is here. A layer that is not, or that has an attribute of unknown effect, stays an
operator of the domain ``openvino``, which nothing can be folded into or moved through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.errors import MalformedModel
from bnfold.interop.openvino.document import ELEMENT_TYPES, Layer, numbers
from bnfold.interop.openvino.views import View

DOMAIN = "openvino"
NORM = "BatchNormInference"


@dataclass(frozen=True, slots=True)
class Slot:
    """An input port, by its place among the layer's, and how the constant there is seen."""

    index: int
    view: View = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A layer as an ONNX node. Inputs that became attributes are in no slot; their edges stay as they are."""

    op_type: str
    slots: tuple[Slot, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A layer, and the constant at each of its inputs (None: it is computed)."""

    layer: Layer
    constants: tuple[ir.Tensor | None, ...]

    def flag(self, name: str, default: str = "false") -> bool:
        return self.layer.data.get(name, default).lower() in ("true", "1")

    def number(self, index: int) -> int | None:
        """The single integer that input ``index`` always is."""
        held = self.integers(index)
        return held[0] if held is not None and len(held) == 1 else None

    def integers(self, index: int) -> list[int] | None:
        held = self.constants[index] if index < len(self.constants) else None
        if held is None or held.size > 64:
            return None
        values = held.numpy().reshape(-1)
        return [int(value) for value in values] if values.dtype.kind in "iu" else None


Translate = Callable[[Seen], Meaning | None]


def meaning(seen: Seen) -> Meaning | None:
    """The layer's meaning; None where it has none in ONNX. Raises MalformedModel for a damaged BatchNormInference."""
    translate = _TABLE.get(seen.layer.type) if seen.layer.opset else None
    return translate(seen) if translate is not None else None


def is_v0(layer: Layer) -> bool:
    """Whether a BatchNormInference takes its inputs in the order of version 0: gamma, beta, data, mean, variance."""
    return layer.opset < 5


def _batch_norm(seen: Seen) -> Meaning:
    order = (2, 0, 1, 3, 4) if is_v0(seen.layer) else range(5)
    if len(seen.constants) != 5:
        raise MalformedModel(f"{seen.layer.where} has {len(seen.constants)} inputs, needs 5")
    return Meaning("BatchNormalization", tuple(map(Slot, order)), {"epsilon": epsilon(seen.layer)})


def epsilon(layer: Layer) -> float:
    """The epsilon of a BatchNormInference. OpenVINO itself takes a missing one for 0, which nobody means.

    Raises MalformedModel where it is missing, no number, negative or not finite in float32, which is what the CPU
    plugin holds it in.
    """
    text = layer.data.get("epsilon")
    if text is None:
        raise MalformedModel(f"{layer.where} has no epsilon, which the operator requires")
    try:
        value = float(text)
    except ValueError as error:
        raise MalformedModel(f"{layer.where}: epsilon={text!r} is no number") from error
    if not 0 <= value <= float(np.finfo(np.float32).max):
        raise MalformedModel(f"{layer.where}: epsilon={text} is not a finite number from 0 on")
    return value


_AUTO_PAD = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def _window(layer: Layer) -> dict[str, Any] | None:
    """Strides, dilations and padding; None for an auto_pad of another word."""
    auto_pad = _AUTO_PAD.get(layer.data.get("auto_pad", "explicit").lower())
    if auto_pad is None:
        return None
    found: dict[str, Any] = {"auto_pad": auto_pad}
    if auto_pad == "NOTSET":
        found["pads"] = [*numbers(layer, "pads_begin"), *numbers(layer, "pads_end")]
    for name in ("strides", "dilations", "output_padding"):
        found |= {name: list(numbers(layer, name))} if numbers(layer, name) else {}
    return found


def _convolution(seen: Seen) -> Meaning | None:
    attributes = _window(seen.layer)
    if attributes is None:
        return None
    transposed = "Backprop" in seen.layer.type
    grouped = seen.layer.type.startswith("Group")
    if grouped:
        kernel = seen.constants[1]
        if kernel is None or len(kernel.dims) < 4:
            return None
        attributes["group"] = kernel.dims[0]
    if len(seen.constants) > 2:
        shape = seen.integers(2)
        if shape is None:
            return None
        attributes["output_shape"] = shape
    return Meaning(
        "ConvTranspose" if transposed else "Conv", (Slot(0), Slot(1, "grouped" if grouped else "")), attributes
    )


def _matmul(seen: Seen) -> Meaning | None:
    views: list[View] = []
    for index, name in enumerate(("transpose_a", "transpose_b")):
        if not seen.flag(name):
            views.append("")
            continue
        held = seen.constants[index]
        if held is None or len(held.dims) < 2:
            return None  # the activation itself is transposed, or a vector, which is not
        views.append("transposed")
    return Meaning("MatMul", tuple(Slot(index, view) for index, view in enumerate(views)))


def _same(
    op_type: str,
    inputs: int = 1,
    *,
    where: Callable[[Seen], bool] = lambda _: True,
    **attributes: Callable[[Seen], int],
) -> Translate:
    """The same operator, where ``where`` holds; its attributes are told by the layer."""

    def translate(seen: Seen) -> Meaning | None:
        told = {name: tell(seen) for name, tell in attributes.items()}
        return Meaning(op_type, tuple(map(Slot, range(inputs))), told) if where(seen) else None

    return translate


def _arithmetic(op_type: str) -> Translate:
    return _same(op_type, 2, where=lambda seen: seen.layer.data.get("auto_broadcast", "numpy").lower() == "numpy")


def _pool(op_type: str) -> Translate:
    def translate(seen: Seen) -> Meaning | None:
        attributes = _window(seen.layer)
        kernel = numbers(seen.layer, "kernel")
        if attributes is None or not kernel:
            return None
        attributes["kernel_shape"] = list(kernel)
        attributes["ceil_mode"] = int(seen.layer.data.get("rounding_type", "floor") != "floor")
        if op_type == "AveragePool":
            attributes["count_include_pad"] = int(not seen.flag("exclude-pad"))
        return Meaning(op_type, (Slot(0),), attributes, outputs=len(seen.layer.ports("output")))

    return translate


def _reduce(op_type: str) -> Translate:
    return _same(op_type, 2, keepdims=lambda seen: int(seen.flag("keep_dims")), noop_with_empty_axes=lambda _: 1)


def _axes(op_type: str) -> Translate:
    return _same(op_type, 2, where=lambda seen: len(seen.constants) == 2 and not seen.flag("allow_axis_skip"))


def _concat(seen: Seen) -> Meaning | None:
    axis = numbers(seen.layer, "axis")
    return Meaning("Concat", tuple(map(Slot, range(len(seen.constants)))), {"axis": axis[0]}) if axis else None


def _transpose(seen: Seen) -> Meaning | None:
    order = seen.integers(1)
    return Meaning("Transpose", (Slot(0),), {"perm": order}) if order else None


def _convert(seen: Seen) -> Meaning | None:
    target = ELEMENT_TYPES.get(seen.layer.data.get("destination_type", ""))
    return Meaning("Cast", (Slot(0),), {"to": int(target)}) if target is not None else None


def _split(seen: Seen) -> Meaning | None:
    axis, outputs = seen.number(1), len(seen.layer.ports("output"))
    if axis is None:
        return None
    slots = (Slot(0), Slot(2)) if seen.layer.type == "VariadicSplit" else (Slot(0),)
    return Meaning("Split", slots, {"axis": axis}, outputs=outputs)


_TABLE: dict[str, Translate] = {
    NORM: _batch_norm,
    "Convolution": _convolution,
    "GroupConvolution": _convolution,
    "ConvolutionBackpropData": _convolution,
    "GroupConvolutionBackpropData": _convolution,
    "MatMul": _matmul,
    "Add": _arithmetic("Add"),
    "Subtract": _arithmetic("Sub"),
    "Multiply": _arithmetic("Mul"),
    "Divide": _arithmetic("Div"),
    "Maximum": _arithmetic("Max"),
    "Minimum": _arithmetic("Min"),
    "Negative": _same("Neg"),
    "ReLU": _same("Relu"),
    "PReLU": _same("PRelu", 2),
    "Abs": _same("Abs"),
    "MaxPool": _pool("MaxPool"),
    "AvgPool": _pool("AveragePool"),
    "ReduceMean": _reduce("ReduceMean"),
    "ReduceSum": _reduce("ReduceSum"),
    "ReduceMax": _reduce("ReduceMax"),
    "ReduceMin": _reduce("ReduceMin"),
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _split,
    "Reshape": _same("Reshape", 2, allowzero=lambda seen: int(not seen.flag("special_zero"))),
    "Squeeze": _axes("Squeeze"),
    "Unsqueeze": _axes("Unsqueeze"),
    "Transpose": _transpose,
    "Convert": _convert,
}

ONNX_NAMES = {
    NORM: "BatchNormalization",
    "Convolution": "Conv",
    "GroupConvolution": "Conv",
    "ConvolutionBackpropData": "ConvTranspose",
    "GroupConvolutionBackpropData": "ConvTranspose",
    "Subtract": "Sub",
    "Multiply": "Mul",
    "Divide": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Negative": "Neg",
    "ReLU": "Relu",
    "PReLU": "PRelu",
    "AvgPool": "AveragePool",
    "VariadicSplit": "Split",
    "Convert": "Cast",
}
"""Where the two differ."""
