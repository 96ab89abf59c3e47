"""Mode ``decompose``: normalisations in every form, among other operators, decomposed and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz import draw as chains
from fuzz.builder import Array

OPSETS = (7, 8, 9, 11, 13, 14, 15, 17, 18, 21, 23)
FORMS = ("mul_add", "sub_mul_add", "depthwise_conv")
SIZES = (2, 3, 4, 5, 6, 7)
BOTH = ("BatchNormalization", "InstanceNormalization")


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw up to three normalisations in a row, with operators between, and the options of the decomposition."""
    rng = np.random.default_rng(seed)
    opset = int(rng.choice(OPSETS))
    dtype = int(rng.choice([TensorProto.DOUBLE, TensorProto.DOUBLE, TensorProto.FLOAT]))
    shape = [int(size) for size in rng.permutation(SIZES)[: int(rng.integers(2, 6))]]
    graph = onnx.GraphProto(name="drawn")
    dims: list[Any] = [_declaration(rng, size, f"d{axis}") for axis, size in enumerate(shape)]
    graph.input.append(helper.make_tensor_value_info("x", dtype, dims if rng.random() < 0.9 else None))
    feeds: dict[str, Array] = {"x": _array(rng.normal(0.3, 1.5, shape), dtype)}
    value, ends = "x", []
    for index in range(int(rng.integers(1, 4))):
        if rng.random() < 0.4:
            graph.node.append(
                helper.make_node(str(rng.choice(["Relu", "Abs", "Neg", "Identity"])), [value], [f"u{index}"])
            )
            value = f"u{index}"
        value, more = _normalise(graph, feeds, rng, value, (opset, dtype, shape, index))
        ends += more
    graph.output.append(helper.make_tensor_value_info(value, dtype, [None] * len(shape)))
    graph.output.extend(helper.make_tensor_value_info(name, dtype, [None]) for name in ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, feeds, how(rng, opset)


def among_others(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw normalisations of a graph with other operators, and the options of the decomposition."""
    model, feeds = chains.draw(seed)
    return model, feeds, how(np.random.default_rng([seed, 5]), model.opset_import[0].version)


def how(rng: np.random.Generator, opset: int) -> dict[str, Any]:
    """Choose the form and the opset."""
    target: Any = [None, "keep", "keep", 18, 21][int(rng.integers(5))]
    return {
        "target_opset": "keep" if isinstance(target, int) and target < opset else target,
        "decompose": "all",
        "decompose_form": str(rng.choice(FORMS)),
        "decompose_ops": list(BOTH[: int(rng.integers(1, 3))]),
        "fold": bool(rng.random() < 0.2),
    }


def _declaration(rng: np.random.Generator, size: int, name: str) -> int | str | None:
    """Choose the declaration of a size: the size, a name, unknown, or 0, which some exporters write for unknown."""
    kind = rng.random()
    return size if kind < 0.7 else name if kind < 0.9 else 0 if kind < 0.93 else None


def _array(values: Array, dtype: int) -> Array:
    return np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(dtype))


def _normalise(
    graph: onnx.GraphProto,
    feeds: dict[str, Array],
    rng: np.random.Generator,
    value: str,
    facts: tuple[int, int, list[int], int],
) -> tuple[str, list[str]]:
    """Append a normalisation; return its output and its statistics."""
    opset, dtype, shape, index = facts
    op = "InstanceNormalization" if len(shape) > 2 and rng.random() < 0.25 else "BatchNormalization"
    spatial = op != "BatchNormalization" or opset >= 9 or rng.random() < 0.7
    size = [shape[1]] if spatial else shape[1:]
    drawn = [rng.uniform(0.4, 2, size) * rng.choice([-1, 1], size), rng.normal(size=size)]
    if op == "BatchNormalization":
        drawn += [rng.normal(0.3, 1, size), rng.uniform(0.1, 3, size)]
    names = []
    for slot, values in enumerate(drawn):
        names.append(f"p{index}_{slot}")
        array = _array(values, dtype)
        if rng.random() < 0.2:
            told = size if rng.random() < 0.8 else [0] * len(size) if rng.random() < 0.5 else None
            graph.input.append(helper.make_tensor_value_info(names[-1], dtype, told))
            feeds[names[-1]] = array
        elif rng.random() < 0.1:
            graph.node.append(helper.make_node("Constant", [], [names[-1]], value=numpy_helper.from_array(array)))
        else:
            graph.initializer.append(numpy_helper.from_array(array, names[-1]))
    attributes: dict[str, Any] = {"epsilon": float(rng.choice([1e-5, 1e-2]))} if rng.random() < 0.7 else {}
    statistics: list[str] = []
    if op == "BatchNormalization":
        if not spatial:
            attributes["spatial"] = 0
        if spatial and rng.random() < 0.35:
            statistics = _train(rng, opset, index, attributes)
    node = helper.make_node(op, [value, *names], [f"y{index}", *statistics], name=f"norm{index}", **attributes)
    graph.node.append(node)
    return f"y{index}", [name for name in statistics if name]


def _train(rng: np.random.Generator, opset: int, index: int, attributes: dict[str, Any]) -> list[str]:
    """Choose training mode; return the names of the outputs after y."""
    attributes["momentum"] = float(rng.choice([0.9, 0.0, 0.3]))
    if opset >= 14:
        attributes["training_mode"] = 1
        count = 2 if rng.random() < 0.7 else 0
    else:
        count = int(rng.choice([2, 4]))
    return [f"s{index}_{slot}" for slot in range(count)]
