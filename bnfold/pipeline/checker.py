"""What onnx has against a model, by its checker and its shape inference, over a copy without the large weights."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.ir.storage import wire
from bnfold.ir.storage.payloads import TOKEN_LENGTH
from bnfold.ir.storage.skeleton import insert_payloads
from bnfold.report.events import BatchNormEvent
from bnfold.report.reasons import Reason

_NO_ELEMENTS = wire.record(1, bytes(1))
"""One more axis, of size 0, for tensors whose payload is elsewhere."""


def checker_error(model: ir.Model) -> str:
    """Return what the checker says of the model; empty when it is content."""
    model.sync()
    skeleton, nonce = model.proto.SerializeToString(), model.payloads.nonce
    outline = insert_payloads(skeleton, nonce, TOKEN_LENGTH, lambda *_: _NO_ELEMENTS)
    encoded = b"".join(outline)  # type: ignore[arg-type] # no references among them
    del skeleton, outline  # nothing twice in memory while the checker makes its own of it
    try:
        onnx.checker.check_model(encoded)
    except onnx.checker.ValidationError as error:
        return str(error).split("\n", 1)[0]
    except UnicodeDecodeError:
        return "a text in it is not UTF-8"  # which the checker quotes
    return ""


def tell_contradictions(model: ir.Model, events: Iterable[BatchNormEvent]) -> None:
    """Say, where a rank is unknown, what shape inference has against the model: it may not run at all."""
    unknown = [event for event in events if event.reason is Reason.RANK_UNKNOWN]
    try:
        if unknown:
            model.clone().infer_shapes(strict=True)
    except Unsupported as error:
        for event in unknown:
            event.detail += f"; {error}"
