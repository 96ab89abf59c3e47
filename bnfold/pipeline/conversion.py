"""The conversion of one model to the opset that is wanted, and what the report says of it."""

from __future__ import annotations

from bnfold import converting
from bnfold.errors import ConversionBlocked
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
    except ConversionBlocked as blocked:
        if target == run.model.opset(""):  # it is another domain that has to be converted
            raise
        step = lowest.next_step(run, target if target is not None else converting.DEFAULT_TARGET)
        raise ConversionBlocked(f"{blocked}; {step}", blocked.blockers, blocked.places) from blocked
    run.report.conversion = [row._asdict() for row in done.operators]
    run.report.repairs.extend(done.repairs)
    run.report.notes.extend([done.note] if done.note else [])
    run.report.add_cuts(cut for cut in done.cuts if run.report.means_the_same(*cut.inputs, *cut.outputs))
    run.report.notes.extend(
        f"{count} {operator} not converted: bnfold has no other version of this operator"
        for operator, count in done.passed.items()
        if done.before != done.after
        and operator.startswith("ai.onnx::")  # domains of their own have versions of theirs
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
        from bnfold.pipeline.newest import newest_loaded

        return max(newest_loaded(), run.model.opset(""))
    if wanted == "keep":
        return run.model.opset("")
    if wanted != "lowest":
        return wanted
    opset = lowest.find_lowest(run)
    run.report.lowest = {"opset": opset, "below": lowest.describe_below(run, opset)}
    return opset
