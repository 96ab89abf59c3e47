"""Whether two models can be called alike: the same inputs to feed, the same outputs, in name, order, type and shape."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.ir.elements import type_name
from bnfold.verification.inputs import required


def interface_fault(before: ir.Model, after: ir.Model) -> str:
    """One sentence that says where the interfaces differ; empty when they do not."""
    return _fault("input", required(before), required(after)) or _fault(
        "output", before.graph.outputs, after.graph.outputs
    )


def _fault(kind: str, before: Sequence[ir.Value], after: Sequence[ir.Value]) -> str:
    old, new = [value.name for value in before], [value.name for value in after]
    missing = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    if missing or added:
        parts = [f"{kind}s {missing} are gone"] if missing else []
        parts += [f"{kind}s {added} are new"] if added else []
        return f"the two models have different {kind}s: {', '.join(parts)}"
    if kind == "output" and old != new:
        return f"the outputs are in another order: {old} became {new}"
    by_name = {value.name: value for value in after}
    return next((fault for value in before if (fault := _type_fault(kind, value, by_name[value.name]))), "")


def _type_fault(kind: str, old: ir.Value, new: ir.Value) -> str:
    if old.dtype and new.dtype and old.dtype != new.dtype:
        return f"{kind} {old.name!r} was of type {type_name(old.dtype)} and is of type {type_name(new.dtype)}"
    if old.shape is None or new.shape is None:
        return ""
    clash = len(old.shape) != len(new.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a > 0 and b > 0 and a != b
        for a, b in zip(old.shape, new.shape, strict=True)
    )
    return f"{kind} {old.name!r} had the shape {list(old.shape)} and has the shape {list(new.shape)}" if clash else ""
