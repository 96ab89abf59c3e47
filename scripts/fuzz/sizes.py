"""Mode ``sizes``: fixed input sizes that often do not fit, judged by onnxruntime alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bnfold.errors import BadInput, BnfoldError
from bnfold.pipeline import job
from bnfold.settings import Options, OutputOptions, VerifyOptions
from fuzz import draw as chains
from fuzz import feeding, modern, norms, phases, runtime, stacks, upgrades, watch
from fuzz.case import Case, Outcome

KINDS: tuple[Callable[[int], tuple[Any, ...]], ...] = (
    *[modern.draw] * 3,
    chains.draw,
    stacks.draw,
    norms.draw,
    upgrades.draw,
)
FEEDS = 3
"""Inputs of the fixed sizes that onnxruntime is given: numbers alone may decide."""

REFUSED = "the model cannot run at"


def draw(seed: int) -> Case:
    """Draw a model whose sizes are all open, and sizes for it: up to two are not those that it was drawn with."""
    rng = np.random.default_rng([seed, 31])
    model, feeds = KINDS[seed % len(KINDS)](seed)[:2]
    model = _opened(model, feeds)
    stored = {tensor.name for tensor in model.graph.initializer}
    feeds = {name: array for name, array in feeds.items() if name not in stored}
    shapes = {name: [*array.shape] for name, array in feeds.items()}
    places = [place for found in feeding.open_dims(model, feeds).values() for place in found]
    for _ in range(int(rng.integers(0, 3)) if places else 0):
        name, axis = places[int(rng.integers(len(places)))]
        size = shapes[name][axis]
        shapes[name][axis] = int(rng.choice([1, 2, max(size - 1, 1), size + 1, 2 * size + (not size)]))
    fixed = {name: shape for name, shape in shapes.items() if shape and all(shape)}
    return Case(model.SerializeToString(), feeds=feeds, settings={"fix_shapes": fixed})


def _opened(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a copy without declared sizes: what follows from them is not declared either."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim if info.name in feeds else ()):
            dim.dim_param = f"{info.name}_{axis}"
    for info in copy.graph.output:
        info.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    return copy


def judge(case: Case, folder: Path) -> Outcome:
    """Judge a refusal of what onnxruntime runs, and a written result that does not run there, as findings."""
    source, result = case.lay_out(folder), folder / "result.onnx"
    shapes = dict(case.settings["fix_shapes"])
    with phases.theirs("onnxruntime"):
        original = runtime.opened(source)
        if not shapes or original is None or not runtime.runs(original, dict(case.feeds)):
            return Outcome()
        drawn = [feeding.numbers(case.feeds, np.random.default_rng(seed), shapes) for seed in range(FEEDS)]
        drawn += feeding.turned(drawn[0])  # a branch that does not fit may be left out
        fitting = [feeds for feeds in drawn if runtime.runs(original, dict(feeds))]
    options = Options(target_opset="keep", fix_shapes=shapes, overridable="keep")
    try:
        outcome = job.process(source, OutputOptions(path=result), options, VerifyOptions(depth="none"))
    except BadInput as refusal:
        is_wrong = fitting or REFUSED not in str(refusal)
        return Outcome(f"refused: {refusal}" if is_wrong else "", "refused", refused=True, compared=True)
    except BnfoldError as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    told = "noted" if any("fixed sizes" in note for note in outcome.report.notes) else "written"
    with phases.theirs("onnxruntime"):
        return Outcome(_fault(case, result, fitting, drawn), told, compared=True)


def _fault(case: Case, result: Path, fitting: Sequence[feeding.Feeds], drawn: Sequence[feeding.Feeds]) -> str:
    """Return why a written result is a finding; empty if onnxruntime runs it. Kernels of its opset may be missing."""
    written = runtime.opened(result)
    if written is None:
        return "" if fitting else "sizes: onnxruntime does not load what was written"
    if runtime.disputes_empty(onnx.ModelProto.FromString(case.model)):
        return ""
    does_run = any(runtime.runs(written, dict(feeds)) for feeds in fitting or drawn)
    return "" if does_run else "sizes: onnxruntime does not run what was written"
