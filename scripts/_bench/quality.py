"""Script: `quality.py BEFORE AFTER` prints, as JSON, AFTER's BatchNormalizations and its weights' rounding errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
# Looking at every weight of several GB would take longer than the benchmark.
_SAMPLE = 60


class Graph:
    """A model by names: producers and consumers of values, and initializers."""

    def __init__(self, path: Path) -> None:
        model = onnx.load(path, load_external_data=False)
        self.nodes = model.graph.node
        self.producers = {name: node for node in self.nodes for name in node.output}
        self.consumers: dict[str, int] = {}
        for node in self.nodes:
            for name in node.input:
                self.consumers[name] = self.consumers.get(name, 0) + 1
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._folder = str(path.parent)

    def weight(self, name: str) -> Array | None:
        """Return the elements of an initializer; None if there is none of this name."""
        tensor = self._weights.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor, self._folder)


def judge(before: Path, after: Path) -> dict[str, float | None]:
    """Count the remaining BatchNormalizations; measure the largest errors of folded weights and biases in ulps.

    None stands for an error that cannot be measured.
    """
    old, new = Graph(before), Graph(after)
    left = sum(node.op_type == "BatchNormalization" for node in new.nodes)
    pairs = [node for node in old.nodes if _follows_conv(node, old)]
    errors = [ulps(node, old, new) for node in pairs[:: max(1, len(pairs) // _SAMPLE)]]
    known = [error for error in errors if error is not None]
    weight, bias = (max(column) for column in zip(*known, strict=True)) if known else (None, None)
    return {"left": left, "weight_ulps": weight, "bias_ulps": bias}


def _follows_conv(node: onnx.NodeProto, graph: Graph) -> bool:
    producer = graph.producers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
    return producer is not None and producer.op_type == "Conv" and graph.consumers[node.input[0]] == 1


def ulps(norm: onnx.NodeProto, old: Graph, new: Graph) -> tuple[float, float] | None:
    """Measure the largest errors of the convolution that produces `norm`'s output: of its weight, its bias."""
    folded = new.producers.get(norm.output[0])
    if folded is None or folded.op_type != "Conv" or len(folded.input) < 3:
        return None
    weight, bias = (new.weight(name) for name in folded.input[1:3])
    if weight is None or bias is None:  # computed by a chain of nodes at run time
        return None
    exact_weight, exact_bias = fold(norm, old.producers[norm.input[0]], old)
    return _distance(weight, exact_weight), _distance(bias, exact_bias)


def fold(norm: onnx.NodeProto, conv: onnx.NodeProto, graph: Graph) -> tuple[Array, Array]:
    """Compute in extended precision the weight and the bias of `conv` with `norm` folded into it."""
    wide = [graph.weight(name) for name in (conv.input[1], *norm.input[1:5])]
    weight, scale, shift, mean, var = (np.asarray(array, np.longdouble) for array in wide)
    bias = graph.weight(conv.input[2]) if len(conv.input) > 2 else None
    epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), np.float32(1e-5))
    s = scale / np.sqrt(var + np.longdouble(np.float32(epsilon)))
    b = 0 if bias is None else np.asarray(bias, np.longdouble)
    return weight * s.reshape(-1, *[1] * (weight.ndim - 1)), (b - mean) * s + shift


def _distance(got: Array, wanted: Array) -> float:
    unit = np.spacing(np.abs(wanted).astype(got.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(got.astype(np.longdouble) - wanted) / unit))


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]), Path(sys.argv[2]))))
