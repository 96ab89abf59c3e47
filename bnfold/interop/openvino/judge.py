"""What a difference between two runs in float32 means: rounding, a fault, or nothing that can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from bnfold import ir
from bnfold.verification import full
from bnfold.verification.compare import difference, tolerance
from bnfold.verification.floats import FLOAT_TYPES, float_type
from bnfold.verification.full import LARGEST_DIFFERENCE
from bnfold.verification.runtime import RuntimeResult
from bnfold.verification.verdict import Status

Array = npt.NDArray[Any]
Results = Sequence[Mapping[str, Array]]

LANES = 16
"""Terms of a sum that are added side by side: floats in a vector register, of those that OpenVINO uses."""

_COARSEST = 2.0**-5
"""Of the scale. However coarse the type that weights are stored in, no larger difference is put down to rounding."""


@dataclass(frozen=True, slots=True)
class Compared(full.Compared):
    """One output on one sample; ``wavers`` is whether rounding changes it at all."""

    wavers: bool = False


def compared(
    name: str,
    index: int,
    before: Results,
    after: Results,
    rounds: Sequence[tuple[RuntimeResult, RuntimeResult]],
    *,
    has_new: bool,
    sums: int,
) -> Compared:
    """Output ``name`` on sample ``index``.

    ``rounds`` are runs with the new constants moved, and runs of the original with its own and the inputs moved. A unit
    on every product shows what rounding the products does, not what rounding their ``sums`` (the longest one's number
    of terms) does: that grows with the root of their length, over the eight or sixteen that a processor adds at once.
    """
    growth = np.sqrt(1 + sums / LANES)
    expected, actual = before[index][name], after[index][name]
    dtype = onnx.helper.np_dtype_to_tensor_dtype(expected.dtype)
    kind = float_type(dtype)
    response, wavers = 0.0, False
    draws: list[list[Array]] = []
    for new, old in rounds:
        moved = [new.results[index][name]] if new.ran else []
        response = max([response, *(_response(actual, draw) for draw in moved)])
        shaken = old.results[index][name]
        wavers |= any(not np.array_equal(draw, actual) for draw in moved) or not np.array_equal(shaken, expected)
        if actual.shape == expected.shape == shaken.shape and dtype in FLOAT_TYPES:
            with np.errstate(invalid="ignore", over="ignore"):
                moved.append(actual.astype(np.float64) + growth * (shaken.astype(np.float64) - expected))
            draws.append(moved)
    allowed = tolerance(expected, actual, draws, kind, by_channel=False) if draws else None
    return Compared(
        name=name,
        sample=index,
        difference=difference(expected, actual, kind, allowed),
        dtype=dtype,
        shape=expected.shape,
        is_output=True,
        response=response if has_new else None,
        wavers=wavers,
    )


def _response(actual: Array, draw: Array) -> float:
    """How far an output moved, relative to its largest element."""
    if actual.dtype.kind != "f" or draw.shape != actual.shape:
        return 0.0
    usable = np.isfinite(actual) & np.isfinite(draw)
    size = float(np.abs(actual, where=usable, out=np.zeros(actual.shape)).max(initial=0.0))
    move = np.subtract(draw, actual, where=usable, out=np.zeros(actual.shape))
    return float(np.abs(move).max(initial=0.0)) / size if size else 0.0


def decide(found: Sequence[Compared], coarsest: float, *, has_new: bool) -> tuple[Status, str]:
    """The verdict; ``coarsest`` is the unit roundoff of the coarsest type that new constants are stored in."""
    for item in found:
        fault = item.difference.fault
        if fault and item.dtype not in FLOAT_TYPES and item.wavers:
            return "unverified", f"output {item.name!r} jumps: rounding alone changes which elements it picks"
        if fault:
            size = f" ({item.difference.relative:.2g} of its scale, {item.difference.allowed:.2g} allowed)"
            return "failed", f"output {item.name!r}: {fault}{size if item.difference.same_pattern else ''}"
    if has_new and not any(item.reacts for item in found):
        return (
            "unverified",
            "no output reacts to the new constants on these inputs, so a fault in them would not be seen",
        )
    unit = max(coarsest, float_type(None).roundoff)
    limit = min(LARGEST_DIFFERENCE * unit / float_type(None).roundoff, _COARSEST)
    for item in found:
        if item.difference.relative > limit:
            return "unverified", (
                f"output {item.name!r} differs by {item.difference.relative:.2g} of its scale; rounding could cause "
                "that, but nothing shows that the original is so sensitive"
            )
    worst = max((item.difference.relative for item in found), default=0.0)
    if worst == 0:
        return "verified", "both models give the same results in OpenVINO"
    return "verified", f"both models agree in OpenVINO to {worst:.2g} of the scale, which rounding explains"


def longest_sum(model: ir.Model) -> int:
    """How many products a convolution or a matrix product of the model adds up for one element, at most."""
    longest = 0
    for node in model.nodes():
        for slot, value in enumerate(node.inputs[:2] if node.is_op("Conv", "ConvTranspose", "MatMul") else ()):
            held = ir.constant(value)
            if held is None or len(held.dims) < 2 or 0 in held.dims:
                continue
            if node.is_op("MatMul"):
                length = held.dims[-2 if slot else -1]
            else:
                length = held.size // held.dims[0 if node.is_op("Conv") else 1]
            longest = max(longest, length)
    return longest
