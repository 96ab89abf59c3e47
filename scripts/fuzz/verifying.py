"""Mode ``verify``: right rewrites must not be called failed, wrong ones must never be called verified.

The truth is the reference evaluator's result on numbers of this mode's own. Two models whose outputs differ by a tenth
of their scale are different there, whatever numbers verification drew. Verification samples too: it may miss a
difference that shows only on some numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference, verification
from bnfold.errors import BnfoldError
from bnfold.pipeline import passes
from bnfold.report.events import Report
from fuzz import condition, distance, learned, norms, phases, promises, refused, upgrades, watch, within, zeros
from fuzz import draw as chains
from fuzz.builder import Array
from fuzz.case import Case, Outcome
from fuzz.near_misses import near_miss
from fuzz.rewriting import options
from fuzz.sabotage import FAULTS

BUDGET, _EVALUATION = 15.0, 5.0
"""Seconds, fewer than a case may take: a fault may make a loop endless, which then runs until this limit."""

DIFFERENT = 0.1
REDRAWS = 8
DEPTHS = ("auto", "full", "local")


def _zeros(seed: int) -> tuple[Any, ...]:
    """Draw zeros that operators make, behind inputs of known rank: else parts alone are compared, which miss signs."""
    model, feeds = zeros.draw(seed, are_fed=False)
    for info in model.graph.input:
        kind = info.type.tensor_type
        if not kind.HasField("shape"):
            info.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind.elem_type, [None] * feeds[info.name].ndim))
    return model, feeds


DRAWS = (chains.draw, chains.draw, upgrades.draw, norms.draw, chains.alone, _zeros, learned.draw)


def draw(seed: int) -> Case:
    """Draw a model, a rewrite, a fault, and the options of verification."""
    if seed % 10 == 9:
        return within.draw(seed)
    rng = np.random.default_rng([seed, 1])
    entry = DRAWS[int(rng.integers(len(DRAWS)))]
    model, feeds, *drawn = entry(seed)
    rewrite = drawn[0] if drawn else {"target_opset": "keep" if rng.random() < 0.5 else None, "all_affines": True}
    settings = {
        "rewrite": rewrite,
        "fault": int(rng.integers(1 << 30)) if rng.random() < 0.75 else None,
        "near": bool(rng.random() < 0.4),
        "depth": DEPTHS[int(rng.integers(2 if entry is _zeros else 3))],  # local misses them: docs/verification.md
        "cuts": bool(rng.random() < 0.6),
        "witness": "onnxruntime" if rng.random() < 0.03 else "none",
        "seed": int(rng.integers(1000)),
    }
    if seed % 10 == 4:
        settings |= {"refused": True, "fault": seed, "witness": ("onnxruntime", "none")[seed // 10 % 2]}
    return Case(model.SerializeToString(), feeds=feeds, settings=settings)


def judge(case: Case, folder: Path) -> Outcome:
    """Rewrite, insert the fault if there is one, and compare verification's verdict with the truth."""
    if within.WITHIN in case.settings:
        return within.judge(case, folder)
    settings, before = dict(case.settings), case.lay_out(folder)
    rewrite = options(settings["rewrite"])
    try:
        model = ir.load(before)
        report = passes.rewrite(model, replace(rewrite, all_affines=rewrite.fold, merge_branches=rewrite.fold))
        right = onnx.ModelProto.FromString(ir.encode(model))
    except BnfoldError as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    after = _broken(right, settings)
    is_narrower = promises.are_narrower(right, after)
    (folder / "after.onnx").write_bytes(after.SerializeToString())
    feeds = {name: array for name, array in case.feeds.items() if name not in report.frozen}
    original = onnx.load(before, load_external_data=False)
    # Operators of new opsets cannot read in a runtime what is declared without elements.
    declared = _are_declared(original, feeds) and (settings["witness"] == "none" or promises.declares_truly(original))
    truth = _truth(before, folder / "after.onnx", feeds) if declared else "unclear"
    try:
        with phases.theirs("onnxruntime") if settings["witness"] != "none" else _no_runtime():
            verdict = _verify((before, folder / "after.onnx"), report, settings)
    except BnfoldError as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    if is_narrower:
        truth = "different"
    elif truth == "different" and verdict.status == "verified":
        truth = _excused(before, folder / "after.onnx", feeds)
    error = _finding(truth, verdict, broken=settings["fault"] is not None)
    if error and truth == "same" and verdict.decided_by == settings["depth"] == "local":
        # A part alone may get sizes that it never has in the model: docs/verification.md.
        whole = _verify((before, folder / "after.onnx"), report, settings | {"depth": "full"})
        error = error if whole.status == "failed" else ""
    return Outcome(
        error or refused.finding(before, folder / "after.onnx", feeds, verdict, settings),
        f"{truth} {verdict.status} {verdict.decided_by} {watch.kind(verdict.reason)[:40]}",
        compared=verdict.status != "unverified",
    )


def _broken(right: onnx.ModelProto, settings: dict[str, Any]) -> onnx.ModelProto:
    """Return a copy of the model, with a fault in it if one is set."""
    after = onnx.ModelProto()
    after.CopyFrom(right)
    if settings["fault"] is not None:
        rng = np.random.default_rng(settings["fault"])
        if settings.get("refused"):
            refused.refuse(after, rng)
        elif not settings.get("near") or near_miss(after, rng) is None:
            FAULTS[int(rng.integers(len(FAULTS)))](after, rng)
    return after


def _no_runtime() -> Any:
    import contextlib

    return contextlib.nullcontext()


def _verify(models: tuple[Path, Path], report: Report, settings: dict[str, Any]) -> verification.Verdict:
    return verification.verify(
        *models,
        cuts=report.cuts if settings["cuts"] else (),
        frozen=bool(report.frozen),
        depth=settings["depth"],
        runtime=settings["witness"],
        seed=settings["seed"],
        budget_seconds=BUDGET,
    )


def _finding(truth: str, verdict: verification.Verdict, *, broken: bool) -> str:
    if truth == "different" and verdict.status == "verified":
        return f"missed: models that differ were called verified ({verdict.decided_by}: {verdict.reason})"
    if truth == "same" and not broken and verdict.status == "failed":
        return f"accused: a right rewrite was called failed ({verdict.decided_by}: {verdict.reason})"
    return ""


def _truth(before: Path, after: Path, feeds: Any) -> str:
    """Return ``same``, ``different``, or ``unclear``."""
    try:
        expected = reference.evaluate(ir.load(before), feeds)
    except BnfoldError:
        return "unclear"
    try:
        found = reference.evaluate(ir.load(after), feeds, limit_seconds=_EVALUATION)
    except reference.Misfit:
        return "different"
    except BnfoldError:
        return "unclear"
    except Exception:  # noqa: BLE001 - a broken model may break the evaluator's kernels: not this mode's subject
        return "unclear"
    errors = [distance.relative(array, found[name]) for name, array in expected.items()]
    if not errors:
        return "unclear"
    return "different" if max(errors) > DIFFERENT else "same" if max(errors) < 1e-4 else "unclear"


def _excused(before: Path, after: Path, feeds: Any) -> str:
    """Return the same truth, or an excuse for missing the difference."""
    if condition.is_roundoff(before, after, feeds):
        return "roundoff"
    return "rarely different" if _is_rare(before, after, feeds) else "different"


def _is_rare(before: Path, after: Path, feeds: Any) -> bool:
    """Whether the difference vanishes when inputs are reordered, more often than once."""
    truths = [_truth(before, after, _shuffled(feeds, seed)) for seed in range(REDRAWS)]
    return truths.count("different") < REDRAWS - 1


def _shuffled(feeds: Any, seed: int) -> dict[str, Array]:
    """Reorder floats; integers may be places or sizes, and stay."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.permutation(array.reshape(-1)).reshape(array.shape) if array.dtype.kind == "f" else array
        for name, array in feeds.items()
    }


def _are_declared(model: onnx.ModelProto, feeds: Any) -> bool:
    """Whether the inputs have the model's declared shapes; shrinking a case may have changed them."""
    for value in model.graph.input:
        kind = value.type.tensor_type
        if value.name in feeds and kind.HasField("shape"):
            dims = [dim.dim_value or None for dim in kind.shape.dim]
            shape = np.shape(feeds[value.name])
            if len(dims) != len(shape) or any(dim not in (None, size) for dim, size in zip(dims, shape, strict=True)):
                return False
    return True
