"""Small models for the tests of the referee, and its comparison with an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from bnfold import ir, reference

Array = npt.NDArray[Any]


def one_node(
    op: str,
    opset: int,
    inputs: Sequence[Array | None],
    outputs: Sequence[str] = ("y",),
    *,
    domain: str = "",
    stored: Sequence[int] = (),
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node and its feeds. None is an omitted input; those at ``stored`` are initializers."""
    names = ["" if value is None else f"x{index}" for index, value in enumerate(inputs)]
    given = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if value is not None}
    node = helper.make_node(op, names, list(outputs), name="node", domain=domain, **attrs)
    weights = {names[index] for index in stored}
    graph = helper.make_graph(
        [node],
        "one",
        [value_info(name, value) for name, value in given.items() if name not in weights],
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
        [numpy_helper.from_array(given[name], name) for name in sorted(weights)],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return model, {name: value for name, value in given.items() if name not in weights}


def value_info(name: str, value: Array) -> onnx.ValueInfoProto:
    """The input declaration that fits an array."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def compute(op: str, opset: int, inputs: Sequence[Array | None], **attrs: Any) -> Array:
    """The only output of one node in float64."""
    return compute_all(op, opset, inputs, ("y",), **attrs)[0]


def compute_all(
    op: str,
    opset: int,
    inputs: Sequence[Array | None],
    outputs: Sequence[str],
    *,
    policy: reference.Policy | None = None,
    **attrs: Any,
) -> list[Array]:
    """The named outputs of one node in float64."""
    model, feeds = one_node(op, opset, inputs, outputs, **attrs)
    return list(reference.evaluate(ir.load(model), feeds, policy=policy).values())


def floats(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    """Normal numbers in float32, so that every implementation starts from the same values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
