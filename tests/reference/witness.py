"""onnxruntime as an independent witness: unoptimised, in a process of its own, since it may crash."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference
from tests.reference.models import Array

Case = tuple[onnx.ModelProto, dict[str, Array]]

CHILD = """
import pickle, sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
cases, results = pickle.load(open(sys.argv[1], "rb")), []
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = 1
for model, feeds in cases:
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        results.append(session.run(None, feeds))
    except Exception as error:
        results.append(str(error))
pickle.dump(results, open(sys.argv[2], "wb"))
"""


def witness(cases: Sequence[Case], folder: Path) -> list[list[Any] | str]:
    """For each case what onnxruntime computes, or why it does not."""
    given, taken = folder / "cases", folder / "results"
    given.write_bytes(pickle.dumps([(model.SerializeToString(), feeds) for model, feeds in cases]))
    subprocess.run([sys.executable, "-c", CHILD, str(given), str(taken)], check=True, timeout=120)
    results: list[list[Any] | str] = pickle.loads(taken.read_bytes())
    return results


def disagreements(cases: Sequence[Case], folder: Path, tolerance: float = 2e-5) -> tuple[list[str], int]:
    """Where the referee and the witness differ, and in how many cases both had a result.

    The witness computes in float32, so that differences count relative to the largest element.
    """
    wrong, compared = [], 0
    for (model, feeds), other in zip(cases, witness(cases, folder), strict=True):
        if isinstance(other, str):
            continue
        mine = list(reference.evaluate(ir.load(model), feeds).values())
        compared += 1
        wrong += [
            f"{model.graph.node[0]}: {fault}" for fault in map(_fault, mine, other, [tolerance] * len(mine)) if fault
        ]
    return wrong, compared


def _fault(mine: Array, other: Array, tolerance: float) -> str:
    other = np.asarray(other)
    if mine.shape != other.shape:
        return f"shape {mine.shape} and {other.shape}"
    if other.dtype.kind != "f":
        return "" if np.array_equal(mine, other) else "other elements"
    scale = max(1.0, np.abs(mine[np.isfinite(mine)]).max(initial=0))
    same = np.allclose(mine, other.astype(float), rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    return "" if same else f"differs by {np.nanmax(np.abs(mine - other))} at scale {scale}"
