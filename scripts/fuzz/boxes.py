"""The overlap of two boxes, as detectors and trackers compute it: single numbers, differences and products of them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array


def draw(rng: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw a model of two boxes that are inputs, or of one input and one product of other inputs; and its inputs."""
    made = rng.random() < 0.5
    held = {f"at {place}": np.array(place) for place in range(4)} | {"none": np.array(0, np.float32)}
    feeds: dict[str, Array] = {"p": _box(rng)}
    nodes: list[onnx.NodeProto] = []

    def node(op_type: str, inputs: list[str], name: str, **attributes: int) -> str:
        nodes.append(helper.make_node(op_type, inputs, [name], **attributes))  # type: ignore[arg-type]
        return name

    if made:
        held["w"] = rng.uniform(-1, 1, (3, 4)).astype(np.float32)
        feeds["f"] = rng.standard_normal(3).astype(np.float32)
        node("MatMul", ["f", "w"], "q")
    else:
        feeds["q"] = _box(rng)
    parts = {box: [node("Gather", [box, f"at {place}"], f"{box}{place}", axis=0) for place in range(4)] for box in "pq"}
    areas = []
    for box, (left, top, right, bottom) in parts.items():
        sides = [node("Sub", [right, left], f"{box} wide"), node("Sub", [bottom, top], f"{box} high")]
        areas.append(node("Mul", sides, f"{box} area"))
    sides = []
    for low, high in ((0, 2), (1, 3)):
        ends = node("Min", [f"p{high}", f"q{high}"], f"end {low}"), node("Max", [f"p{low}", f"q{low}"], f"start {low}")
        sides.append(node("Max", [node("Sub", [*ends], f"common {low}"), "none"], f"side {low}"))
    both = node("Mul", sides, "both")
    either = node("Sub", [node("Add", areas, "sum"), both], "either")
    node("Div", [both, either], "overlap")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()]
    outputs = [helper.make_tensor_value_info("overlap", TensorProto.FLOAT, [])]
    stored = [numpy_helper.from_array(array, name) for name, array in held.items()]
    opset = helper.make_opsetid("", int(rng.choice([13, 15, 18, 21])))
    return helper.make_model(
        helper.make_graph(nodes, "g", infos, outputs, stored), opset_imports=[opset], ir_version=8
    ), feeds


def _box(rng: np.random.Generator) -> Array:
    corner, size = rng.standard_normal(2), rng.uniform(0.5, 2, 2)
    return np.concatenate([corner, corner + size]).astype(np.float32)
