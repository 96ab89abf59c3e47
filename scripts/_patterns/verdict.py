"""A tool's result on one pattern: folded right, exchanged for an Add, left alone, wrong, or not runnable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from bnfold import ir, reference
from bnfold.errors import BnfoldError

Arrays = dict[str, npt.NDArray[Any]]
AFFINES = {"BatchNormalization", "Mul", "Add", "Sub", "Div", "Neg"}
TOLERANCE: dict[int, float] = {
    TensorProto.FLOAT16: 2e-2, TensorProto.BFLOAT16: 1e-1, TensorProto.FLOAT: 5e-5, TensorProto.DOUBLE: 1e-9,
}  # fmt: skip
"""Error relative to an output's largest value that rounding may explain, by the type of the first input."""


Measure = Callable[[onnx.ModelProto], tuple[float, ...]]
"""The count to reduce; of its numbers the second one must not become more for that."""


def affines(model: onnx.ModelProto) -> tuple[float, ...]:
    """Count BatchNormalizations, all affine nodes, the former's channels, among the nodes that depend on the inputs."""
    fed = {info.name for info in model.graph.input}
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    costs = [_cost_of(model.graph.node, fed, sizes)]
    costs += [_cost_of(function.node, set(function.input), {}) for function in model.functions]
    return tuple(sum(numbers) for numbers in zip(*costs, strict=True))


def judge(source: Path, out: Path, note: str, *, whole: bool = False, measure: Measure = affines) -> str:
    """Return ``folded``, ``exchanged``, ``left``, ``wrong`` or ``crash``; with ``whole`` a partial fold is ``left``."""
    before = onnx.load(source)
    if note or not out.is_file():
        return "crash"
    after = onnx.load(out)
    feeds = _feeds(before)
    expected = reference.evaluate(ir.load(before), feeds)
    try:
        taken = {info.name for info in after.graph.input}
        found = _run(after, {name: array for name, array in feeds.items() if name in taken})
    except Exception:  # noqa: BLE001 - a model that neither evaluates nor runs is the tool's crash
        return "crash"
    tolerance = TOLERANCE[before.graph.input[0].type.tensor_type.elem_type]
    if any(not _close(expected[name], found[name], tolerance) for name in expected):
        return "wrong"
    old, new = measure(before), measure(after)
    if measure is affines and new[0] < old[0] and new[1] == old[1] and not whole:
        return "exchanged"
    return "folded" if new < old and new[1] <= (0 if whole else old[1]) else "left"


def _feeds(model: onnx.ModelProto) -> Arrays:
    """Draw numbers for the inputs; for those with a default only if some initializers are no inputs."""
    rng, stored = np.random.default_rng(2), {tensor.name for tensor in model.graph.initializer}
    habit = stored <= {info.name for info in model.graph.input}
    return {
        info.name: rng.standard_normal([dim.dim_value for dim in info.type.tensor_type.shape.dim]).astype(
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        )
        for info in model.graph.input
        if not (habit and info.name in stored)
    }


def _run(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Run in float64; in onnxruntime if a tool has inserted operators of its own."""
    onnx.checker.check_model(model)
    try:
        return reference.evaluate(ir.load(model), feeds)
    except BnfoldError:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds), strict=True))


def _close(expected: npt.NDArray[Any], found: npt.NDArray[Any], tolerance: float) -> bool:
    size = float(np.abs(expected).max())
    return expected.shape == found.shape and float(np.abs(found - expected).max()) <= tolerance * size


def _cost_of(nodes: Sequence[onnx.NodeProto], moving: set[str], sizes: dict[str, int]) -> tuple[int, int, int]:
    norms = affines = channels = 0
    for node in nodes:
        if node.op_type == "Constant":
            sizes[node.output[0]] = math.prod(node.attribute[0].t.dims)
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        inner = [_cost_of(body.node, set(moving), dict(sizes)) for body in bodies]
        if inner or moving.intersection(node.input):
            moving.update(node.output)
            norms += (node.op_type == "BatchNormalization") + sum(cost[0] for cost in inner)
            affines += (node.op_type in AFFINES) + sum(cost[1] for cost in inner)
            is_norm = node.op_type == "BatchNormalization"
            channels += (sizes.get(node.input[1], 0) if is_norm else 0) + sum(cost[2] for cost in inner)
    return norms, affines, channels
