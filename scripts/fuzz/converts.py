"""Mode ``convert``: any model, to any opset and IR version; the result is legal there, and converts back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.converting.ir_version import ir_version_of
from bnfold.errors import BnfoldError, Unsupported
from bnfold.pipeline import passes
from bnfold.settings import Options
from fuzz import downward, learned, legacy, modern, phases, promises, rewriting, runtime, upgrades, watch
from fuzz import draw as chains
from fuzz.builder import Array
from fuzz.case import Case, Outcome

LOWEST, NEWEST = 7, 25
IR_VERSIONS = ("auto", "auto", "auto", "keep", 9, 10)
INFERRED = 9
"""From this opset on, inference also sees wrong declarations of the original."""

TYPES_SINCE = {"FLOAT8E": 9, "INT4": 10, "FLOAT4E2M1": 11, "FLOAT8E8M0": 12, "INT2": 13}
"""The IR version that element types came with, by a part of their names."""

KINDS: tuple[Callable[[int], tuple[Any, ...]], ...] = (
    *[modern.draw] * 5,
    chains.draw,
    legacy.draw,
    downward.draw,
    learned.draw,
)


def draw(seed: int) -> Case:
    """Draw a model, its inputs, and its target."""
    rng = np.random.default_rng([seed, 29])
    model, feeds = KINDS[seed % len(KINDS)](seed)[:2]
    lowered = rng.random() < 0.8
    own = opset_of(model)
    target = int(rng.integers(LOWEST, own) if lowered and own > LOWEST else rng.integers(own, NEWEST + 1))
    ir_version = IR_VERSIONS[int(rng.integers(len(IR_VERSIONS)))]
    settings = rewriting.DEFAULTS["convert"] | {"target_opset": target, "ir_version": ir_version}
    if learned.is_learned(model):
        settings[upgrades.DRAWN] = True
        settings["ml_opset"] = (None, *range(1, 6))[int(rng.integers(6))]
    return Case(model.SerializeToString(), feeds=feeds, settings=settings)


def opset_of(model: onnx.ModelProto) -> int:
    """Return the opset of onnx's own operators, which a shrunk model need not state."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def judge(case: Case, folder: Path) -> Outcome:
    """Judge as mode ``upgrade``; then check that the result is legal and numerically equivalent at its old opset."""
    outcome = rewriting.judge("convert", case, folder)
    if outcome.error or outcome.refused:
        return outcome
    source, result = folder / "model.onnx", folder / "result.onnx"
    before = onnx.ModelProto.FromString(case.model)
    drawn = case.feeds if upgrades.DRAWN in case.settings else None
    if not result.is_file():  # no evaluation in float64
        source = case.lay_out(folder) if not source.is_file() else source
        if error := _converted(source, result, rewriting.options(dict(case.settings))):
            return Outcome("" if error == REFUSED else error, refused=error == REFUSED)
        with phases.theirs("onnxruntime"):
            error, compared = runtime.compare(source, result, drawn)
        outcome = replace(outcome, error=error, compared=outcome.compared or compared)
    error = outcome.error or _illegal(before, onnx.load(result), case) or _back(source, result, before, folder, drawn)
    return replace(outcome, error=error)


REFUSED = "refused"


def _converted(source: Path, result: Path, how: Options) -> str:
    """Convert, and return the finding; `REFUSED` if a node has no equivalent."""
    model = ir.load(source)
    try:
        passes.rewrite(model, how)
        ir.save(model, result)
    except Unsupported:  # an IR version that the types of the model do not allow, or no equivalent
        return REFUSED
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return watch.crash(crash)
    return ""


def _illegal(before: onnx.ModelProto, after: onnx.ModelProto, case: Case) -> str:
    """Find complaints of onnx about the result that the original does not have, and an IR version out of range."""
    target = case.settings["target_opset"]
    if case.settings["ir_version"] == "auto" and target < opset_of(before):
        expected = max(4, ir_version_of(target))
        if learned.is_learned(after):
            expected = max(expected, onnx.helper.find_min_ir_version_for([*after.opset_import]))
        expected = max(expected, _types_need(after.graph))
        if after.ir_version != expected:
            return f"illegal: IR version {after.ir_version} at opset {target}, not {expected}"
    if opset_of(before) < INFERRED or not promises.declares_truly(before):
        return ""
    with phases.theirs("onnx"):
        found = "" if _complaint(before) else _complaint(after)
    if found and _declares_its_outputs(before, case.feeds):
        return f"illegal: {found}"
    return ""


def _types_need(graph: onnx.GraphProto) -> int:
    """Return the IR version that the types of inputs, outputs and weights need, also of those that nothing reads."""
    infos = (*graph.input, *graph.output, *graph.value_info)
    numbers = [*(info.type.tensor_type.elem_type for info in infos), *(held.data_type for held in graph.initializer)]
    names = map(onnx.TensorProto.DataType.Name, numbers)
    return max((version for name in names for kind, version in TYPES_SINCE.items() if kind in name), default=0)


def _declares_its_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> bool:
    """Whether the outputs have the sizes that they are declared with, as far as they can be computed.

    Before opset 22, onnx infers a window of ceil_mode that begins in the padding. No evaluator computes it.
    """
    try:
        made = reference.evaluate(ir.load(model), feeds)
    except reference.Misfit:  # no node has such inputs, and inference may not see it: it does not follow every Shape
        return False
    except BnfoldError:
        return True
    return all(_is_of(info.type.tensor_type, made[info.name].shape) for info in model.graph.output)


def _is_of(kind: onnx.TypeProto.Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a shape is one that a type declares."""
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    is_rank = not kind.HasField("shape") or len(sizes) == len(shape)
    return is_rank and all(known in (None, size) for known, size in zip(sizes, shape, strict=False))


def _complaint(model: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # noqa: BLE001 - it raises what it likes
        return (str(error).splitlines() or ["no text"])[0]
    return ""


def _back(source: Path, result: Path, before: onnx.ModelProto, folder: Path, drawn: Mapping[str, Array] | None) -> str:
    """Convert back and return the finding: decomposed operators go up again."""
    again, own = folder / "again.onnx", opset_of(before)
    try:
        error = _converted(result, again, Options(fold=False, target_opset=own, max_growth=1 << 30))
    except BnfoldError as refusal:
        return f"back: {watch.crash(refusal)}"
    if error:
        return "" if error == REFUSED and own < opset_of(onnx.load(result)) else f"back: {error}"
    with phases.theirs("onnxruntime"):
        error, _ = runtime.compare(source, again, drawn)
    return f"back: {error}" if error else ""
