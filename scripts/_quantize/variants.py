"""The ways to int8 under comparison."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import bnfold
from _quantize.network import run
from bnfold import VerifyOptions

Array = npt.NDArray[Any]


class CalibrationData(CalibrationDataReader):  # type: ignore[misc] # onnxruntime is not type-checked here
    """Hands out one array, item by item."""

    def __init__(self, data: Array) -> None:
        self._items = iter([{"x": data[index : index + 1]} for index in range(len(data))])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._items, None)


def quantized(model: onnx.ModelProto, data: Array, *, per_channel: bool, **more: Any) -> onnx.ModelProto:
    """Return the model in QDQ form: int8 weights, uint8 activations, calibrated on ``data``; ``more`` are options."""
    with tempfile.TemporaryDirectory(prefix="bnfold-") as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source, target, CalibrationData(data), quant_format=QuantFormat.QDQ, per_channel=per_channel,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, **more,
        )  # fmt: skip
        return onnx.load(target)


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fold the model with bnfold."""
    return bnfold.fold(model, verify=VerifyOptions(depth="none")).to_proto()


def equalised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fold the model with bnfold, and equalise channels across layers."""
    return bnfold.fold(model, verify=VerifyOptions(depth="none"), equalize=True).to_proto()


def spread(model: onnx.ModelProto) -> float:
    """Return largest over smallest channel range of a Conv's weights, the widest in the model."""
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    ranges = [np.abs(held[node.input[1]]).max((1, 2, 3)) for node in model.graph.node if node.op_type == "Conv"]
    return float(max(found.max() / found.min() for found in ranges))


def weights_only(model: onnx.ModelProto, *, per_channel: bool) -> onnx.ModelProto:
    """Round each convolution's weight to int8 and back, and keep everything else in float32."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = {tensor.name: tensor for tensor in copy.graph.initializer}
    for node in copy.graph.node:
        if node.op_type == "Conv":
            weight = numpy_helper.to_array(held[node.input[1]]).astype(np.float64)
            step = np.abs(weight).max((1, 2, 3) if per_channel else None, keepdims=True) / 127
            rounded = (np.round(weight / step) * step).astype(np.float32)
            held[node.input[1]].CopyFrom(numpy_helper.from_array(rounded, node.input[1]))
    return copy


def ways(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto, bool]]:
    """Return name, float model, and whether its weights get a scale for each channel, for every way."""
    plain = folded(model)
    forms = {"not folded": model, "folded": plain, "folded, equalised": equalised(model)}
    for name, form in forms.items():
        yield f"{name}, per tensor", form, False
        yield f"{name}, per channel", form, True


def decibels(model: onnx.ModelProto, reference: Array, data: Array) -> float:
    """Return signal over quantisation noise at the output."""
    noise = run(model, data)[0].astype(np.float64) - reference
    return float(10 * np.log10((reference**2).sum() / (noise**2).sum()))
