"""Sizes that only a damaged file has are declined before anything of that size is made."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir
from bnfold.pipeline import passes
from bnfold.settings import Options

HUGE = 1 << 40
Dims = list[Any]


def built(nodes: list[onnx.NodeProto], inputs: dict[str, Dims], weights: dict[str, Any], **known: Dims) -> Any:
    """A model whose last value is its output; ``known`` are shapes of inner values."""

    def info(name: str, dims: Dims | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    parameters = {name: np.arange(1, 4, dtype=np.float32) for name in ("s", "b", "m", "v")}
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (parameters | weights).items()]
    graph = helper.make_graph(
        nodes,
        "huge",
        [info(name, dims) for name, dims in inputs.items()],
        [info(nodes[-1].output[0], None)],
        stored,
        value_info=[info(name, dims) for name, dims in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def bn(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("BatchNormalization", [x, "s", "b", "m", "v"], [y])


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def concat() -> Any:
    nodes = [bn("x", "a"), node("Concat", "a z", "c", axis=1), node("Relu", "c", "y")]
    return built(nodes, {"x": [1, 3, 2, 2], "z": [1, HUGE, 2, 2]}, {})


def sliced() -> Any:
    nodes = [node("Relu", "x", "r"), node("Slice", "r from to axes", "a"), bn("a", "y")]
    places = {name: np.array([number], np.int64) for name, number in (("from", 0), ("to", 3), ("axes", 1))}
    return built(nodes, {"x": [1, HUGE, 2, 2]}, places)


def gathered() -> Any:
    nodes = [node("Relu", "x", "r"), node("Gather", "r picked", "a", axis=1), bn("a", "y")]
    return built(nodes, {"x": [1, HUGE, 2, 2]}, {"picked": np.arange(3)})


def depth_to_space() -> Any:
    nodes = [node("Relu", "x", "r"), node("DepthToSpace", "r", "a", blocksize=1 << 20), bn("a", "y")]
    return built(nodes, {"x": ["N", "C", 2, 2]}, {}, a=[1, 3, 2, 2])


def space_to_depth() -> Any:
    nodes = [bn("x", "a"), node("SpaceToDepth", "a", "d", blocksize=1 << 20), node("Relu", "d", "y")]
    return built(nodes, {"x": [1, 3, 2, 2]}, {})


def tiled() -> Any:
    nodes = [bn("x", "a"), node("Tile", "a times", "t"), node("Relu", "t", "y")]
    return built(nodes, {"x": [1, 3, 2, 2]}, {"times": np.array([1, HUGE, 1, 1])})


def padded() -> Any:
    nodes = [bn("x", "a"), node("Conv", "a w", "c", pads=[1 << 30] * 4), node("Relu", "c", "y")]
    weights = {"w": np.ones((5, 3, 1, 1), np.float32), "s": np.arange(3, dtype=np.float32)}
    return built(nodes, {"x": [1, 3, 2, 2]}, weights)


def row_that_grows() -> Any:
    """Each factor varies along an axis of its own: 8 kB of them make 34 GB."""
    nodes, last = [bn("x", "a0")], "a0"
    weights: dict[str, Any] = {"side": np.ones(3, np.float32)}
    for axis in range(4):
        shape = [1] * 5
        shape[axis if axis < 1 else axis + 1] = 512
        weights[f"w{axis}"] = np.linspace(1, 2, 512, dtype=np.float32).reshape(shape)
        nodes.append(node("Mul", f"{last} w{axis}", f"a{axis + 1}"))
        last = f"a{axis + 1}"
    nodes.append(node("Relu", last, "y"))
    return built(nodes, {"x": [512, 3, 512, 512, 512]}, weights)


CASES = (concat, sliced, gathered, depth_to_space, space_to_depth, tiled, padded, row_that_grows)


@pytest.mark.parametrize("all_affines", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_nothing_huge_is_made(case: Callable[[], Any], all_affines: bool) -> None:
    model = ir.load(case())
    tracemalloc.start()
    try:
        report = passes.rewrite(model, Options(all_affines=all_affines))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (event,) = report.batchnorms
    assert event.reason is not None
    assert peak < 1 << 29
