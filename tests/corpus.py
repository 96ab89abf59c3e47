"""Which real models a test goes through: one of each network, or everything."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import onnx

WIDE = ("FNSCandy", "densenet-121", "inception-3", "netG", "resnet-50", "three_layer_bn_pytorch", "vgg-1")
"""Networks that take many seconds each; their operators are in others as well."""


def models(corpus: Path, *kinds: str, everything: bool = False) -> Iterator[Path]:
    """Those of the index, of ``kinds`` only where any are given; of networks of the same operators one."""
    with (corpus / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = [row for row in csv.DictReader(index, delimiter="\t") if not kinds or row["kind"] in kinds]
    seen = set()
    for row in rows:
        path = corpus / row["path"]
        if everything or not row["kind"].startswith("net"):
            yield path
            continue
        operators = _operators(path)
        if operators not in seen and not any(name in path.name for name in WIDE):
            yield path
        seen.add(operators)


def _operators(path: Path) -> tuple[str, ...]:
    model = onnx.load(path, load_external_data=False)
    return (*map(str, model.opset_import), *(node.op_type for node in model.graph.node))
