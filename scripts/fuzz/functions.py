"""Old models whose functions read their own attributes by reference: nested, called twice, with or without defaults."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from fuzz.builder import Array

DOMAIN = "drawn"
OPSETS, TARGETS = (8, 9, 10, 11, 12, 13), (13, 15, 18, 21, 25)
RANK = 3
Values = Callable[[np.random.Generator], Any]
KINDS: dict[str, tuple[str, int, Values]] = {
    "LeakyRelu": ("alpha", AttributeProto.FLOAT, lambda rng: float(rng.choice([0.25, 0.5]))),
    "Elu": ("alpha", AttributeProto.FLOAT, lambda rng: float(rng.choice([0.5, 2.0]))),
    "Softmax": ("axis", AttributeProto.INT, lambda rng: int(rng.integers(RANK))),
    "Hardmax": ("axis", AttributeProto.INT, lambda rng: int(rng.integers(RANK))),
    "Dropout": ("ratio", AttributeProto.FLOAT, lambda rng: float(rng.choice([0.25, 0.5]))),
    "ReduceSum": ("axes", AttributeProto.INTS, lambda rng: [int(rng.integers(RANK))]),
    "ReduceMax": ("axes", AttributeProto.INTS, lambda rng: [int(rng.integers(RANK))]),
    "Cast": ("to", AttributeProto.INT, lambda rng: int(rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE]))),
    "Pad": ("pads", AttributeProto.INTS, lambda rng: [int(size) for size in rng.integers(0, 2, 2 * RANK)]),
    "Transpose": ("perm", AttributeProto.INTS, lambda rng: [int(axis) for axis in rng.permutation(RANK)]),
}
"""Attributes that a node takes from its function: name, type, and values of each. All nodes keep a rank of three.

There is no Clip: its bounds become values of a type that a function's body does not declare.
"""
UNTIL = {"Dropout": 11, "Pad": 10, "ReduceSum": 12}
"""The last opset with this attribute."""


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw a model with functions, its inputs, and the upgrade's target."""
    rng = np.random.default_rng([seed, 13])
    opset = int(rng.choice(OPSETS))
    shape = tuple(int(size) for size in rng.choice((2, 3, 4, 5), RANK, replace=False))
    functions = [_plain(rng, opset)]
    if rng.random() < 0.5:
        functions.append(_nested(rng, opset, functions[0]))
    names = ["x", *(f"v{index}" for index in range(int(rng.integers(1, 4))))]
    nodes = [_call(rng, functions[int(rng.integers(len(functions)))], source, made) for source, made in pairwise(names)]
    ends = [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], ends)
    versions = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=versions, functions=functions, ir_version=10)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    return model, feeds, {"target_opset": int(rng.choice([target for target in TARGETS if target >= opset]))}


def _plain(rng: np.random.Generator, opset: int) -> onnx.FunctionProto:
    """Build a function of one or two nodes, each with an attribute of the function's, with or without a default."""
    known = [op for op in KINDS if opset <= UNTIL.get(op, opset)]
    ops = [str(op) for op in rng.choice(known, int(rng.integers(1, 3)), replace=False)]
    nodes, needed, defaults = [], [], []
    for index, op in enumerate(ops):
        name, kind, values = KINDS[op]
        fixed: dict[str, Any] = {"keepdims": 1} if "Reduce" in op else {}
        node = helper.make_node(op, [f"t{index}"], [f"t{index + 1}"], **fixed)
        node.attribute.append(_reference(name, f"p{index}_{op}", kind))
        nodes.append(node)
        if rng.random() < 0.4:
            defaults.append(helper.make_attribute(f"p{index}_{op}", values(rng)))
        else:
            needed.append(f"p{index}_{op}")
    versions = [helper.make_opsetid("", opset)]
    end = f"t{len(ops)}"
    return helper.make_function(DOMAIN, "Plain", ["t0"], [end], nodes, versions, needed, defaults)


def _nested(rng: np.random.Generator, opset: int, inner: onnx.FunctionProto) -> onnx.FunctionProto:
    """Build a function that calls another one, with its own attribute or a number for each of that one's."""
    call = helper.make_node(inner.name, ["t0"], ["t1"], domain=DOMAIN)
    needed = []
    for name in inner.attribute:
        _, kind, values = KINDS[name.partition("_")[2]]
        if rng.random() < 0.7:
            call.attribute.append(_reference(name, f"outer{name}", kind))
            needed.append(f"outer{name}")
        else:
            call.attribute.append(helper.make_attribute(name, values(rng)))
    nodes = [call, helper.make_node("Tanh", ["t1"], ["t2"])]
    versions = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, "Nested", ["t0"], ["t2"], nodes, versions, needed)


def _reference(name: str, parameter: str, kind: int) -> AttributeProto:
    return AttributeProto(name=name, ref_attr_name=parameter, type=kind)  # type: ignore[arg-type]


def _call(rng: np.random.Generator, function: onnx.FunctionProto, source: str, made: str) -> onnx.NodeProto:
    """Call a function with all required attributes, and some of those that have defaults."""
    given = [*function.attribute, *(default.name for default in function.attribute_proto if rng.random() < 0.5)]
    arguments = {name: KINDS[name.partition("_")[2]][2](rng) for name in given}
    return helper.make_node(function.name, [source], [made], domain=DOMAIN, **arguments)
