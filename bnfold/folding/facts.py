"""What handlers ask about a node: its operands, weights, element types and integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bnfold import analysis, ir
from bnfold.analysis.traits import MOVING
from bnfold.errors import MistypedAttribute, ReferenceAttribute
from bnfold.folding import shapes
from bnfold.ir.tensor import FLOATS, TP
from bnfold.report.reasons import Declined, Reason

MISFIT: tuple[type[Exception], ...] = (ValueError, LookupError, ArithmeticError)
"""What numpy raises where the arrays of a damaged model do not fit: no runtime could run such a node either. Tests over
legal models take it away, so that a handler's own fault is not mistaken for one of the model."""

P = ParamSpec("P")
T = TypeVar("T")


def guarded(node: ir.Node, solve: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Return the result of a call that reads ``node``. Raises Declined, also where the node is damaged."""
    try:
        return solve(*arguments, **keywords)
    except ReferenceAttribute as error:
        mistyped = isinstance(error, MistypedAttribute)
        raise Declined(Reason.UNREADABLE if mistyped else Reason.REFERENCE_ATTRIBUTE, str(error)) from error
    except MISFIT as error:
        raise Declined(Reason.UNREADABLE, f"{where(node)}: {error}") from error


def operand(node: ir.Node, slot: int) -> ir.Value:
    """Return what a node reads at ``slot``. Raises Declined where there is nothing."""
    value = node.input(slot)
    if value is None:
        raise Declined(Reason.UNREADABLE, f"{where(node)} lacks input {slot}")
    return value


def static_size(node: ir.Node, slot: int, axis: int) -> int:
    """Return the size along ``axis`` of what a node reads at ``slot``. Raises Declined where it is not known."""
    found = shapes.size(operand(node, slot), axis)
    if not isinstance(found, int):
        raise Declined(Reason.NOT_STATIC, f"the size of input {slot} of {where(node)}")
    return found


def weight(node: ir.Node, slot: int) -> ir.Tensor:
    """Return the constant float tensor that ``node`` reads at ``slot``. Raises Declined for anything else."""
    value = node.input(slot)
    tensor = analysis.constant(value)
    if tensor is None:
        made = made_of_constants(value) if value is not None else ""
        raise Declined(Reason.DYNAMIC_WEIGHT, f"input {slot} of {where(node)}{made}")
    if tensor.dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"input {slot} of {where(node)} is not a float tensor")
    return tensor


def made_of_constants(value: ir.Value) -> str:
    """Return what a refusal adds where nodes that are not evaluated compute a value of constants."""
    producer = value.producer
    return (
        f", which {where(producer)} makes of constants"
        if producer is not None and analysis.is_made_of_constants(value)
        else ""
    )


def is_quantized(value: ir.Value | None) -> bool:
    """Whether a weight is stored in a smaller type: behind a DequantizeLinear, or a Cast to a wider one.

    Behind either, there may be what moves its elements, or puts several together.
    """
    for node in value.producers() if value is not None else ():
        if not (node.has_trait(MOVING) or node.is_op("Identity", "Cast")):
            return node.is_op("DequantizeLinear")
        source, made = (
            analysis.constant(side) if node.is_op("Cast") else None for side in (node.input(0), node.output(0))
        )
        if source is not None and made is not None and source.nbytes < made.nbytes:
            return True
    return False


def float_type(value: ir.Value | None) -> int:
    """Return the float type of a value. Raises Declined where it is not known, or is no float type."""
    if value is None:
        raise Declined(Reason.UNREADABLE)
    if value.dtype is None:
        shapes.learn_types(value.graph.model)
    dtype = value.dtype
    if dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"the element type of value {value.name!r}")
    return dtype


def is_half(value: ir.Value | None) -> bool:
    """Whether a value is of float16, whose range is narrow. Raises Declined where its type is not known."""
    return float_type(value) == TP.FLOAT16


def integers(node: ir.Node, slot: int, attribute: str = "") -> list[int] | None:
    """Return integers from an attribute of older versions or from a constant input; None where there are neither.

    Raises Declined where they are computed.
    """
    if attribute and node.has_attr(attribute):
        return [int(number) for number in node.attr(attribute)]
    value = node.input(slot)
    if value is None:
        return None
    held = analysis.constant(value)
    if held is None:
        raise Declined(Reason.NOT_STATIC, f"input {slot} of {node.op_type} {node.label!r} is computed")
    return [int(number) for number in held.numpy().reshape(-1)]


def where(node: ir.Node) -> str:
    """Say how a refusal names a node."""
    return f"{node.op_type} {node.label!r}"


def only_output(node: ir.Node) -> None:
    """Decline unless the node's first output is the only one it names."""
    if any(value is not None for value in node.outputs[1:]):
        raise Declined(Reason.UNUSED_OUTPUT, f"{node.op_type} {node.label!r}")
