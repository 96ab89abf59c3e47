"""Nodes of registered operators as callers' functions are shown them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from bnfold.analysis.constants import constant
from bnfold.ir.elements import FLOATS
from bnfold.ir.node import Node
from bnfold.registered.types import Array, OperatorNode


def described(node: Node, version: int | None = None) -> OperatorNode:
    """Return the node as a caller's function is shown it, by default in the version of its graph.

    Constants are read when they are asked for. Raises ReferenceAttribute in a function that needs its call.
    """

    def read(slot: int) -> Array | None:
        tensor = constant(node.input(slot))
        if tensor is None:
            return None
        array = np.array(tensor.float64() if tensor.dtype in FLOATS else tensor.numpy())
        array.flags.writeable = False
        return array

    attributes = {name: _plain(node, node.attr(name)) for name in node.attrs}
    version = node.graph.opset(node.domain) if version is None else version
    return OperatorNode(node.domain, node.op_type, version, node.label, attributes, len(node.inputs), read)


def _plain(node: Node, value: Any) -> Any:
    return node.graph.model.tensor(value).numpy() if isinstance(value, onnx.TensorProto) else value
