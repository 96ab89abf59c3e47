"""The conversion of one model to the opset that is wanted, and what the report says of it."""

from __future__ import annotations

import onnx

from bnfold.errors import UpgradeBlocked
from bnfold.pipeline import clearing, lowest
from bnfold.pipeline.context import PassContext
from bnfold.semantics import batchnorm as batchnorm_semantics


def lowers(run: PassContext) -> bool:
    """Whether the opset is still to be lowered."""
    wanted, own = run.options.target_opset, run.model.opset("")
    return run.converted is None and (wanted == "lowest" or (isinstance(wanted, int) and wanted < own))


def convert(run: PassContext) -> None:
    """Convert the model to the opset that is wanted, and report what that did. Raises as `converting.convert`."""
    before = [*run.live().values()]
    target = _target(run)
    try:
        done = run.converted = clearing.convert(run, target)
    except UpgradeBlocked as blocked:
        if target is None or target >= run.model.opset(""):
            raise
        text = f"{blocked}; lowest opset for this model: {lowest.find_lowest(run, above=target)}"
        raise UpgradeBlocked(text, blocked.blockers, blocked.places) from blocked
    run.report.conversion = [row._asdict() for row in done.operators]
    run.report.repairs.extend(done.repairs)
    run.report.notes.extend([done.note] if done.note else [])
    run.report.add_cuts(cut for cut in done.cuts if run.report.means_the_same(*cut.inputs, *cut.outputs))
    run.report.notes.extend(
        f"{count} {operator} not converted: bnfold has no other version of this operator"
        for operator, count in done.passed.items()
    )
    if done.before == done.after and not (done.changes or done.repairs):
        return
    run.follow_replaced()
    run.forget_inlined()
    alive = set(run.live().values())
    for event in before:
        if event not in alive or event.version != batchnorm_semantics.version_at(done.after):
            event.verdict = "upgraded"


def _target(run: PassContext) -> int | None:
    """Return the opset to reach; None for the default: 15, or the opset of a newer model."""
    wanted = run.options.target_opset
    if wanted == "latest":
        return onnx.defs.onnx_opset_version()
    if wanted == "keep":
        return run.model.opset("")
    if wanted != "lowest":
        return wanted
    opset = lowest.find_lowest(run)
    run.report.lowest = {"opset": opset, "below": lowest.describe_below(run, opset)}
    return opset
