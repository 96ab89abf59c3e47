"""What onnx has against a model, by its checker and its strict inference, over copies without the large weights."""

from __future__ import annotations

import re

import onnx

from bnfold.ir.inferable import GIVES_UP, inference_input
from bnfold.ir.model import Model
from bnfold.ir.shown import shown_to_onnx
from bnfold.ir.storage import wire
from bnfold.ir.storage.payloads import TOKEN_LENGTH
from bnfold.ir.storage.skeleton import insert_payloads

_NO_ELEMENTS = wire.record(1, bytes(1))
"""One more axis, of size 0, for tensors whose payload is elsewhere."""

_HEADING = re.compile(r"^\[(?:Shape|Type)InferenceError\] (?:Inference error\(s\): )?")


def checker_error(model: Model, ir_version: int | None = None) -> str:
    """Return what the checker says of the model, by the rules of an IR version; empty when it is content."""
    model.sync()
    if ir_version not in (None, model.proto.ir_version):
        model = model.clone()
        model.proto.ir_version = ir_version
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


def inference_errors(model: Model) -> list[str]:
    """Return what strict inference of types and shapes says of the model, a line a node; empty when it is content."""
    proto = inference_input(model)
    if proto is None:
        return []
    try:
        with shown_to_onnx(proto):
            onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    except GIVES_UP as error:
        return [line for line in _HEADING.sub("", str(error)).split("\n") if line.strip()]
    return []
