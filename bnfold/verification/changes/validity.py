"""Whether onnx has something against the rewritten model that it does not have against the original."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnfold import ir
from bnfold.ir.checking import checker_error, inference_errors
from bnfold.ir.schemas import schema_of, version_at
from bnfold.verification.changes.interface import ill_typed


class NewError(NamedTuple):
    """What onnx says of the rewritten model only.

    ``is_certain``: it would have said it of the original. It says nothing about operators for which it has no rules.
    """

    text: str
    is_certain: bool


def new_error(before: ir.Model, after: ir.Model) -> NewError | None:
    """Return what onnx's rules for types, its checker or its strict inference say of ``after`` only.

    Types must be inferred.
    """
    if (error := ill_typed(after)) and not ill_typed(before):
        return NewError(error, is_certain=_is_inferred(before))
    if error := checker_error(after):
        own = checker_error(before, after.proto.ir_version)
        return NewError(error, is_certain=not own) if _outline(error) != _outline(own) else None
    errors = inference_errors(after)
    if not errors:
        return None
    known = inference_errors(before)
    fresh = [error for error in errors if _text(error) not in map(_text, known)]
    return NewError(fresh[0], is_certain=not known and _is_inferred(before)) if fresh else None


_OPSET = re.compile(r"domain_version of \d+")


def _outline(error: str) -> str:
    """Return an error without the opset, which a rewrite changes."""
    return _OPSET.sub("", error)


def _text(error: str) -> str:
    """Return an error without the operator and its name, which a rewrite changes."""
    return error.rpartition("): ")[2]


def _is_inferred(model: ir.Model) -> bool:
    """Whether onnx has inference for all operators: a model's faults behind one that it has none for do not show."""
    return all(map(_has_inference, model.nodes()))


def _has_inference(node: ir.Node) -> bool:
    version = None if node.domain else version_at(node.op_type, node.graph.opset())
    return version is not None and bool(schema_of(node.op_type, version).has_type_and_shape_inference_function)
