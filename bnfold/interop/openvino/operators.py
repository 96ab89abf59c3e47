"""What a layer means in ONNX's words: operator, attributes, and which input port is which input.

Only what is proven to be the same is here. A layer that is not, or that has an attribute of unknown effect, stays an
operator of the domain ``openvino``, which nothing can be folded into or moved through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
class Meaning:
    """A layer as an ONNX node of the name that `ONNX_NAMES` gives, if any.

    Attributes:
        slots: The layer's inputs that are the node's, by their place. Those that became attributes are none of them;
            their edges stay as they are.
        attributes: The node's attributes.
        outputs: How many outputs it has.
        views: How ONNX sees the constants at some of the inputs.
    """

    slots: Sequence[int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    views: Mapping[int, View] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """A layer, and the constant at each of its inputs (None: it is computed)."""

    layer: Layer
    constants: tuple[ir.Tensor | None, ...]

    def flag(self, name: str, default: str = "false") -> bool:
        return self.layer.data.get(name, default).lower() in ("true", "1")

    def integers(self, index: int) -> list[int] | None:
        held = self.constants[index] if index < len(self.constants) else None
        if held is None or held.size > 64:
            return None
        values = held.numpy().reshape(-1)
        return [int(value) for value in values] if values.dtype.kind in "iu" else None


Translate = Callable[[Seen], Meaning | None]


def meaning(seen: Seen) -> Meaning | None:
    """Return the layer's meaning; None where it has none in ONNX.

    Raises MalformedModel for a damaged BatchNormInference.
    """
    translate = _TABLE.get(seen.layer.type) if seen.layer.opset else None
    return translate(seen) if translate is not None else None


def is_v0(layer: Layer) -> bool:
    """Whether a BatchNormInference takes its inputs in the order of version 0: gamma, beta, data, mean, variance."""
    return layer.opset < 5


def _batch_norm(seen: Seen) -> Meaning:
    if len(seen.constants) != 5:
        raise MalformedModel(f"{seen.layer.where} has {len(seen.constants)} inputs, needs 5")
    return Meaning((2, 0, 1, 3, 4) if is_v0(seen.layer) else range(5), {"epsilon": epsilon(seen.layer)})


def epsilon(layer: Layer) -> float:
    """Return the epsilon of a BatchNormInference. OpenVINO itself takes a missing one for 0, which is never meant.

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
    """Return strides, dilations and padding; None for an auto_pad of another word."""
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
    return Meaning(range(2), attributes, views={1: "grouped"} if grouped else {})


def _matmul(seen: Seen) -> Meaning | None:
    views: dict[int, View] = {}
    for index, name in enumerate(("transpose_a", "transpose_b")):
        if seen.flag(name):
            held = seen.constants[index]
            if held is None or len(held.dims) < 2:
                return None  # the activation itself is transposed, or a vector, which is not
            views[index] = "transposed"
    return Meaning(range(2), views=views)


def _same(
    inputs: int, *, where: Callable[[Seen], bool] = lambda _: True, **attributes: Callable[[Seen], int]
) -> Translate:
    """Return the same operator if ``where`` holds, with the attributes of the layer."""

    def translate(seen: Seen) -> Meaning | None:
        told = {name: tell(seen) for name, tell in attributes.items()}
        return Meaning(range(inputs), told) if where(seen) else None

    return translate


_arithmetic = _same(2, where=lambda seen: seen.layer.data.get("auto_broadcast", "numpy").lower() == "numpy")
_reduce = _same(2, keepdims=lambda seen: int(seen.flag("keep_dims")), noop_with_empty_axes=lambda _: 1)
_axes = _same(2, where=lambda seen: len(seen.constants) == 2 and not seen.flag("allow_axis_skip"))


def _pool(seen: Seen) -> Meaning | None:
    attributes = _window(seen.layer)
    kernel = numbers(seen.layer, "kernel")
    if attributes is None or not kernel:
        return None
    attributes["kernel_shape"] = list(kernel)
    attributes["ceil_mode"] = int(seen.layer.data.get("rounding_type", "floor") != "floor")
    if seen.layer.type == "AvgPool":
        attributes["count_include_pad"] = int(not seen.flag("exclude-pad"))
    return Meaning((0,), attributes, outputs=len(seen.layer.ports("output")))


def _concat(seen: Seen) -> Meaning | None:
    axis = numbers(seen.layer, "axis")
    return Meaning(range(len(seen.constants)), {"axis": axis[0]}) if axis else None


def _transpose(seen: Seen) -> Meaning | None:
    order = seen.integers(1)
    return Meaning((0,), {"perm": order}) if order else None


def _convert(seen: Seen) -> Meaning | None:
    target = ELEMENT_TYPES.get(seen.layer.data.get("destination_type", ""))
    return Meaning((0,), {"to": int(target)}) if target is not None else None


def _split(seen: Seen) -> Meaning | None:
    axis, slots = seen.integers(1), (0, 2) if seen.layer.type == "VariadicSplit" else (0,)
    if axis is None or len(axis) != 1:
        return None
    return Meaning(slots, {"axis": axis[0]}, outputs=len(seen.layer.ports("output")))


_TABLE: dict[str, Translate] = {
    NORM: _batch_norm,
    "Convolution": _convolution,
    "GroupConvolution": _convolution,
    "ConvolutionBackpropData": _convolution,
    "GroupConvolutionBackpropData": _convolution,
    "MatMul": _matmul,
    "Add": _arithmetic,
    "Subtract": _arithmetic,
    "Multiply": _arithmetic,
    "Divide": _arithmetic,
    "Maximum": _arithmetic,
    "Minimum": _arithmetic,
    "Negative": _same(1),
    "ReLU": _same(1),
    "PReLU": _same(2),
    "Abs": _same(1),
    "MaxPool": _pool,
    "AvgPool": _pool,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "ReduceMax": _reduce,
    "ReduceMin": _reduce,
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _split,
    "Reshape": _same(2, allowzero=lambda seen: int(not seen.flag("special_zero"))),
    "Squeeze": _axes,
    "Unsqueeze": _axes,
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
