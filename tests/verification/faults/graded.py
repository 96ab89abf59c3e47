"""Seeded faults in graded sizes: the smallest that verification sees, which must never get larger.

A fault has a scale if it differs from the right rewrite in float weights alone: a share of the difference is a smaller
fault. Its size is the largest difference of an output in units of what verification allowed there when `smallest.json`
was recorded. Recorded is the share, so that a tolerance that grows does not hide behind its own unit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from bnfold import ir
from bnfold.verification import Verdict, verify
from tests.verification.faults import rewrites
from tests.verification.faults.rewrite import Rewrite

SMALLEST = Path(__file__).parent / "smallest.json"
LAYERS = ("whole", "changed", "announced")
"""The whole models in float64; whatever changed; the rewrite as its report announces it."""
FIRST, STEP = 3, 10
"""The smallest size that is tried, in units of what is allowed: another machine's rounding must not decide. The next
ones are so many times as large."""

LEAST, MOST = 1e-12, 1e12
"""Share of a fault below which nothing is tried, and the size beyond which none is told from another."""


class Seen(NamedTuple):
    """The smallest fault that a layer sees: its share of the seeded one, and its size in units of what is allowed."""

    share: float
    units: float


class Graded(NamedTuple):
    """A seeded fault with a scale."""

    rewrite: Rewrite
    name: str
    wrong: onnx.ModelProto

    @property
    def label(self) -> str:
        return f"{self.rewrite.name}: {self.name}"

    def model(self, share: float) -> onnx.ModelProto:
        """Return the right rewrite with this share of the fault."""
        graded = onnx.ModelProto()
        graded.CopyFrom(self.rewrite.after)
        ends = {tensor.name: tensor for tensor in self.wrong.graph.initializer}
        for tensor in graded.graph.initializer:
            if tensor != ends[tensor.name]:
                right, wrong = (numpy_helper.to_array(each) for each in (tensor, ends[tensor.name]))
                between = right + share * (wrong.astype(np.float64) - right)
                tensor.CopyFrom(numpy_helper.from_array(between.astype(right.dtype), tensor.name))
        return graded

    def verdict(self, layer: str, share: float) -> Verdict:
        """Verify this share of the fault."""
        before, after = ir.load(self.rewrite.before), ir.load(self.model(share))
        cuts = self.rewrite.cuts if layer == "announced" else ()
        return verify(before, after, cuts=cuts, depth="full" if layer == "whole" else "local", runtime="none")


def faults() -> list[Graded]:
    """Return those that have a scale."""
    found = [Graded(rewrite, name, wrong) for rewrite in rewrites() for name, wrong in rewrite.wrong.items()]
    return [fault for fault in found if _has_scale(fault.rewrite.after, fault.wrong)]


def _has_scale(right: onnx.ModelProto, wrong: onnx.ModelProto) -> bool:
    """Whether models differ in float weights alone."""
    bare = []
    for model in (right, wrong):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.initializer[:]
        bare.append(copy.SerializeToString(deterministic=True))
    tensors = [{tensor.name: tensor for tensor in model.graph.initializer} for model in (right, wrong)]
    if bare[0] != bare[1] or tensors[0].keys() != tensors[1].keys():
        return False
    pairs = [(tensor, tensors[1][name]) for name, tensor in tensors[0].items() if tensor != tensors[1][name]]
    arrays = [(numpy_helper.to_array(one), numpy_helper.to_array(two)) for one, two in pairs]
    return all(one.shape == two.shape and one.dtype == two.dtype and one.dtype.kind == "f" for one, two in arrays)


def smallest(fault: Graded) -> dict[str, Seen]:
    """Return the smallest fault that each layer sees, or none where it sees none."""
    verdict = cache(fault.verdict)
    allowed = {row.name: row.allowed for row in verdict("whole", 0.0).outputs}

    def units(share: float) -> float:
        rows = verdict("whole", share).outputs
        sizes = [row.relative / allowed[row.name] for row in rows if allowed.get(row.name)]
        return min(max(sizes, default=0.0), MOST)

    found: dict[str, Seen] = {}
    shares = [*_shares(units)]
    for layer in LAYERS:
        for share in shares:
            if verdict(layer, share).status == "failed":
                found[layer] = Seen(share, float(f"{units(share):.2g}"))
                break
    return found


def _shares(units: Callable[[float], float]) -> Iterator[float]:
    """Yield shares of a fault, the first of which is about `FIRST` units; none if it does not show in any output."""
    if not (whole := units(1.0)):
        return
    share = min(1.0, max(FIRST / whole, LEAST))
    while units(share) > FIRST * STEP and share > LEAST:  # a fault that grows in another way than by its share
        share /= STEP
    while share < 1:
        yield (rounded := float(f"{share:.3g}"))
        share = rounded * STEP
    yield 1.0


def recorded() -> dict[str, dict[str, Seen]]:
    """Return what `smallest.json` says, by fault and layer."""
    rows = json.loads(SMALLEST.read_text(encoding="utf-8"))
    return {label: {layer: Seen(*seen) for layer, seen in row.items()} for label, row in rows.items()}
