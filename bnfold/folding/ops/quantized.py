"""DequantizeLinear of a constant weight, ``w = (q − zero)·scale``: its scale takes an affine's, q stays integers.

Where a QuantizeLinear of floats makes q, as quantisation-aware training leaves it, these take it too, with both scales.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.evaluators import evaluate
from bnfold.analysis.quantizing import layout, rounded, spread
from bnfold.edits.edit import SetAttr, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.elements import Bools
from bnfold.ir.tensor import Array, Exact, Float64, InMemory
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``scale' = |s|·scale``; where ``s`` is negative, ``q' = 2·zero − q``, and where it is zero, ``q' = zero``."""
    stored, zero = analysis.constant(node.input(0)), analysis.constant(node.input(2))
    if stored is None:
        return _activation_up(node, affine)
    if node.input(2) is not None and zero is None:
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    if not affine.is_scale_only:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    factor, sign = np.where(affine.s == 0, 1.0, np.abs(affine.s)), np.sign(affine.s)
    edits = _rescaled(node, stored, zero, factor)
    mirrored = _mirrored(node, stored, zero, sign) if (sign < 1).any() else stored
    if producers := _quantizers(node):
        edits += _rescaled(producers[-1], stored, analysis.constant(producers[-1].input(2)), factor)
        scale = next(edit.tensor for edit in edits if isinstance(edit, SetConstant))
        edits.append(SetConstant(producers[-1], 0, _requantized(producers, affine.s, scale, mirrored)))
    elif mirrored is not stored:
        edits.append(SetConstant(node, 0, mirrored))
    return Step(tuple(edits))


def _activation_up(node: ir.Node, affine: Affine) -> Step:
    """Take, behind integers that are computed, one positive factor for all.

    Runtimes take one scale for an activation.
    """
    if affine.s.size > 1 or not affine.is_scale_only or affine.s.item() <= 0:
        raise Declined(Reason.QUANTIZED_ACTIVATION, facts.where(node))
    scale = facts.weight(node, 1)
    return Step((_scale(node, scale, scale.float64() * affine.s.item()),))


def quantize_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``scale' = scale/s`` for one power of two: any other quotient could fall on another integer."""
    if affine.s.size > 1 or not affine.is_scale_only or affine.s.item() <= 0 or not affine.is_power_of_two:
        raise Declined(Reason.QUANTIZED_ACTIVATION, facts.where(node))
    scale = facts.weight(node, 1)
    edit = _scale(node, scale, scale.float64() / affine.s.item())
    if not np.array_equal(edit.tensor.numpy().astype(np.float64), edit.tensor.float64()):
        raise Declined(Reason.RANGE, f"a scale of {facts.where(node)}")
    return Step((edit,))


def _rescaled(node: ir.Node, stored: ir.Tensor, zero: ir.Tensor | None, factor: Float64) -> list[SetConstant | SetAttr]:
    """Return the scale times ``factor``; one for all becomes one for each slice, with as many zero points.

    Raises Declined where the scales cannot vary along the axes that the factor varies along.
    """
    scale = facts.weight(node, 1)
    axis, block = layout(node)
    axis %= max(factor.ndim, 1)
    varying = [place for place, size in enumerate(factor.shape) if size > 1]
    if block:
        return [_scale(node, scale, scale.float64() * _of_blocks(node, factor, axis, block))]
    if not varying or (scale.size > 1 and varying == [axis]):
        return [_scale(node, scale, scale.float64() * factor.reshape(-1 if varying else ()))]
    if scale.size > 1 or len(varying) > 1 or node.graph.opset() < 13 or factor.size == stored.size:
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} has no scale for each slice of that axis")
    fresh = scale.float64().reshape(()) * factor.reshape(-1)
    edits: list[SetConstant | SetAttr] = [_scale(node, scale, fresh), SetAttr(node, "axis", varying[0])]
    if zero is not None:
        edits.append(SetConstant(node, 2, InMemory(zero.dtype, np.broadcast_to(zero.numpy().reshape(()), fresh.shape))))
    return edits


def _scale(node: ir.Node, scale: ir.Tensor, values: Float64) -> SetConstant:
    """Return the edit of a scale, of the sign that it has. Raises Declined where one would round to zero."""
    fresh = Exact(scale.dtype, values)
    if not np.array_equal(np.sign(fresh.numpy().astype(np.float64)), np.sign(values)):
        raise Declined(Reason.RANGE, f"a scale of {facts.where(node)}")
    return SetConstant(node, 1, fresh)


def _of_blocks(node: ir.Node, factor: Float64, axis: int, block: int) -> Float64:
    """Return the factor of each block along ``axis``. Raises Declined where it varies within one."""
    if factor.shape[axis] == 1:
        return factor
    first = factor.take(range(0, factor.shape[axis], block), axis)
    if not np.array_equal(first.repeat(block, axis).take(range(factor.shape[axis]), axis), factor):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} has one scale for a block along that axis")
    return first


def _mirrored(node: ir.Node, stored: ir.Tensor, zero: ir.Tensor | None, sign: Float64) -> InMemory:
    """Return the numbers on the other side of their zero point, or at it, as ``sign`` says.

    Raises Declined without room.

    The zero point itself stays: runtimes want one for all channels.
    """
    centre = spread(zero.float64(), stored.dims, *layout(node)) if zero is not None else np.zeros(())
    values = centre + sign * (stored.float64() - centre)
    with np.errstate(invalid="ignore"):
        fresh = values.astype(stored.numpy().dtype)
    if not np.array_equal(fresh.astype(np.float64), values):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"the integers of {facts.where(node)} cannot all be negated")
    return InMemory(stored.dtype, fresh)


def _quantizers(node: ir.Node) -> list[ir.Node]:
    """Return the QuantizeLinear in front, last, and any Clip between; nothing where integers are stored.

    Raises Declined if the integers have other consumers, or another grid.
    """
    producers: list[ir.Node] = []
    value = node.input(0)
    while value is not None and (producer := value.producer) is not None and producer.is_op("Clip", "QuantizeLinear"):
        producers.append(producer)
        if value.only_consumer is None:
            raise Declined(Reason.SHARED_VALUE, f"value {value.name!r}")
        if producer.is_op("QuantizeLinear"):
            if _grid(producer) != _grid(node):
                raise Declined(
                    Reason.QUANTIZED_WEIGHT,
                    f"{facts.where(node)} rounds to other steps than QuantizeLinear",
                )
            return producers
        value = producer.input(0)
    return []


def _grid(node: ir.Node) -> object:
    held = [analysis.constant(node.input(slot)) for slot in (1, 2)]
    return *((tensor.dims, tensor.numpy().tobytes()) if tensor is not None else None for tensor in held), layout(node)


def _requantized(producers: Sequence[ir.Node], s: Float64, scale: ir.Tensor, requested: ir.Tensor) -> InMemory:
    """Multiply floats by ``s`` that are rounded to ``requested`` on the new grid.

    Where the product is not, the grid's own.

    Between two integers, rounding of the product and of the scale decides.
    """
    *clips, quantizer = producers
    floats, old, zero = (analysis.constant(quantizer.input(slot)) for slot in range(3))
    assert floats is not None, "the integers were evaluated"
    assert old is not None, "likewise"
    if not np.array_equal(_clipped(clips, requested).numpy(), requested.numpy()):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(clips[0])} cuts integers that become negative")
    axis, block = layout(quantizer)
    centre = spread(zero.float64(), floats.dims, axis, block) if zero is not None else np.zeros(())
    step = spread(scale.numpy(), floats.dims, axis if old.size == scale.size else int(np.argmax(s.shape)), block)

    def misses(values: Array) -> Bools:
        return np.not_equal(rounded(values, step, centre, requested.numpy().dtype), requested.numpy())

    fresh = (floats.float64() * s).astype(np.float32)
    fresh = np.where(misses(fresh), ((requested.float64() - centre) * step).astype(np.float32), fresh)
    if misses(fresh).any():
        raise Declined(Reason.QUANTIZED_WEIGHT, f"an integer of {facts.where(quantizer)} would change")
    return InMemory(floats.dtype, fresh)


def _clipped(clips: Sequence[ir.Node], integers: ir.Tensor) -> ir.Tensor:
    """Return the integers after the Clips; the first of these is the last in the graph."""
    for clip in reversed(clips):
        made = evaluate(clip, [integers, *map(analysis.constant, clip.inputs[1:])])
        assert made is not None, "it was evaluated"
        integers = made
    return integers


register(DequantizeLinear=Handler(up), QuantizeLinear=Handler(down=quantize_down, shift="stops"))
