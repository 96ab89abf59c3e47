"""What onnx's shape inference has against a model that a rewrite cannot read."""

from __future__ import annotations

from collections.abc import Iterable

from bnfold import analysis, ir
from bnfold.errors import Unsupported
from bnfold.report.events import BatchNormEvent
from bnfold.report.reasons import Reason


def tell_contradictions(model: ir.Model, events: Iterable[BatchNormEvent]) -> None:
    """Say, where a rank is unknown, what shape inference has against the model: it may not run at all."""
    unknown = [event for event in events if event.reason is Reason.RANK_UNKNOWN]
    try:
        if unknown:
            analysis.infer_shapes(model.clone(), strict=True)
    except Unsupported as error:
        for event in unknown:
            event.detail += f"; {error}"
