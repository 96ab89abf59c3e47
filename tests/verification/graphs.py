"""Small models from text, and the numbers that tests fold by hand."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
Weights = dict[str, Array]
Depth = Literal["auto", "full", "local"]
EPSILON = float(np.float32(1e-5))


def model(
    body: str, weights: Weights, *, opset: int = 13, ir_version: int = 8, dtype: type = np.float32
) -> onnx.ModelProto:
    """``body`` is ``(inputs) => (outputs) { nodes }`` in onnx's text form; float64 weights are stored as ``dtype``."""
    versions = f'"" : {opset}' + (', "com.microsoft" : 1' if "com.microsoft." in body else "")
    text = f"<ir_version: {ir_version}, opset_import: [{versions}]> g {body}"
    proto = onnx.parser.parse_model(text)
    for name, array in weights.items():
        stored = np.asarray(array)
        stored = stored.astype(dtype) if stored.dtype == np.float64 else stored
        proto.graph.initializer.append(onnx.numpy_helper.from_array(stored, name))
    return proto


def numbers(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def statistics(rng: np.random.Generator, channels: int) -> Weights:
    """Parameters of a BatchNormalization in float32: scales of both signs, means away from zero."""
    signs = np.where(np.arange(channels) % 2, -1.0, 1.0)
    values = {
        "scale": signs * rng.uniform(0.5, 1.5, channels),
        "B": rng.normal(0.0, 1.0, channels),
        "mean": rng.normal(1.0, 1.0, channels),
        "var": rng.uniform(0.3, 2.0, channels),
    }
    return {name: array.astype(np.float32) for name, array in values.items()}


def affine(stats: Weights, epsilon: float = EPSILON) -> tuple[Array, Array]:
    """The float64 factor and shift that a BatchNormalization with these parameters is."""
    scale, bias, mean, var = (stats[name].astype(np.float64) for name in ("scale", "B", "mean", "var"))
    factor = scale / np.sqrt(var + epsilon)
    return factor, bias - mean * factor


def along(vector: Array, axis: int, rank: int) -> Array:
    """``vector`` shaped to broadcast along ``axis`` of an array of ``rank``."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def single(array: npt.ArrayLike) -> Array:
    """Rounded to float32, as a weight that came with the original is."""
    return np.asarray(array, np.float32)
