"""Versions of a model in float16 or int8, verified within a tolerance: onnxruntime alone computes the errors again."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bnfold import verification
from bnfold.errors import BnfoldError
from bnfold.settings import VerifyOptions
from fuzz import draw as chains
from fuzz import phases, runtime, watch
from fuzz.builder import Array
from fuzz.case import Case, Outcome
from fuzz.parts import graphs, nodes, reads, tensors
from fuzz.sabotage import FAULTS

AFTER = "after.onnx"
WITHIN = "tolerance"
"""The setting with the tolerance."""
TOLERANCES = (1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0, "float16", "bfloat16")
KINDS = (lambda seed: chains.draw(seed, TensorProto.FLOAT), chains.alone)
ROUNDING = 1e-5
"""Of an output's largest value, and of an error: what another order of a sum changes."""


def draw(seed: int) -> Case:
    """Draw a model, its version in narrower types, often with a fault in it, and a tolerance."""
    rng = np.random.default_rng([seed, 43])
    model, feeds, *_ = KINDS[int(rng.integers(len(KINDS)))](seed)
    listed = {tensor.name for tensor in model.graph.initializer}
    after = _version(model, rng)
    if rng.random() < 0.3:
        FAULTS[int(rng.integers(len(FAULTS)))](after, rng)
    settings = {WITHIN: TOLERANCES[int(rng.integers(len(TOLERANCES)))]}
    feeds = {name: array for name, array in feeds.items() if name not in listed}
    return Case(model.SerializeToString(), {AFTER: after.SerializeToString()}, feeds=feeds, settings=settings)


def _version(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    kind = rng.random()
    if kind < 0.5:
        return halved(model, keeps_interface=kind < 0.25)
    made = _dynamic(model) if kind < 0.65 else None
    return made or with_int8_weights(model)


def halved(model: onnx.ModelProto, *, keeps_interface: bool) -> onnx.ModelProto:
    """Return the model in float16, perhaps between casts of its inputs and outputs."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    scales = {name for node in nodes(half) if reads(node, "Resize", 2) for name in node.input[1:3]}
    with np.errstate(over="ignore"):
        for tensor in tensors(half):
            if tensor.data_type == TensorProto.FLOAT and tensor.name not in scales:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for entry in (entry for node in nodes(half) if node.op_type == "Cast" for entry in node.attribute):
        entry.i = TensorProto.FLOAT16 if entry.i == TensorProto.FLOAT else entry.i
    for info in (info for graph in graphs(half) for info in (*graph.input, *graph.output, *graph.value_info)):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.FLOAT16
    if keeps_interface:
        _cast_interface(half)
    return half


def _cast_interface(half: onnx.ModelProto) -> None:
    """Let float16 inputs and outputs of the main graph be float32."""
    stored = {tensor.name for tensor in half.graph.initializer}
    made = {name for node in half.graph.node for name in node.output}
    for info in (info for info in half.graph.input if info.name not in stored):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
            _rename(half, info.name, f"{info.name} half")
            info.type.tensor_type.elem_type = TensorProto.FLOAT
            cast = helper.make_node("Cast", [info.name], [f"{info.name} half"], to=TensorProto.FLOAT16)
            half.graph.node.insert(0, cast)
    for info in (info for info in half.graph.output if info.name in made):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
            _rename(half, info.name, f"{info.name} half")
            info.type.tensor_type.elem_type = TensorProto.FLOAT
            half.graph.node.append(helper.make_node("Cast", [f"{info.name} half"], [info.name], to=TensorProto.FLOAT))


def _rename(model: onnx.ModelProto, name: str, other: str) -> None:
    for graph in graphs(model)[1:]:
        for info in graph.output:
            info.name = other if info.name == name else info.name
    for node in nodes(model):
        for names in (node.input, node.output):
            names[:] = [other if each == name else each for each in names]


def with_int8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its matrices and kernels stored as int8, which DequantizeLinear reads."""
    narrow = onnx.ModelProto()
    narrow.CopyFrom(model)
    listed = {info.name for info in (*narrow.graph.input, *narrow.graph.output)}
    for tensor in [*narrow.graph.initializer]:
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2 or tensor.name in listed:
            continue
        array, name = numpy_helper.to_array(tensor), tensor.name
        scale = np.float32(np.abs(array).max(initial=0) / 127)
        if not np.isfinite(scale) or not scale:
            continue
        tensor.CopyFrom(numpy_helper.from_array(np.rint(array / scale).astype(np.int8), f"{name} int8"))
        narrow.graph.initializer.append(numpy_helper.from_array(np.asarray(scale), f"{name} scale"))
        narrow.graph.node.insert(0, helper.make_node("DequantizeLinear", [f"{name} int8", f"{name} scale"], [name]))
    return narrow


def _dynamic(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return what onnxruntime's quantiser makes of the model; None if it fails."""
    with tempfile.TemporaryDirectory() as folder, phases.theirs("onnxruntime"):
        source, target = Path(folder) / "model.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        try:
            from onnxruntime.quantization import quantize_dynamic

            logging.disable(logging.WARNING)  # it recommends its preprocessing
            quantize_dynamic(source, target)
            return onnx.load(target)
        except Exception:  # noqa: BLE001 - other models are enough
            return None


def judge(case: Case, folder: Path) -> Outcome:
    """Compare the verdict and its rows with the errors that onnxruntime alone computes."""
    before, after = case.lay_out(folder), folder / AFTER
    if not after.is_file() or not all(array.size for array in case.feeds.values()) or not case.feeds:
        return Outcome()  # onnxruntime leaves elements unwritten where there is nothing to add up
    asked, arrays = case.settings[WITHIN], dict(case.feeds)
    np.savez(folder / "feeds.npz", allow_pickle=False, **arrays)
    checks = VerifyOptions(tolerance=asked, data=folder / "feeds.npz")
    try:
        verdict = verification.verify(before, after, checks=checks)
    except BnfoldError as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    with phases.theirs("onnxruntime"):
        results = [_run(path, case.feeds) for path in (before, after)]
    told = f"within {asked} {verdict.status} {watch.kind(verdict.reason)[:30]}"
    error = finding(asked, verdict, *results)
    return Outcome(error, told, compared=verdict.status != "unverified", tally=[f"within a tolerance {verdict.status}"])


def _run(path: Path, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    session = runtime.opened(path)
    if session is None:
        return None
    types = {value.name: runtime.TYPES.get(value.type) for value in session.get_inputs()}
    with np.errstate(over="ignore"):
        cast = {
            name: array.astype(types[name]) if types.get(name) and array.dtype.kind == "f" else array
            for name, array in feeds.items()
            if name in types
        }
    return runtime.results(session, cast)


def finding(asked: Any, verdict: verification.Verdict, before: Any, after: Any) -> str:
    """Return how a verdict contradicts its own rows, or the results of both models; empty if it does not."""
    bad = [row.name for row in verdict.outputs if row.fault or row.beyond or not row.relative <= row.allowed]
    is_by_rows = verdict.status == "failed" and verdict.decided_by == "tolerance" and verdict.outputs
    error = ""
    if verdict.verified and (bad or not verdict.outputs):
        error = f"contradiction: verified, and rows {bad} of {len(verdict.outputs)} say otherwise"
    elif is_by_rows and not bad:
        error = "contradiction: failed, and no row says so"
    elif before is not None and after is None and verdict.verified:
        error = "missed: onnxruntime does not run the version"
    elif before is not None and after is not None:
        errors = {name: _error(array, after.get(name)) for name, array in before.items()}
        error = _other_number(verdict, errors) or _other_verdict(asked, verdict, errors)
    return error and f"{error} ({verdict.status}: {verdict.reason})"


def _other_number(verdict: verification.Verdict, errors: Mapping[str, float]) -> str:
    """Find a row whose error is another one than onnxruntime's."""
    for row in verdict.outputs:
        alone = errors[row.name]
        if np.isfinite(alone) and abs(row.relative - alone) > ROUNDING * max(1.0, alone):
            return f"row: {row.name} is {row.relative:.6g} off, in onnxruntime alone {alone:.6g}"
    return ""


def _other_verdict(asked: Any, verdict: verification.Verdict, errors: Mapping[str, float]) -> str:
    """Find an output beyond the tolerance of what was verified, or all within that of what failed by it."""
    allowed = {row.name: row.allowed for row in verdict.outputs}
    limits = {name: asked if isinstance(asked, float) else allowed.get(name, 0.0) for name in errors}
    far = [name for name in errors if not errors[name] <= limits[name] + ROUNDING]
    if verdict.verified and far:
        return f"missed: in onnxruntime alone, {far[0]} is {errors[far[0]]:.6g} off"
    is_near = isinstance(asked, float) and all(errors[name] < limits[name] - ROUNDING for name in errors)
    if is_near and verdict.status == "failed" and verdict.decided_by == "tolerance":
        return f"accused: in onnxruntime alone, outputs are at most {max(errors.values()):.6g} off"
    return ""


def _error(one: Array, other: Array | None) -> float:
    """Return the largest difference as a share of the largest value; infinite where no number is one, or a label is."""
    if other is None or one.shape != other.shape or (one.dtype.kind == "f") != (other.dtype.kind == "f"):
        return np.inf
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else np.inf
    first, second = one.astype(np.float64), other.astype(np.float64)
    numbers = np.isfinite(first)
    if not np.array_equal(first[~numbers], second[~numbers], equal_nan=True) or not np.isfinite(second[numbers]).all():
        return np.inf
    scale = np.abs(first[numbers]).max(initial=0.0)
    error = np.abs(first[numbers] - second[numbers]).max(initial=0.0)
    return float(error / scale) if scale else float(error and np.inf)
