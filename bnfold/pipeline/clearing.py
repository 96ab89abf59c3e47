"""A conversion to another opset: what is in its way is rewritten, if that takes it out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from bnfold import converting, ir
from bnfold.errors import ConversionBlocked
from bnfold.pipeline.context import NodeKey, PassContext

if TYPE_CHECKING:
    from bnfold.converting.model import Converted
    from bnfold.report.events import BatchNormEvent
    from bnfold.simplifying.driver import Simplified


def convert(run: PassContext, target: int | None) -> Converted:
    """Convert the model. Nodes that are in the way are rewritten, until none is or no rewrite changes anything more.

    Raises as `converting.convert`; the model is then as it was before the last attempt.
    """
    options = run.options
    while True:
        restore = run.model.restorable()
        try:
            return converting.convert(
                run.model,
                target,
                policy=options.policy,
                ir_version=options.ir_version,
                ml_opset=options.ml_opset,
                domain_opsets=options.domain_opsets,
            )
        except ConversionBlocked as blocked:
            restore()
            if not _clear(run, blocked.places):
                raise


def _clear(run: PassContext, places: Collection[NodeKey]) -> bool:
    """Rewrite the nodes at these places, and store for them what is computed of constants; whether anything changed."""
    from bnfold import simplifying

    live = run.live()
    with run.simplifying() as most:
        done = simplifying.clear(run.model, run.report, places, disabled=run.options.disable, most=most)
    follow(run, live, done)
    return done.has_changed


def follow(run: PassContext, live: Mapping[ir.Node, BatchNormEvent], done: Simplified) -> None:
    """Let the IR version and the events of BatchNormalizations follow what simplifying did."""
    if done.has_stored:
        converting.leave_old_ir(run.model)
    run.follow_moved(live, done.moved)
