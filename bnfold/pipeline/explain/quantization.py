"""The int8 quantization error of each layer's weight: as the file has it, folded, and equalized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import WEIGHTED
from bnfold.equalize.balance import DEAD
from bnfold.folding import facts
from bnfold.ir.tensor import FLOATS, Float64

FORMS = ("before", "folded", "equalized")


def describe(models: Sequence[ir.Model]) -> list[dict[str, Any]]:
    """Return a row for each layer that is there when all is folded; ``models`` are those of `FORMS`.

    Layers are found again by the names of their weights, which folding keeps.
    """
    before, folded, equalized = map(_layers, models)
    return [
        {"name": node.label, "graph": node.graph.path, "operator": node.op_type, "weight": key[1]}
        | {
            form: known[key][1] if key in known else None
            for form, known in zip(FORMS, (before, folded, equalized), strict=True)
        }
        for key, (node, _) in folded.items()
    ]


def _layers(model: ir.Model) -> Mapping[tuple[str, str], tuple[ir.Node, dict[str, float]]]:
    found = {}
    with analysis.evaluated_once(model):
        for node in model.nodes():
            slot = 0 if node.is_op("MatMul") and analysis.constant(node.input(1)) is None else 1
            value, held = node.input(slot), analysis.constant(node.input(slot))
            if not node.has_trait(WEIGHTED) or value is None or held is None or facts.is_quantized(value):
                continue
            if held.dtype in FLOATS and len(held.dims) > 1 and (sizes := _sizes(held.float64(), _axis(node, slot))):
                found[node.graph.path, value.name] = node, sizes
    return found


def _axis(node: ir.Node, slot: int) -> int:
    """Return where the output channels lie."""
    if node.is_op("MatMul"):
        return -1 if slot else -2
    return 0 if node.is_op("Conv") or (node.is_op("Gemm") and node.attr("transB", 0)) else 1


def _sizes(weight: Float64, axis: int) -> dict[str, float]:
    """Return nothing for a weight of zeros, or one that is not finite."""
    if not weight.any() or not np.isfinite(weight).all():
        return {}
    channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    ranges = np.abs(channels).max(1, keepdims=True)
    live = ranges[:, 0] > DEAD * ranges.max()
    channels, ranges = channels[live], ranges[live]
    return {
        "spread": float(ranges.max() / ranges.min()),
        "per_tensor": _decibels(channels, ranges.max()),
        "per_channel": _decibels(channels, ranges),
    }


def _decibels(channels: Float64, largest: Float64) -> float:
    """Return the signal over the noise of rounding to 127 steps either side of zero, where every channel counts alike.

    What follows makes small channels as large as others, or folding had not made them small. 300 where there is none.
    """
    step = largest / 127
    noise = ((np.rint(channels / step) * step - channels) ** 2).sum(1) / (channels**2).sum(1)
    return float(-10 * np.log10(max(noise.mean(), 1e-30)))
