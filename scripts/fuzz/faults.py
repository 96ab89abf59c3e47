"""Mode ``faults``: a change that onnxruntime sees must never be called verified, a right rewrite never failed.

The case holds both models, so that a replay needs none of the tools that made them.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _bench.peers import PEERS
from _upgrade.running import attempt

from bnfold import ir, verification
from bnfold.diffing import diff
from bnfold.errors import BnfoldError
from bnfold.pipeline import passes
from fuzz import boxes, condition, detours, norms, phases, promises, runtime, showing, upgrades, watch
from fuzz import draw as chains
from fuzz.case import Case, Outcome
from fuzz.near_misses import near_miss
from fuzz.parts import graphs, nodes
from fuzz.rewriting import options
from fuzz.sabotage import ALL
from fuzz.verifying import BUDGET

AFTER = "after.onnx"
DEPTHS = ("auto", "full", "local")
DRAWS = (
    (lambda seed: chains.draw(seed, onnx.TensorProto.FLOAT),) * 3 + (upgrades.draw, norms.draw) + (chains.alone,) * 2
)
WAYS = (
    {"target_opset": "keep", "all_affines": True}, {"target_opset": None}, {"target_opset": 21, "fold": False},
    {"target_opset": "keep", "decompose": "all", "fold": False}, {"target_opset": None, "decompose": "remaining"},
)  # fmt: skip
TOOLS = [name for name in ("onnxscript", "onnxsim", "onnxslim", "onnxoptimizer") if importlib.util.find_spec(name)]


def draw(seed: int) -> Case:
    """Draw a model, and beside it a change or a rewrite of it, right or broken afterwards."""
    rng = np.random.default_rng([seed, 3])
    model, feeds, *_ = DRAWS[int(rng.integers(len(DRAWS)))](seed)
    after, by, right = model.SerializeToString(), "", rng.random() < 0.2
    if right and rng.random() < 0.4:
        if rng.random() < 0.3:
            model, feeds = boxes.draw(rng)
            after = model.SerializeToString()
        model, by = detours.lengthened(model, rng)
    elif right or rng.random() < 0.3:
        after, by = _rewritten(model, rng)
    if rng.random() < 0.3:
        after = renamed(after)
    if not right:
        after, by = _broken(after, rng)
    return Case(
        model.SerializeToString(), {AFTER: after}, feeds=feeds, settings={"by": by, "right": right, "seed": seed}
    )


def _rewritten(model: onnx.ModelProto, rng: np.random.Generator) -> tuple[bytes, str]:
    """Rewrite the model with bnfold or another tool; return it, the model itself if the tool refuses, and the tool."""
    by = str(rng.choice(["bnfold", "bnfold", *TOOLS, "onnxruntime"]))
    with tempfile.TemporaryDirectory() as folder, phases.theirs(by):
        source, out = Path(folder) / "model.onnx", Path(folder) / "out.onnx"
        source.write_bytes(model.SerializeToString())
        try:
            if by != "bnfold":
                PEERS[by](str(source), str(out))
                return _legal(model, onnx.load(out)), by
            opened = ir.load(source)
            passes.rewrite(opened, options(WAYS[int(rng.integers(len(WAYS)))]))
            return ir.encode(opened), by
        except Exception:  # noqa: BLE001 - other modes ask what is raised
            return model.SerializeToString(), "nobody"


def _legal(model: onnx.ModelProto, result: onnx.ModelProto) -> bytes:
    """Return a tool's result. Raises ValidationError if onnx's checker takes the original, and not the result.

    onnxruntime writes weights that are no inputs, which IR version 3 does not know, under the original's version.
    """
    result.ir_version = max(result.ir_version, 4)
    if not isinstance(attempt(lambda: onnx.checker.check_model(model)), Exception):
        onnx.checker.check_model(result)
    return bytes(result.SerializeToString())


def renamed(right: bytes) -> bytes:
    """Rename everything but inputs and outputs, as do tools that write a model anew."""
    model = onnx.ModelProto.FromString(right)
    graph = model.graph
    made = {name for node in graph.node for name in node.output} | {tensor.name for tensor in graph.initializer}
    new = {name: f"new {name}" for name in made - {"", *(info.name for info in (*graph.input, *graph.output))}}
    notes = [info for each in graphs(model) for info in each.value_info]
    for named in (*graph.initializer, *notes):
        named.name = new.get(named.name, named.name)
    for node in nodes(model):
        for names in (node.input, node.output):
            names[:] = [new.get(name, name) for name in names]
    return bytes(model.SerializeToString())


def _broken(right: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Make one change, and return its name; a change without an effect is drawn again."""
    for _ in range(20):
        model = onnx.ModelProto.FromString(right)
        if rng.random() < 0.4:
            fault = near_miss(model, rng)
        else:
            fault = ALL[int(rng.integers(len(ALL)))]
            fault(model, rng)
        if fault is not None and (after := model.SerializeToString()) != right:
            return after, fault.__name__
    return right, "nothing"


def judge(case: Case, folder: Path) -> Outcome:
    """Compare onnxruntime's judgement of the two models with verification at every depth."""
    before, after, settings = case.lay_out(folder), folder / AFTER, case.settings
    if not after.is_file():
        return Outcome()
    with phases.theirs("onnxruntime"):
        truth = showing.truth(before, after, case.feeds)
        if truth == "same" and not _keeps_its_promises(before, case):
            truth = "unclear"
    kind = "right" if settings["right"] else "fault"
    tally, error = [f"{kind} {truth}"], _unseen(truth, before, after)
    for depth in DEPTHS:
        phases.own()
        try:
            verdict = _verify(before, after, depth, settings["seed"])
        except BnfoldError:
            tally.append(f"{kind} {truth} {depth} refused")
            continue
        except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
            return Outcome(watch.crash(crash))
        tally.append(f"{kind} {truth} {depth} {verdict.status}")
        error = error or _finding(case, truth, depth, verdict, (before, after))
    return Outcome(error, f"{settings['by']} {' '.join(tally)}", compared=truth != "unclear", tally=tally)


def _keeps_its_promises(model: Path, case: Case) -> bool:
    """Whether onnxruntime gives the outputs their declared shapes: what a rewrite states of others may contradict."""
    results = attempt(lambda: runtime.session(model).run(None, dict(case.feeds)))
    return isinstance(results, Exception) or promises.keeps(onnx.load(model), results)


def _unseen(truth: showing.Truth, before: Path, after: Path) -> str:
    """Whether the list of differences is empty although there are some."""
    if truth not in ("shows", "interface"):
        return ""
    try:
        document = diff(ir.load(before), ir.load(after), values=False)
    except BnfoldError:
        return ""
    return f"unseen: diff finds nothing, {truth}" if document["equal"] else ""


def _verify(before: Path, after: Path, depth: Any, seed: int, runtime: Any = "none") -> verification.Verdict:
    return verification.verify(before, after, depth=depth, seed=seed, runtime=runtime, budget_seconds=BUDGET)


def _finding(
    case: Case, truth: showing.Truth, depth: str, verdict: verification.Verdict, models: tuple[Path, Path]
) -> str:
    by, right = case.settings["by"], case.settings["right"]
    said = f"by {depth}, {by} {truth}, {verdict.decided_by}: {verdict.reason}"
    if right and (truth, verdict.status) == ("same", "failed"):
        promises = by != "bnfold" and verdict.decided_by == "interface"  # a shape that other tools declare wrongly
        # Of the sine of 10¹² times a value, rounding leaves nothing.
        return "" if promises or condition.is_roundoff(*models, case.feeds) else f"accused {said}"
    if truth in ("same", "unclear") or verdict.status != "verified" or condition.is_roundoff(*models, case.feeds):
        return ""
    if truth == "does not run":  # the default runtime decides whether a runtime accepts the result
        with phases.theirs("onnxruntime"):
            if not _verify(*models, depth, case.settings["seed"], "onnxruntime").verified:
                return ""
    return f"missed {said}"
