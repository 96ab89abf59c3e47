"""onnxruntime as a second opinion: both models on the same numbers, in their stored types."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from fuzz import condition, parts, phases
from fuzz.builder import Array

TOLERANCE, IN_HALVES = 2e-2, 5e-2
"""Relative to the largest magnitude of an output; storage precision explains smaller errors."""
LARGEST = 1 << 20
MEANS = ("ReduceMean", "GlobalAveragePool", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
}


def compare(before: Path, after: Path, drawn: Mapping[str, Array] | None = None) -> tuple[str, bool]:
    """Compare; return the finding, and whether both models ran. Originals that onnxruntime rejects are not compared.

    Both are run on random numbers, or on those that are ``drawn``, where labels have to be the same, too.
    """
    original = onnx.load(before, load_external_data=False)
    if is_disputed(original):
        return "", False
    first = opened(before)
    if drawn is not None:
        feeds: dict[str, Array] | None = dict(drawn)
    else:
        feeds = draw_feeds(first, _dynamic_size(before)) if first is not None else None
    expected = results(first, feeds) if first is not None and feeds is not None else None
    if feeds is None or expected is None or is_disputed_at(original, feeds):
        return "", False
    second = opened(after)
    if second is None:
        return "", False  # kernels of a version may be missing: bnfold's verification reports it too
    found = results(second, feeds)
    if found is None:
        wrong = "" if _misfits(before, feeds, expected) else "runtime: the result does not run where the original did"
        return wrong, True
    error = _difference(expected, found) or (drawn is not None and _other_labels(expected, found)) or ""
    if error and (_errs(before, feeds, expected) or _is_tie(before, feeds, found)):
        return "", False
    return error, True


def accepts(path: Path) -> bool:
    """Whether another program than bnfold accepts the model: onnx's checker with inferred types, or onnxruntime."""
    with phases.theirs("onnx"):
        try:
            onnx.checker.check_model(path, full_check=True)
        except Exception:  # noqa: BLE001 - whatever it raises, it does not accept it
            session = opened(path)
            feeds = draw_feeds(session) if session is not None else None
            return feeds is not None and results(session, feeds) is not None
    return True


def is_disputed_at(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> bool:
    """Whether something is fed that has no elements, and `disputes_empty`."""
    return disputes_empty(model) and any(np.size(array) == 0 for array in feeds.values())


def disputes_empty(model: onnx.ModelProto) -> bool:
    """Whether the model may average or join no elements.

    ONNX leaves a mean of nothing undefined; onnxruntime returns 0, or dies. It does not look at the other sizes of an
    empty value that a Concat reads, and leaves out what that should have made.
    """
    return any(node.op_type in (*MEANS, "Concat") for node in parts.nodes(model))


def _errs(before: Path, feeds: dict[str, Array], answers: dict[str, Array]) -> bool:
    """Whether onnxruntime and the reference evaluator disagree about the original.

    Training statistics in which mean and variance are one value come out wrong: onnxruntime writes them in place.
    """
    try:
        truth = reference.evaluate(ir.load(before), feeds, list(answers))
    except BnfoldError:
        return False
    return any(
        bool(_difference({name: value}, {name: answers[name].astype(value.dtype)})) for name, value in truth.items()
    )


def _misfits(before: Path, feeds: dict[str, Array], answers: dict[str, Array]) -> bool:
    """Whether the original does not fit these sizes: onnxruntime averages over a window larger than the image."""
    try:
        reference.evaluate(ir.load(before), feeds, list(answers))
    except BnfoldError as error:
        return isinstance(error, reference.Misfit)
    return False


def _is_tie(before: Path, feeds: dict[str, Array], found: dict[str, Array]) -> bool:
    """Whether rounding the original's weights anew makes as large a difference: before a Ceil, for example."""
    try:
        truth = reference.evaluate(ir.load(before), feeds, list(found))
    except BnfoldError:
        return False
    return condition.explains(onnx.load(before), feeds, truth, found)


def is_disputed(model: onnx.ModelProto) -> bool:
    """Whether the model has operators whose results in onnxruntime contradict the operator's text.

    One kind is the statistics of BatchNormalization up to version 9: onnxruntime returns 1/sqrt(var + epsilon), not the
    variance. Another is what a discontinuous operator makes of float16, which changes as soon as a rounding moves; that
    depends on which casts onnxruntime leaves out. The third is a linear Resize with computed scales: they may apply to
    the first two axes of four, which onnxruntime leaves as they are. The fourth is Normalizer: if sizes are declared,
    onnxruntime writes its results over numbers that it goes on reading.
    """
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    statistics = opset < 14 and any(
        node.op_type == "BatchNormalization" and len(node.output) > 1 for node in parts.nodes(model)
    )
    halves = any(info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for info in model.graph.input)
    stored = {tensor.name for tensor in model.graph.initializer}
    stored |= {name for node in parts.nodes(model) if node.op_type == "Constant" for name in node.output}
    resized = any(
        node.op_type == "Resize" and not stored.issuperset(filter(None, node.input[2:])) and _is_smooth(node)
        for node in parts.nodes(model)
    )
    moves = ("QuantizeLinear", *condition.DISCONTINUOUS)
    in_place = any(node.op_type == "Normalizer" for node in model.graph.node)
    return statistics or resized or in_place or (halves and any(node.op_type in moves for node in parts.nodes(model)))


def _is_smooth(node: onnx.NodeProto) -> bool:
    return any(entry.name == "mode" and entry.s != b"nearest" for entry in node.attribute)


def opened(path: Path) -> Any:
    """Return a session on a file; None if onnxruntime does not take it."""
    try:
        return session(path)
    except Exception:  # noqa: BLE001 - it raises whatever it likes, and all of it means that it does not run
        return None


def session(model: Path | bytes) -> Any:
    """Open a session on a model or a file, unoptimised; onnxruntime's exceptions pass through."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )


def _dynamic_size(path: Path) -> int:
    """Return the size to draw for what is left open.

    RotaryEmbedding is defined for even sizes only. onnxruntime runs it on odd ones, and leaves elements unwritten.
    """
    model = onnx.load(path, load_external_data=False)
    return 4 if any(node.op_type == "RotaryEmbedding" for node in parts.nodes(model)) else 3


def draw_feeds(session: Any, dynamic_size: int = 3) -> dict[str, Array] | None:
    """Draw inputs for a session; None if they are of another kind than numbers, or large."""
    feeds: dict[str, Array] = {}
    for value in session.get_inputs():
        if value.type not in TYPES:
            return None
        shape = [dim if isinstance(dim, int) and dim >= 0 else dynamic_size for dim in value.shape]
        if np.prod(shape, dtype=np.float64) > LARGEST:
            return None
        rng = np.random.default_rng(zlib.crc32(value.name.encode()))
        feeds[value.name] = np.asarray(rng.standard_normal(shape)).astype(TYPES[value.type])
    return feeds


def results(session: Any, feeds: dict[str, Array] | None) -> dict[str, Array] | None:
    """Return the outputs that are tensors, by name; None if the session refuses these inputs."""
    names = [value.name for value in session.get_outputs() if value.type.startswith("tensor(")]
    try:
        made = dict(zip(names, session.run(names, feeds), strict=True))
    except Exception:  # noqa: BLE001 - as above
        return None
    return None if any(result is None for result in made.values()) else made  # named without a producer


def runs(session: Any, feeds: dict[str, Array]) -> bool:
    """Whether a session runs on these inputs."""
    return results(session, feeds) is not None


def _other_labels(expected: dict[str, Array], found: dict[str, Array]) -> str:
    """Find an output of integers, booleans or strings that is not the same, or floats with other infinities."""
    for name, array in expected.items():
        is_float = array.dtype.kind == "f"
        places = [~np.isfinite(each) for each in (array, found[name])] if is_float else [np.ones(array.shape, bool)] * 2
        if not np.array_equal(array[places[0]], found[name][places[1]], equal_nan=is_float):
            return f"runtime: output {name!r} has another label, NaN or infinity"
    return ""


def _difference(expected: dict[str, Array], found: dict[str, Array]) -> str:
    for name, array in expected.items():
        other = found.get(name)
        if other is None or array.shape != other.shape or array.dtype != other.dtype:
            return f"runtime: output {name!r} has another shape or type, or is gone"
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            continue
        scale = max(1.0, float(np.abs(array.astype(np.float64)).max(initial=0.0)))
        error = float(np.abs(array.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)) / scale
        if not error <= (IN_HALVES if array.dtype == np.float16 else TOLERANCE):
            return f"runtime: output {name!r} differs by {error:.1e} of its scale"
    return ""
