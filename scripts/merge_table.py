#!/usr/bin/env python3
"""Measure networks in training form with merged branches: nodes, latency in onnxruntime, and rounding.

Prints a Markdown table. Runs of both models alternate, on one thread; look at the ratio, never at seconds. The errors
are those of a float32 run against bnfold's float64 evaluation of the original, relative to the largest output. Needs
the project's environment: `.venv/bin/python scripts/merge_table.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

import _environment  # noqa: F401 - first, for its message to users of another Python
import numpy as np
import onnx
from _bench import racing, table
from _models.training_forms import TRAINING_FORMS

import bnfold
from bnfold import ir, reference

HEADER = (
    "model", "nodes", "Conv", "BatchNormalization", "Add", "verified by", "optimisation", "ms", "before / after",
    "quartiles", "error before", "error after",
)  # fmt: skip


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, metavar="N", help="pairs of runs that count (60)")
    parser.add_argument("--size", type=int, default=224, metavar="N", help="height and width of the image (224)")
    return parser.parse_args()


def errors(before: onnx.ModelProto, after: onnx.ModelProto) -> list[float]:
    """Return the errors of both, run in float32, against the first in float64."""
    feeds = racing.random_feeds(before)
    ((_, exact),) = reference.evaluate(ir.load(before), feeds).items()
    runs = [racing.session(model, optimized=False).run(None, feeds)[0] for model in (before, after)]
    return [float(np.abs(run - exact).max() / np.abs(exact).max()) for run in runs]


def count(model: onnx.ModelProto, op_type: str = "") -> int:
    """Count nodes of one operator, or of all."""
    return sum(node.op_type == op_type or not op_type for node in model.graph.node)


def rows(name: str, arguments: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return a row for either setting of the runtime's own optimisation."""
    make, blocks = TRAINING_FORMS[name]
    before = make(arguments.size)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        onnx.save(before, source)
        outcome = bnfold.optimize(source, target, options=bnfold.Options(target_opset="keep"))
        after = onnx.load(target)
    if count(after, "Conv") != blocks or count(after, "BatchNormalization") or count(after, "Add"):
        raise SystemExit(f"{name}: not one Conv a block")
    changes = [f"{count(before, op)} → {count(after, op)}" for op in ("", "Conv", "BatchNormalization", "Add")]
    verdict = outcome.verdict
    old, new = errors(before, after)
    found = []
    for optimisation in ("off", "on"):
        race = racing.compare(before, after, arguments.rounds, optimized=optimisation == "on")
        low, high = (1 / ratio for ratio in reversed(race.quartiles("after")))
        seconds = " → ".join(f"{1000 * median(series):.3g}" for series in race.times.values())
        found.append((
            name, *changes, verdict.decided_by if verdict is not None else "", optimisation, seconds,
            f"{1 / race.median('after'):.2f}", f"{low:.2f} .. {high:.2f}", f"{old:.1e}", f"{new:.1e}",
        ))  # fmt: skip
    return found


def main() -> int:
    """Measure and print."""
    arguments = parse()
    print(*(f"{key} {value}" for key, value in table.machine().items()), sep=" · ", end="\n\n")
    print(table.head(HEADER), flush=True)
    for name in TRAINING_FORMS:
        for row in rows(name, arguments):
            print("|", " | ".join(row), "|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
