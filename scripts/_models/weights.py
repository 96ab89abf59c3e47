"""Weights that keep a network's activations sane, drawn so that every machine draws the same bits."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[np.float32]

_ROLES = {
    "BatchNormalization": {1: "scale", 2: "shift", 3: "mean", 4: "variance"},
    "InstanceNormalization": {1: "scale", 2: "shift"},
    "Conv": {1: "kernel", 2: "shift"},
    "ConvTranspose": {1: "kernel", 2: "shift"},
    "Gemm": {1: "kernel", 2: "shift"},
    "MatMul": {1: "kernel"},
    "Mul": {1: "scale"},
    "Add": {1: "shift"},
}
_RELABELLING = {"Unsqueeze", "Identity"}


class Draw:
    """Random numbers by name.

    numpy promises the stream of a bit generator's raw integers, not of its distributions, and `log` and `cos` differ in
    the last bit between processors. So every number here is a raw integer times a power of two.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> Array:
        """Draw a float32 array of `shape`, uniform in [low, high); equal seeds and names give equal arrays."""
        bits = np.random.PCG64(zlib.crc32(f"{self._seed}/{name}".encode()))
        raw: npt.NDArray[np.uint64] = bits.random_raw(math.prod(shape))
        unit = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return (low + (high - low) * unit).astype(np.float32).reshape(shape)


def fill(nodes: Iterable[onnx.NodeProto], shapes: Mapping[str, tuple[int, ...]], draw: Draw) -> dict[str, Array]:
    """Draw a value for every parameter in `shapes`, by its role in the first node that reads it.

    Kernels are He-initialised; a BatchNormalization's statistics are those of its input, with the deviations of a
    trained network, because the mean square of every activation is estimated on the way. One scale in sixteen is
    negative, as after training.

    Args:
        nodes: In topological order.
        shapes: Of the parameters, by name.
        draw: Source of the numbers.
    """
    weights: dict[str, Array] = {}
    squares: dict[str, float] = {}
    source = {name: name for name in shapes}
    for node in _inside_out(nodes):
        if node.op_type in _RELABELLING and node.input[0] in source:
            source[node.output[0]] = source[node.input[0]]
            continue
        power = squares.get(node.input[0], 1.0) if node.input else 1.0
        for slot, role in _ROLES.get(node.op_type, {}).items():
            name = source.get(node.input[slot], "") if slot < len(node.input) else ""
            if name and name not in weights:
                weights[name] = _value(role, name, node, shapes[name], power, draw)
        for output in node.output:
            squares[output] = _mean_square(node, power, squares)
    return weights


def _inside_out(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield every node, those of a node's subgraphs before it."""
    for node in nodes:
        for attribute in node.attribute:
            yield from _inside_out(attribute.g.node)
        yield node


def _value(role: str, name: str, node: onnx.NodeProto, shape: tuple[int, ...], power: float, draw: Draw) -> Array:
    if role == "kernel":
        bound = math.sqrt(6 / _fan_in(node, shape))
        return draw.uniform(name, shape, -bound, bound)
    if role == "scale":
        sign = np.where(draw.uniform(name + "/sign", shape, 0, 16) < 1, np.float32(-1), np.float32(1))
        return draw.uniform(name, shape, 0.6, 1.4) * sign
    if role == "variance":
        return draw.uniform(name, shape, 0.6 * power, 1.6 * power)
    spread = 0.3 * math.sqrt(power) if role == "mean" else 0.3
    return draw.uniform(name, shape, -spread, spread)


def _fan_in(node: onnx.NodeProto, shape: tuple[int, ...]) -> float:
    attributes: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "ConvTranspose":
        group = attributes.get("group", 1)
        area = math.prod(shape[2:]) / math.prod(attributes.get("strides", [1]))
        return float(shape[0] / group * area)
    if node.op_type == "MatMul" or (node.op_type == "Gemm" and not attributes.get("transB", 0)):
        return shape[0]
    return math.prod(shape[1:])


# Mean square of an operator's output over that of its first input. Relu halves symmetric inputs; a maximum over a
# window of non-negative values is well above their mean.
_GAIN = {"Conv": 2.0, "ConvTranspose": 2.0, "Gemm": 2.0, "MatMul": 2.0, "Relu": 0.5, "MaxPool": 2.0}


def _mean_square(node: onnx.NodeProto, power: float, squares: Mapping[str, float]) -> float:
    if node.op_type in {"BatchNormalization", "InstanceNormalization"}:
        return 1.1
    incoming = [squares[name] for name in node.input if name in squares]
    if node.op_type in {"Add", "Sum"} and len(incoming) > 1:
        # The Relu that follows a residual sum finds its shortcut non-negative already, and takes away little.
        return 1.7 * sum(incoming)
    return max(incoming, default=power) * _GAIN.get(node.op_type, 1.0)
