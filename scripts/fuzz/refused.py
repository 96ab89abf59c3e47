"""Changes after which onnx or a runtime no longer takes a model, whatever it would compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bnfold import verification
from fuzz import phases, promises, runtime
from fuzz.builder import Array
from fuzz.parts import nodes, pick, tensors

Fault = Callable[[onnx.ModelProto, np.random.Generator], None]
OTHER_TYPES = {
    TensorProto.FLOAT: TensorProto.DOUBLE, TensorProto.DOUBLE: TensorProto.FLOAT, TensorProto.INT64: TensorProto.INT32,
    TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.INT32: TensorProto.INT64, TensorProto.BOOL: TensorProto.UINT8,
}  # fmt: skip


def leave_out_import(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    del model.opset_import[int(rng.integers(len(model.opset_import)))]


def other_import(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Import another opset: its operators may take other inputs, or not exist."""
    pick(rng, model.opset_import).version = int(pick(rng, (1, 5, 7, 9, 11, 13, 18, 99)))


def far_axis(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    found = [entry for node in nodes(model) for entry in node.attribute if entry.name in ("axis", "axes", "perm")]
    entry = pick(rng, found)
    if entry is not None and entry.ints:
        entry.ints[int(rng.integers(len(entry.ints)))] = int(pick(rng, (-7, 7, 0)))
    elif entry is not None:
        entry.i = int(pick(rng, (-7, 7)))


def other_type(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Store a constant in another type, with the same numbers."""
    tensor = pick(rng, [tensor for tensor in tensors(model) if tensor.data_type in OTHER_TYPES])
    if tensor is not None:
        dtype = helper.tensor_dtype_to_np_dtype(OTHER_TYPES[tensor.data_type])
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))


def other_declaration(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Declare another type for an output or a value inside."""
    infos = [*model.graph.output, *model.graph.value_info]
    made = [name for node in model.graph.node for name in node.output if name]
    if made and rng.random() < 0.5:
        infos = [model.graph.value_info.add(name=pick(rng, made))]
    info = pick(rng, infos)
    info.type.tensor_type.elem_type = OTHER_TYPES.get(info.type.tensor_type.elem_type, TensorProto.DOUBLE)


def other_size(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Store one row more of a constant, which is the last one again."""
    tensor = pick(rng, [tensor for tensor in tensors(model) if tensor.dims and all(tensor.dims)])
    if tensor is not None and tensor.data_type in OTHER_TYPES:
        array = numpy_helper.to_array(tensor)
        axis = int(rng.integers(array.ndim))
        longer = np.concatenate([array, np.take(array, [-1], axis)], axis)
        tensor.CopyFrom(numpy_helper.from_array(longer, tensor.name))


def unknown_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, nodes(model))
    if node is not None:
        node.attribute.append(helper.make_attribute("unknown", 1))


def unknown_operator(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = pick(rng, nodes(model))
    if node is not None:
        node.op_type = f"{node.op_type}New"


def other_inputs(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Leave out an input of a node, or add one."""
    node = pick(rng, [node for node in nodes(model) if node.input])
    if node is not None and rng.random() < 0.5:
        node.input[int(rng.integers(len(node.input)))] = ""
    elif node is not None:
        node.input.append(node.input[0])


def twice(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Compute a value twice, under one name."""
    node = pick(rng, model.graph.node)
    if node is not None:
        model.graph.node.append(node)


FAULTS: tuple[Fault, ...] = (
    leave_out_import, other_import, far_axis, other_type, other_type, other_declaration, other_declaration, other_size,
    unknown_attribute, unknown_operator, other_inputs, twice,
)  # fmt: skip


def refuse(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Make one of these changes."""
    FAULTS[int(rng.integers(len(FAULTS)))](model, rng)


def finding(
    before: Path, after: Path, feeds: Mapping[str, Array], verdict: verification.Verdict, settings: Mapping[str, Any]
) -> str:
    """Return why *verified* is wrong: the runtime that was asked, or else onnx's checker, takes the original only."""
    if not (settings.get("refused") and verdict.verified) or not promises.declares_truly(
        onnx.load(before, load_external_data=False)
    ):
        return ""
    if settings["witness"] == "none":
        with phases.theirs("onnx"):
            complaint = not is_complaint(before) and is_complaint(after)
        return f"refused: onnx's checker takes the original only ({verdict.reason})" if complaint else ""
    with phases.theirs("onnxruntime"):
        first, second = runtime.opened(before), runtime.opened(after)
        if first is None or not runtime.runs(first, dict(feeds)):
            return ""
        is_taken = second is not None and runtime.runs(second, dict(feeds))
    return "" if is_taken else f"refused: onnxruntime takes the original only ({verdict.reason})"


def is_complaint(path: Path) -> bool:
    """Whether onnx's checker with strict inference refuses a file."""
    try:
        onnx.checker.check_model(path, full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True, data_prop=True)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return True
    return False
