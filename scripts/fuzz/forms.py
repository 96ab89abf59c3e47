"""Files whose nodes have the form of another version of their operator than the declared one.

A model is drawn in the form of one opset, and declares another one. Its results are those of its own form: every node
that fits the declared version too means the same there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from bnfold import ir, reference, verification
from bnfold.errors import BnfoldError, ConversionBlocked
from bnfold.pipeline import passes
from bnfold.settings import Options
from fuzz import distance, legacy, watch
from fuzz import legacy_operators as table
from fuzz.builder import Array, Builder, Drawn
from fuzz.case import Case, Outcome
from fuzz.operators import Draw

WRITTEN = "written"
"""The setting with the opset that the nodes are written for."""
EARLIER, LATER = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12), (7, 10, 11, 13)
CLOSE = 2e-3


def cast(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Cast to integers, and perhaps back; versions up to 5 have the type as text."""
    made = b.node("Cast", [x.name], to="INT32" if b.opset < 6 else TensorProto.INT32)
    if b.chance(0.3):
        return made
    return b.node("Cast", [made[0].name], to="FLOAT" if b.opset < 6 else TensorProto.FLOAT)


def product(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Gemm whose last operand broadcasts."""
    if x.rank != 2:
        return None
    wide: dict[str, Any] = {"broadcast": 1} if b.opset < 7 else {}
    shape = b.pick([[3], [1, 3], [1], [x.shape[0], 3]])
    return b.node("Gemm", [x.name, b.weight(b.numbers([x.shape[1], 3])), b.weight(b.numbers(shape))], **wide)


def tile(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Tile: the first version repeats along one axis that is an input, the others along all."""
    axis = int(b.rng.integers(x.rank))
    if b.opset < 6:
        return b.node("Tile", [x.name, b.integers([2]), b.integers([axis])])
    return b.node("Tile", [x.name, b.integers([1 + (place == axis) for place in range(x.rank)])])


ENTRIES: Sequence[Draw] = (
    *[cast] * 2, *[product] * 2, *[tile] * 2, *[table.enlarge] * 3, *[table.broadcast] * 2, table.batchnorm, table.clip,
    table.dropout, table.layout, table.pad, table.reduce, table.split, table.top, table.unary, table.window,
)  # fmt: skip
AMBIGUOUS = {True: {"PRelu", "Resize"}, False: {"PRelu", "Resize", "BatchNormalization", "Dropout"}}
"""Nodes that may fit the declared version too with another meaning, by whether that version is the later one."""


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Any]]:
    """Draw a model, its inputs, the opset that it is written for, and the upgrade's target."""
    rng = np.random.default_rng([seed, 11])
    earlier = bool(rng.random() < 0.75)
    written = int(rng.choice(EARLIER if earlier else LATER))
    others = range(written + 1, 16) if earlier else range(1, written)
    declared = int(rng.choice(others))
    b = legacy.Legacy(rng, opset=written, dtype=TensorProto.FLOAT)
    shape = tuple(int(size) for size in rng.choice((2, 3, 4, 5, 6), int(rng.choice([2, 2, 3, 4, 4])), replace=False))
    b.inputs.append(Drawn(b.fresh("x"), b.dtype, shape))
    b.values.append(b.inputs[0])
    for _ in range(int(rng.integers(1, 4))):
        kept = b.size
        legacy.grow(b, ENTRIES)
        if AMBIGUOUS[earlier].intersection(node.op_type for node in b.nodes[kept[0] :]):
            b.cut(kept)
    model = legacy.finished(b)
    model.opset_import[0].version = declared
    feeds = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in b.inputs} | b.fed
    targets = [target for target in (13, 15, 18, 21, 25) if target >= max(declared, written)]
    return model, feeds, {"target_opset": int(rng.choice(targets)), WRITTEN: written}


def judge(case: Case, folder: Path, options: Options) -> Outcome:
    """Upgrade; the result, the reference evaluator and verification have to agree with the model as it is written."""
    source, result = case.lay_out(folder), folder / "result.onnx"
    written = onnx.ModelProto.FromString(case.model)
    declared = written.opset_import[0].version
    written.opset_import[0].version = case.settings[WRITTEN]
    try:
        expected = reference.evaluate(ir.load(written), case.feeds)
    except BnfoldError:
        return Outcome()
    try:
        model = ir.load(source)
        report = passes.rewrite(model, options)
        ir.save(model, result)
        verdict = verification.verify(source, result, frozen=bool(report.frozen), runtime="none")
        before, after = (_evaluated(path, case.feeds) for path in (source, result))
    except ConversionBlocked as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    error = _finding(expected, before, after, verdict)
    kinds = sorted({repair.kind for repair in report.repairs})
    forms = f"{case.settings[WRITTEN]} in {declared}: {' '.join(kinds)} {verdict.status}"
    return Outcome(error, forms, compared=isinstance(after, dict))


def _evaluated(path: Path, feeds: Any) -> dict[str, Array] | str:
    """Evaluate a model whose nodes may have another form; return the results, or the reason why there are none."""
    try:
        return reference.evaluate(ir.load(path), feeds, later=True)
    except BnfoldError as error:
        return str(error)


def _finding(
    expected: dict[str, Array], before: dict[str, Array] | str, after: dict[str, Array] | str,
    verdict: verification.Verdict,
) -> str:  # fmt: skip
    if isinstance(after, str):
        return f"missed: verified, and yet {after}" if verdict.verified else ""
    if _differ(expected, after):
        return f"form: the result computes something else ({verdict.status})"
    if isinstance(before, str):
        return f"form: the upgrade reads it and the referee does not: {before}"
    if _differ(expected, before):
        return "form: the referee computes something else"
    return f"accused: {verdict.reason}" if verdict.status == "failed" else ""


def _differ(expected: dict[str, Array], found: dict[str, Array]) -> bool:
    return any(distance.relative(array, found[name], at_least=1.0) > CLOSE for name, array in expected.items())
