"""Real networks: which of them have BatchNormalizations to fold, and what a tool made of one."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from bnfold.errors import BnfoldError
from bnfold.verification import verify

_WORKER = Path(__file__).with_name("worker.py")
_KINDS = ("net", "net-noweights")
_FROM_OUTSIDE = ("graph-input", "fn-input")


def listed(corpus: Path) -> list[Path]:
    """The networks of a folder's INDEX.tsv that have BatchNormalizations with constant parameters."""
    with (corpus / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [
        corpus / row["path"]
        for row in rows
        if row["kind"] in _KINDS and int(row["bn"]) and not any(word in row["bn_params"] for word in _FROM_OUTSIDE)
    ]


def batchnorms(path: Path) -> int:
    """How many BatchNormalizations a file has, subgraphs and functions included."""
    model = onnx.load(path, load_external_data=False)
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    return sum(node.op_type == "BatchNormalization" for body in bodies for node in _nodes(body))


def _nodes(body: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in body:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _nodes(graph.node)


def outcome(tool: str, source: Path, work: Path, timeout: float, budget: float) -> str:
    """How many BatchNormalizations are left, and a mark where the numbers differ or cannot be told; or no result."""
    (work / tool).mkdir(parents=True)
    (work / "model.onnx").symlink_to(source.resolve())
    try:
        subprocess.run([sys.executable, _WORKER, tool, work], capture_output=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return "*too slow*"
    out, note = work / tool / "model.onnx", work / tool / "model.note"
    if not note.is_file() or note.read_text(encoding="utf-8") or not out.is_file():
        return "*crash*"
    return f"{batchnorms(out)}{_numbers(source, out, budget)}"


def _numbers(source: Path, out: Path, budget: float) -> str:
    """In float64, as far as the referee knows the operators and gets done in time."""
    try:
        status = verify(source, out, depth="full", witness="none", budget_seconds=budget).status
    except BnfoldError:
        return " **invalid**"
    return {"verified": "", "failed": " **wrong**", "unverified": " ?"}[status]
