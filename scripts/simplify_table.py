#!/usr/bin/env python
"""Count the nodes that `bnfold optimize --simplify` leaves beside simplifiers alone: a Markdown table.

The networks are those of a folder with an INDEX.tsv (one of each kind, by the names below, or all), and any files that
are named. Every tool works on every network in a process of its own, with a time limit, and so does the whole of
`bnfold optimize --simplify`, which verifies each step. With --after, five of them work on what bnfold leaves, and what
cannot be verified counts as nothing removed. Time is processor time, the least affected by other work on the
machine. Needs the peers: `.venv/bin/pip install -e .[peers]`, then `.venv/bin/python scripts/simplify_table.py`.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from _environment import CORPUS, ROOT, require_files  # first, for its message to users of another Python

# isort: split
from _bench import measure, tools

import bnfold
from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.pipeline import external_tools
from bnfold.report import totals

PEERS = ("onnxslim", "onnxsim", "onnxscript")
AFTER = ("onnxruntime", "onnxslim", "onnxscript", "onnxsim", "onnxoptimizer")
"""The tools of --after."""
WORDS = {
    "onnxscript": "import sys, onnx_ir, onnxscript.optimizer as o; m = onnx_ir.load(sys.argv[1]); "
    "o.optimize(m); onnx_ir.save(m, sys.argv[2])",
    "onnxsim": "import sys, onnx, onnxsim; onnx.save(onnxsim.simplify(onnx.load(sys.argv[1]))[0], sys.argv[2])",
    "onnxoptimizer": "import sys, onnx, onnxoptimizer as o; onnx.save(o.optimize(onnx.load(sys.argv[1])), sys.argv[2])",
}
"""The tools as they come, but for those that are steps of --simplify as they come."""
CHOSEN = (
    "mnist_cnn.", "Plankton.d497", "RFB-320.34cd", "slim-320.e9ad", "train_input_640", "Human_To_Cat_High",
    "model.93f1", "human2cat", "mobilenet.4dee", "pfld", "conv2d_small_mp_keras", "three_layer_bn_keras.504e",
    "three_layer_bn_pytorch", "mnist__pytorch", "candy.7af0", "light_densenet121.49dd", "light_inception_v2.224d",
    "light_resnet50.05e7", "light_shufflenet.b6eb", "ch_ppocrv3", "PP-OCRv6_rec_small", "cls_mobile",
)  # fmt: skip
"""One of each network: the others are the same network at another size, or with other weights."""


def main() -> int:
    """Run all tools; exit code 1 if bnfold leaves more nodes than the best of the others in more than one of ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="further networks")
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="DIR", help="a folder with an INDEX.tsv")
    parser.add_argument("--only", default="", metavar="TEXT", help="networks whose path contains TEXT")
    parser.add_argument("--all", action="store_true", help="every network of the folder")
    parser.add_argument("--after", action="store_true", help="what each tool removes after bnfold")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of which the median is the time (3)")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds for one tool (300)")
    arguments = parser.parse_args()
    listed = [*_listed(arguments.corpus, everything=arguments.all), *arguments.files]
    networks = require_files(listed, sought=f"network in {arguments.corpus / 'INDEX.tsv'}", only=arguments.only)
    if arguments.after:
        return _print_after(networks, arguments.timeout)
    print("| network | before |", " | ".join(PEERS), "| bnfold --simplify | verdict | time / tools |")
    print("|---|---|", "---|" * len(PEERS), "---|---|---|", sep="")
    best = 0
    for path in networks:
        row, is_best = _row(path, arguments.timeout, arguments.runs)
        print(row, flush=True)
        best += is_best
    print(f"\nbnfold leaves no more nodes than the best of the others in {best} of {len(networks)} networks.")
    return int(10 * best < 9 * len(networks))


def _listed(corpus: Path, *, everything: bool) -> list[Path]:
    import csv

    if not (corpus / "INDEX.tsv").is_file():
        return []
    with (corpus / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        rows = [row for row in csv.DictReader(index, delimiter="\t") if row["kind"] in ("net", "net-noweights")]
    found = [row["path"] for row in rows if everything or any(name in row["path"] for name in CHOSEN)]
    return [corpus / path for path in found]


def _row(path: Path, timeout: float, runs: int) -> tuple[str, bool]:
    alone = {tool: _alone(tool, path, timeout) for tool in PEERS}
    again = [_simplified(path, timeout) for _ in range(runs)]
    script = [alone["onnxscript"][1], *(_alone("onnxscript", path, timeout)[1] for _ in range(runs - 1))]
    ours = None if None in again else again[0]
    cells = [text for text, _ in alone.values()]
    known = [int(text) for text in cells if text.isdigit()]  # a model that onnx's checker rejects is no result
    before = totals.count(ir.load(path)).nodes
    if ours is None:
        return f"| {_name(path)} | {before} | {' | '.join(cells)} | error | | |", False
    nodes, verdict, *_ = ours
    seconds, own_seconds = (median(float(one[place]) for one in again if one is not None) for place in (2, 3))
    ratio = seconds / (own_seconds + median(script))
    row = f"| {_name(path)} | {before} | {' | '.join(cells)} | {nodes} | {verdict} | {ratio:.2f} |"
    return row, nodes <= min(known, default=nodes)


def _name(path: Path) -> str:
    return f"{path.name.split('__')[-1].rsplit('.', 2)[0]}" if path.name != "model.onnx" else path.parent.name


def _alone(tool: str, path: Path, timeout: float) -> tuple[str, float]:
    """Return the nodes that a tool leaves by itself (onnxscript as it comes), and its seconds."""
    started, step = _spent(), _step(tool)
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = str(totals.count(step.run(ir.load(path), Path(folder), timeout)).nodes)
        except (external_tools.StepFailed, BnfoldError) as problem:
            is_there = "valid model" in str(problem)
            told = (
                f"{totals.count(ir.load(Path(folder) / external_tools.OUTPUT)).nodes}, invalid" if is_there else "crash"
            )
    return told, _spent() - started


def _step(tool: str) -> external_tools.ExternalTool:
    if tool not in WORDS:
        return external_tools.simplifier(tool)
    return external_tools.command([sys.executable, "-c", WORDS[tool], "{input}", "{output}"])


def _print_after(networks: list[Path], timeout: float) -> int:
    """Print what each tool removes from bnfold's results, and what no other one removes; return 0."""
    print("| network | bnfold |", " | ".join(AFTER), "|")
    print("|---|---|", "---|" * len(AFTER), sep="")
    total = {tool: Counter[str]() for tool in AFTER}
    for path in networks:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.onnx"
            if _run(path, out, timeout, "--all-affines") is None:
                continue
            nodes = totals.count(ir.load(out)).nodes
            left = {tool: _left_after(tool, out, timeout) for tool in AFTER}
        print("|", _name(path), "|", nodes, "|", " | ".join(map(str, left.values())), "|", flush=True)
        less = {tool: nodes - count if isinstance(count, int) else 0 for tool, count in left.items()}
        for tool, removed in less.items():
            others = max(0, *(less[other] for other in AFTER if other != tool))
            total[tool].update(removed=max(removed, 0), added=max(-removed, 0), alone=max(removed - others, 0))
            total[tool].update(fewer_in=removed > 0, more_in=removed < 0, undone=isinstance(left[tool], str))
    for tool, counts in total.items():
        print(f"{tool}:", ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items()))
    return 0


def _left_after(tool: str, out: Path, timeout: float) -> int | str:
    """Return the nodes that a tool leaves of bnfold's result, or why that does not count."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            nodes = totals.count(_step(tool).run(ir.load(out), Path(folder), timeout)).nodes
            verdict = bnfold.verify(out, Path(folder) / external_tools.OUTPUT)
        except (external_tools.StepFailed, BnfoldError):
            return "crash"
    return nodes if verdict.verified else verdict.status


def _simplified(path: Path, timeout: float) -> tuple[int, str, float, float] | None:
    """Return nodes, verdict, and the seconds of the run, and of bnfold's passes alone; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.onnx"
        alone = _run(path, out, timeout, "--all-affines")
        both = _run(path, out, timeout, "--simplify")
        if alone is None or both is None:
            return None
        document, seconds = both
        own, *steps = document["steps"]
        undone = [f"{step['name']} {step['status']}" for step in steps if step["status"] != "verified"]
        told = ", ".join([own["status"] if own["status"] == "verified" else document["verify"]["status"], *undone])
        return totals.count(ir.load(out)).nodes, told, seconds, alone[1]


def _spent() -> float:
    """Return processor seconds of the processes that have ended, with all their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(path: Path, out: Path, timeout: float, *words: str) -> tuple[dict[str, Any], float] | None:
    """Return the report of a run, and its processor seconds."""
    tool = tools.bnfold("bnfold", ROOT, "optimize", "--json", "-q", *words)
    run = measure.process(tool.command(path.resolve(), out), out.parent, timeout, tool.environment)
    return None if run.code else (json.loads(run.output), run.cpu)


if __name__ == "__main__":
    sys.exit(main())
