#!/usr/bin/env python3
"""Small networks that PyTorch exports, at lower opsets: how many come out equal, refused, wrong or invalid.

Each network has few layers and random weights. It is exported by torch.onnx.export (opset 23 and 18) and by the old
exporter over TorchScript (17), and every file is converted to each --opset below its own, with verification as by
default. A result is *equal* if onnxruntime computes what it computes for the original; *invalid* if onnx's checker,
strict shape inference or onnxruntime rejects it; *not run* if onnxruntime has no kernel for it. bnfold's own verdict
is counted beside that: a result that is equal and was called failed is a *false alarm*.

Needs PyTorch and what the networks come from, some gigabytes: best in an environment of its own,
`python -m venv exports && exports/bin/pip install -e . torch torchvision transformers timm onnxruntime`.
Run `exports/bin/python scripts/export_table.py [--opset 13] [--only bert] [--folder build/exports]`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _environment import ROOT, require  # first, because it reports a wrong Python

if TYPE_CHECKING:
    from _exports.judging import Judged

PACKAGES = ("torch", "torchvision", "transformers", "timm", "onnxscript", "onnxruntime", "threadpoolctl")
OPSETS = (17, 15, 13, 11, 9)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opset", type=int, action="append", metavar="N", help="opset to reach (17, 15, 13, 11 and 9)")
    parser.add_argument("--only", action="append", metavar="NAME", help="a network (all of them)")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "exports", help="where exports are kept (%(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result to FILE")
    return parser.parse_args()


def conversions(arguments: argparse.Namespace) -> Iterator[tuple[str, int, Judged]]:
    """Export, convert and judge; yield its name, the opset and the result."""
    from _exports import exporting, judging

    for network in exporting.NETWORKS:
        if arguments.only and network.name not in arguments.only:
            continue
        for form, failure in exporting.exported(arguments.folder, network):
            path = exporting.path_of(arguments.folder, network, form)
            if failure:
                print(f"{path.stem}: not exported: {failure}", flush=True)
                continue
            source = judging.original(path)
            if isinstance(source.outputs, Exception):
                print(f"{path.stem}: onnxruntime does not run the original: {source.outputs}", flush=True)
                continue
            for opset in arguments.opset or OPSETS:
                if opset < form.opset:
                    yield path.stem, opset, judging.judged(source, opset)


def line(name: str, opset: int, found: Judged) -> str:
    """Return one conversion on one line."""
    doubt = f" ({found.status}: {found.doubt})" if found.doubt else ""
    why = f": {found.why}" if found.why else ""
    return f"{name} → {opset}: {found.verdict}{why}{doubt}, {found.seconds:.1f} s"


def show(results: dict[tuple[str, int], Judged]) -> None:
    """Print the sums for each target, then the refusals by reason."""
    from _exports.judging import VERDICTS, kinds

    columns = ("files", *VERDICTS, "verified", "unverified", "failed", "false alarms", "seconds")
    print("\n| to opset | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for target in (*sorted({opset for _, opset in results}, reverse=True), None):
        found = [result for (_, opset), result in results.items() if target in (opset, None)]
        counts: Counter[Any] = Counter(result.verdict for result in found)
        counts.update(result.status for result in found)
        numbers = [str(counts[name]) for name in (*VERDICTS, "verified", "unverified", "failed")]
        alarms, seconds = sum(result.is_false_alarm for result in found), sum(result.seconds for result in found)
        cells = [str(len(found)), *numbers, str(alarms), f"{seconds:.0f}"]
        print(f"| {target or 'all'} | " + " | ".join(cells) + " |")
    refused: dict[tuple[int, str], list[str]] = {}
    for (name, opset), result in results.items():
        for kind in kinds(result.why) if result.verdict == "refused" else ():
            refused.setdefault((opset, kind), []).append(name)
    for (opset, kind), names in sorted(refused.items(), reverse=True):
        print(f"refused at {opset}: {len(names)} of {kind} ({', '.join(names[:3])}{' …' * (len(names) > 3)})")


def main(arguments: argparse.Namespace) -> None:
    """Measure, and print."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    results = {}
    for name, opset, found in conversions(arguments):
        print(line(name, opset, found), flush=True)
        results[name, opset] = found
    show(results)
    if arguments.json:
        data = [{"file": name, "opset": opset, **found._asdict()} for (name, opset), found in results.items()]
        arguments.json.write_text(json.dumps(data, indent=1), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    asked = parse()
    require(*PACKAGES, install="pip install torch torchvision transformers timm onnxscript onnxruntime")
    main(asked)
