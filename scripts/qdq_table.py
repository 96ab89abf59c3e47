#!/usr/bin/env python3
"""Fold networks that onnxruntime has quantised with their BatchNormalizations in them.

Networks in the manner of MobileNetV2 and ResNet go through quantize_static (QDQ, weights per tensor and per channel).
By default it rounds the result of each operator. With Conv and Gemm as its only operators, and without the outputs of
Conv, it rounds their inputs. Then bnfold folds the networks. Prints a Markdown table: BatchNormalizations and bytes
before and after, and the largest difference at the output in steps of its integers, in onnxruntime without its
optimisations. Run `.venv/bin/python scripts/qdq_table.py`.
"""

from __future__ import annotations

import argparse
import logging

import _environment  # noqa: F401 - first, for its message to users of another Python
import numpy as np
import onnx
from _quantize import network, residual, variants
from onnx import numpy_helper

import bnfold


def main() -> None:
    """Quantise, fold, compare, print."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    logging.disable(logging.WARNING)
    print("| network, weights, Conv outputs | BatchNormalization | bytes | verified | steps at the output |")
    print("|---|---|---|---|---|")
    for kind in ("mobilenet", "resnet"):
        for per_channel in (False, True):
            for rounded in (False, True):
                weights = "per channel" if per_channel else "per tensor"
                outputs = "rounded" if rounded else "not rounded"
                print(f"| {kind}, {weights}, {outputs} | {_row(kind, per_channel=per_channel, rounded=rounded)} |")


def _row(kind: str, *, per_channel: bool, rounded: bool) -> str:
    rng = np.random.default_rng(0)
    shape = (16, network.CHANNELS, network.SIZE, network.SIZE)
    data, unseen = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    model = network.settle(residual.make(kind, rng), data)
    extra = (
        {}
        if rounded
        else {
            "op_types_to_quantize": ["Conv", "Gemm"],
            "extra_options": {"OpTypesToExcludeOutputQuantization": ["Conv"]},
        }
    )
    quantised = variants.quantized(model, data, per_channel=per_channel, **extra)
    outcome = bnfold.fold(quantised)
    folded = outcome.to_proto()
    before, after = (network.run(form, unseen)[0] for form in (quantised, folded))
    steps = np.abs(before - after).max() / _step(quantised)
    counts = f"{len(outcome.report.batchnorms)} → {outcome.report.left}"
    reasons = sorted({event.reason.code for event in outcome.report.batchnorms if event.reason is not None})
    why = f" ({', '.join(reasons)})" if reasons else ""
    verdict = outcome.verdict.status if outcome.verdict is not None else "-"
    sizes = " → ".join(str(form.ByteSize()) for form in (quantised, folded))
    return f"{counts}{why} | {sizes} | {verdict} | {steps:.2g}"


def _step(model: onnx.ModelProto) -> float:
    """Return the scale of the integers at the output."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    (last,) = (node for node in model.graph.node if model.graph.output[0].name in node.output)
    return float(numpy_helper.to_array(held[last.input[1]]))


if __name__ == "__main__":
    main()
