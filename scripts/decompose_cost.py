#!/usr/bin/env python3
"""Measure the latency in onnxruntime of models with normalisations, and of the same models with all of them decomposed.

Prints a Markdown table. The first of a pair is the model at opset 15, its normalisations as they are. The second is
the result of `--decompose remaining`: folded first, and the remaining normalisations decomposed. `--unfolded` shows
the price of `--decompose all` by itself: everything decomposed, nothing folded before. Needs the project's
environment: `.venv/bin/python scripts/decompose_cost.py [MODEL.onnx …]`. Without models it takes those of models/, and
some of the folder of real ones at $BNFOLD_CORPUS, if that is set. Look at the ratios, never at seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import _environment
import onnx
from _bench import racing, table

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.decomposing import OPERATORS, Form
from bnfold.errors import BnfoldError
from bnfold.pipeline import passes
from bnfold.settings import Options

OWN = ("resnet_opset6", "depthwise", "dense", "generator", "mlp", "float16", "bn15_training", "in1")
REAL = ("*version-RFB-320.*", "*Public__Models__model.*", "*Human_To_Cat_High*", "*udnie*", "*light_shufflenet.*")
HEADER = ("model", "nodes", "normalisations", "optimisation", "ms before", "ms after", "after / before", "quartiles")


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--form", choices=("mul_add", "sub_mul_add", "depthwise_conv"), default="mul_add")
    parser.add_argument("--unfolded", action="store_true", help="decompose without folding first")
    parser.add_argument("--rounds", type=int, default=60, metavar="N", help="pairs of runs that count (60)")
    return parser.parse_args()


def chosen() -> Iterator[Path]:
    """Choose the models that are measured unless others are named."""
    yield from (_environment.ROOT / "models" / f"{name}.onnx" for name in OWN)
    corpus = Path(os.environ.get("BNFOLD_CORPUS", ""))
    if (corpus / "INDEX.tsv").is_file():
        for pattern in REAL:
            yield from sorted(corpus.rglob(f"{pattern}.onnx"))[:1]


def pair(path: Path, form: Form, *, unfolded: bool) -> tuple[onnx.ModelProto, onnx.ModelProto, int]:
    """Return the model at opset 15, the same without normalisations, and the number of them."""
    protos = []
    for rewrite in (False, True):
        model = ir.load(path)
        model.freeze_overridable = True  # early PyTorch listed its weights as inputs; they have no other values
        upgrade(model)
        count = sum(node.is_op(*OPERATORS) for node in model.nodes())
        if rewrite:
            rewrite_whole(model, form, fold=not unfolded)
        protos.append(whole(model))
    return protos[0], protos[1], count


def rewrite_whole(model: ir.Model, form: Form, *, fold: bool) -> None:
    """Rewrite as `bnfold optimize --decompose remaining` does, or ``all`` without folding."""
    options = Options(
        decompose="remaining" if fold else "all",
        decompose_form=form,
        decompose_ops=frozenset(OPERATORS),
        overridable="freeze",
    )
    passes.rewrite(model, options)


def whole(model: ir.Model) -> onnx.ModelProto:
    """Return the model with its weights inside."""
    with tempfile.TemporaryDirectory() as folder:
        ir.save(model, Path(folder) / "model.onnx")
        return onnx.load(Path(folder) / "model.onnx")


def rows(path: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Return a row for either setting of the runtime's own optimisation."""
    before, after, count = pair(path, arguments.form, unfolded=arguments.unfolded)
    for optimisation in ("off", "on"):
        race = racing.compare(before, after, arguments.rounds, optimized=optimisation == "on")
        low, high = race.quartiles("after")
        yield (
            path.stem.split("__")[-1],
            f"{len(before.graph.node)} → {len(after.graph.node)}",
            str(count),
            optimisation,
            f"{1000 * median(race.times['before']):.3g}",
            f"{1000 * median(race.times['after']):.3g}",
            f"{race.median('after'):.2f}",
            f"{low:.2f} .. {high:.2f}",
        )


def main() -> int:
    """Measure and print; 1 if a model could not be measured."""
    arguments = parse()
    models = _environment.require_files(arguments.models or chosen(), sought="model")
    print(*(f"{key} {value}" for key, value in table.machine().items()), sep=" · ", end="\n\n")
    print(table.head(HEADER), flush=True)
    failures = []
    for path in models:
        try:
            for row in rows(path, arguments):
                print("|", " | ".join(row), "|", flush=True)
        except (BnfoldError, racing.CannotRunError) as error:
            failures.append(f"{path.name}: {str(error).splitlines()[0]}")
    for line in failures:
        print(line, file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
