"""Operators whose result jumps: a difference of one rounding in, a difference of any size out.

Models are compared at the *inputs* of such operators. From there the rewritten model is given the original's values, so
that both sides jump alike, and what follows is compared as if nothing had come before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from bnfold import ir
from bnfold.ir.elements import FLOATS
from bnfold.verification.tolerance.floats import is_float

_JUMPS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        [
            "QuantizeLinear",
            "DynamicQuantizeLinear",
            "ArgMax",
            "ArgMin",
            "TopK",
            "Round",
            "Floor",
            "Ceil",
            "Sign",
            "NonZero",
            "Unique",
            "Hardmax",
            "Shrink",
            "ThresholdedRelu",
            "OneHot",
            "IsInf",
            "Not",
            "Bernoulli",
            "Multinomial",
        ],
        (0,),
    ),
    **dict.fromkeys(["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "NonMaxSuppression", "Mod"], (0, 1)),
    **dict.fromkeys(["RoiAlign", "MaxRoiPool", "GridSample"], (1,)),
}


def is_discontinuous(op_type: str) -> bool:
    """Whether some node of this operator of the default domain is discontinuous in some input."""
    return op_type in _JUMPS or op_type in ("Cast", "CastLike", "MaxPool")


def jump_slots(node: ir.Node) -> tuple[int, ...]:
    """Return the input slots of ``node`` at which a tiny difference can become a large one."""
    if node.domain:
        return ()
    if node.is_op("Cast", "CastLike"):
        return () if not node.has_references and _cast_target(node) in FLOATS else (0,)
    if node.is_op("MaxPool") and node.output(1) is not None:
        return (0,)
    return _JUMPS.get(node.op_type, ())


def jump_elsewhere(before: ir.Model, after: ir.Model) -> bool:
    """Whether a jumping operator reads or makes a value that none does in the other model: it was moved, say."""
    known = (
        {
            (node.graph.path, *(value.name if value else "" for value in (*map(node.input, slots), *node.outputs)))
            for node in model.nodes()
            if (slots := jump_slots(node))
        }
        for model in (before, after)
    )
    return next(known) != next(known)


def jumps(before: ir.Model, after: ir.Model) -> tuple[list[str], list[str]]:
    """Return names of the values read by jumping operators of ``after``.

    Those that can be held to ``before``, and the others.

    Held can be what nodes of both main graphs make; bodies run where nobody sees their values.
    """
    common: dict[str, None] = {}
    alone: dict[str, None] = {}
    for value in _before_jumps(after):
        twin = before.graph.values.get(value.name)
        is_common = value.graph is after.graph and twin is not None and twin.producer is not None
        (common if is_common else alone)[value.name] = None
    return list(common), list(alone)


def _before_jumps(model: ir.Model) -> Iterator[ir.Value]:
    """Yield what jumping operators read, if a node makes it and it may be a float.

    Constants and inputs are alike anyway.
    """
    for node in model.nodes():
        for slot in jump_slots(node):
            value = node.input(slot)
            if value is None or value.producer is None or ir.constant(value) is not None:
                continue
            if value.dtype is None or is_float(value.dtype):
                yield value


def substitute(model: ir.Model, names: list[str]) -> tuple[ir.Model, dict[str, str]]:
    """Return a copy whose jumping operators read stand-ins for the values ``names``.

    And the stand-in of each, to be fed.
    """
    copy = model.clone()
    stand_ins = {name: _new_input(copy, f"{name}@before") for name in names}
    for node in copy.nodes():
        for slot in jump_slots(node):
            value = node.input(slot)
            if value is not None and value.graph is copy.graph and value.name in stand_ins:
                node.set_input(slot, stand_ins[value.name])
    return copy, {name: value.name for name, value in stand_ins.items()}


def _new_input(model: ir.Model, hint: str) -> ir.Value:
    """Add an input, listed in the message as well: copies of the model keep it, even if only a body reads it."""
    value = model.graph.fresh(hint)
    value.is_input = True
    model.graph.inputs.append(value)
    model.proto.graph.input.add(name=value.name)
    return value


def _cast_target(node: ir.Node) -> int:
    """Return the type cast to; a name up to version 5, a number since. What nothing tells is no jump."""
    if node.is_op("CastLike"):
        like = node.input(1)
        return (like.dtype if like is not None else None) or onnx.TensorProto.FLOAT
    target = node.attr("to", onnx.TensorProto.FLOAT)
    if isinstance(target, str):
        target = dict(onnx.TensorProto.DataType.items()).get(target, onnx.TensorProto.FLOAT)
    return int(target)
