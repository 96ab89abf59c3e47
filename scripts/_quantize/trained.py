"""The effect of equalisation on trained networks: expected noise of int8 weights at the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import bnfold
from bnfold import Options, VerifyOptions

Array = npt.NDArray[Any]
UNKNOWN = 64
"""Pixels along a dynamic axis of a model."""
CHANNELS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
"""The axis of output channels in a weight; the first for a Gemm with transB."""


def row(path: Path, draws: int) -> list[str]:
    """Return, per tensor and per channel, decibels folded → folded and equalised, at the worst output."""
    feeds = _feeds(onnx.load(path))
    forms = [
        bnfold.optimize(path, options=Options(equalize=equalize), verify=VerifyOptions(depth="none")).to_proto()
        for equalize in (False, True)
    ]
    reference = _run(forms[0], feeds)
    return [
        " → ".join(f"{_decibels(form, feeds, reference, draws, per_channel=per_channel):.1f}" for form in forms)
        for per_channel in (False, True)
    ]


def _decibels(
    model: onnx.ModelProto, feeds: Mapping[str, Array], reference: Sequence[Array], draws: int, *, per_channel: bool
) -> float:
    noise = [
        [((made - true) ** 2).sum() / (true**2).sum() for made, true in zip(found, reference, strict=True)]
        for found in (_run(_noisy(model, seed, per_channel=per_channel), feeds) for seed in range(draws))
    ]
    return float(-10 * np.log10(np.mean(noise, axis=0).max()))


def _noisy(model: onnx.ModelProto, seed: int, *, per_channel: bool) -> onnx.ModelProto:
    """Add noise of one step's width to every weight that is not zero, as rounding to int8 does."""
    rng = np.random.default_rng(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = {tensor.name: tensor for tensor in copy.graph.initializer}
    layers = {node.input[1]: node for node in copy.graph.node if node.op_type in CHANNELS and node.input[1] in held}
    for name, node in layers.items():
        weight = numpy_helper.to_array(held[name])
        turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        axis = 0 if turned else weight.ndim - 1 if node.op_type == "MatMul" else CHANNELS[node.op_type]
        others = tuple(other for other in range(weight.ndim) if other != axis) if per_channel else None
        step = np.abs(weight).max(others, keepdims=True) / 127
        noise = np.where(weight != 0, rng.uniform(-0.5, 0.5, weight.shape) * step, 0)
        held[name].CopyFrom(numpy_helper.from_array((weight + noise).astype(weight.dtype), name))
    return copy


def _feeds(model: onnx.ModelProto) -> dict[str, Array]:
    rng, stored = np.random.default_rng(0), {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for info in (info for info in model.graph.input if info.name not in stored):
        dims = [
            dim.dim_value or (UNKNOWN if axis > 1 else 1) for axis, dim in enumerate(info.type.tensor_type.shape.dim)
        ]
        kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        feeds[info.name] = rng.standard_normal(dims).astype(kind)
    return feeds


def _run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the float outputs in onnxruntime, nothing fused, widened."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [made.astype(np.float64) for made in session.run(None, dict(feeds)) if made.dtype.kind == "f"]
