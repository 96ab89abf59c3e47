#!/usr/bin/env python
"""Show which layer of verification finds which seeded faults: the table of docs/verification.md, in Markdown.

    .venv/bin/python scripts/fault_table.py    # needs onnxruntime; a few minutes

A layer finds a fault if its verdict is *failed*. "+n" counts the faults that it leaves in doubt, for another layer to
decide. Exit code 1 if the default calls a wrong model verified.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import _environment  # noqa: F401 - first, for its message to users of another Python
import onnx

from bnfold import ir, reference
from bnfold.settings import VerifyOptions
from bnfold.verification import verify
from bnfold.verification.end_to_end import ort_check
from bnfold.verification.request import Clock, Request
from bnfold.verification.tolerance.rounding import PerturbedWeights
from tests.verification import faults
from tests.verification.faults import Rewrite

CLASSES = {
    "arms": "operators with several branches",
    "branches": "branches that become one convolution",
    "composed": "products in a row, channels evened out",
    "carriers": "what is carried past other operators",
    "convolution": "convolutions",
    "normalisers": "normalisations",
    "operators": "elementwise and reducing operators",
    "precision": "precision and range",
    "products": "matrix products, operators of onnxruntime",
    "sequences": "sequences, sampling, choices by a mask",
    "unseen": "what only some inputs or sizes show",
    "upgrades": "upgrades",
}
CAUGHT, MISSED, DOUBT = "failed", "verified", "unverified"


def announced(rewrite: Rewrite, wrong: onnx.ModelProto) -> str:
    """Verify the rewrite alone, as its report announces it."""
    return verify(ir.load(rewrite.before), ir.load(wrong), cuts=rewrite.cuts, depth="local", runtime="none").status


def changed(rewrite: Rewrite, wrong: onnx.ModelProto) -> str:
    """Verify every difference between the models, none of them announced."""
    return verify(ir.load(rewrite.before), ir.load(wrong), depth="local", runtime="none").status


def runtime(rewrite: Rewrite, wrong: onnx.ModelProto) -> str:
    """Run both models once in onnxruntime, as for large ones."""
    before, after = ir.load(rewrite.before), ir.load(wrong)
    for model in (before, after):
        model.sync()
    request = Request(
        before=before,
        after=after,
        checks=VerifyOptions(),
        before_file=None,
        after_file=None,
        cuts=(),
        policy=reference.Policy(),
        clock=Clock(60.0),
        scaled={},
        chose_version=True,
        progress=lambda *_: None,
    )
    with ort_check.start_guard(request, PerturbedWeights(before, after)) as wait:
        if wait is None:
            return DOUBT
        found = wait()
    return CAUGHT if found.fault else DOUBT if found.is_open else MISSED


def whole(rewrite: Rewrite, wrong: onnx.ModelProto) -> str:
    """Run both models in float64."""
    return verify(ir.load(rewrite.before), ir.load(wrong), depth="full", runtime="none").status


def default(rewrite: Rewrite, wrong: onnx.ModelProto) -> str:
    """Verify by default settings."""
    return verify(ir.load(rewrite.before), ir.load(wrong), cuts=rewrite.cuts).status


LAYERS: dict[str, Callable[[Rewrite, onnx.ModelProto], str]] = {
    "each rewrite in float64": announced,
    "whatever changed in float64": changed,
    "whole in a runtime": runtime,
    "whole in float64": whole,
    "by default": default,
}


def main() -> None:
    """Print the table."""
    ort_check.LITTLE_TIME = 0.0  # the seeded models are so small that float64 would run whole models at once
    print("| faults | | " + " | ".join(LAYERS) + " |")
    print("|---|--:|" + "--:|" * len(LAYERS))
    missed = 0
    for module, text in CLASSES.items():
        pairs = [(rewrite, wrong) for rewrite in getattr(faults, module).rewrites() for wrong in rewrite.wrong.values()]
        cells = []
        for layer in LAYERS.values():
            told = Counter(layer(rewrite, wrong) for rewrite, wrong in pairs)
            cells.append(f"{told[CAUGHT]}" + (f" +{told[DOUBT]}" if told[DOUBT] else ""))
        missed += told[MISSED]
        print(f"| {text} | {len(pairs)} | " + " | ".join(cells) + " |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
