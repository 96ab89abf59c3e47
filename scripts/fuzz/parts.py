"""The parts of a model that hostile changes and wrong rewrites pick from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

Files = dict[str, bytes]
Links = dict[str, str]
Change = Callable[[onnx.ModelProto, np.random.Generator], None]
INTEGERS = (0, 1, -1, 2, 3, -2, 7, 64, 1000, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
DIMS = (0, 1, -1, 2, 3, 5, 7, 1000, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))


def pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))] if len(options) else None


def graphs(model: onnx.ModelProto) -> list[Any]:
    """Return the main graph, the graphs in its nodes, and the functions."""
    found: list[Any] = [model.graph, *model.functions]
    for graph in found:
        found += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return found


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in graphs(model) for node in graph.node]


def tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors of the main graph, of attributes, and of the graphs in nodes."""
    held = [attribute.t for node in nodes(model) for attribute in node.attribute if attribute.HasField("t")]
    nested = [tensor for graph in graphs(model)[1:] for tensor in getattr(graph, "initializer", ())]
    return [*model.graph.initializer, *held, *nested]


def names(model: onnx.ModelProto) -> list[str]:
    read = {name for node in nodes(model) for name in (*node.input, *node.output)}
    return sorted(read | {tensor.name for tensor in model.graph.initializer}) or ["x"]


def reads(node: onnx.NodeProto, op: str, slot: int) -> bool:
    """Whether the node is of the operator and has this input."""
    return bool(node.op_type == op and slot < len(node.input))
