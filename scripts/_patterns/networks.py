"""Real networks: those that have BatchNormalizations to fold, and a tool's result on one."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.verification import verify
from bnfold.verification.inputs.drawing import DrawnFeeds, input_shapes, random_feeds
from bnfold.verification.inputs.shapes import Sizing

CLOSE = 1e-3
"""Share of an output's largest value: float32 does not explain more, so the reference evaluator decides."""

_WORKER = Path(__file__).with_name("worker.py")
_KINDS = ("net", "net-noweights")
_FROM_OUTSIDE = ("graph-input", "fn-input")


def listed(corpus: Path) -> list[Path]:
    """Return the networks of a folder's INDEX.tsv that have BatchNormalizations with constant parameters."""
    with (corpus / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [
        corpus / row["path"]
        for row in rows
        if row["kind"] in _KINDS and int(row["bn"]) and not any(word in row["bn_params"] for word in _FROM_OUTSIDE)
    ]


def left(path: Path, *, constants: bool = True) -> tuple[int, int]:
    """Return how many nodes and BatchNormalizations a file has, subgraphs and functions included.

    Nodes are counted without ``Constant`` unless ``constants``.
    """
    model = onnx.load(path, load_external_data=False)
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    kinds = [node.op_type for body in bodies for node in _nodes(body)]
    nodes = len(kinds) if constants else len(kinds) - kinds.count("Constant")
    return nodes, kinds.count("BatchNormalization")


def _nodes(body: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in body:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _nodes(graph.node)


class Outcome(NamedTuple):
    """What a tool leaves of a network, and a mark if that is no right result. Without a result, everything is left."""

    nodes: int
    """Without ``Constant``."""
    batchnorms: int
    mark: str
    constants: int

    def __str__(self) -> str:
        return f"{self.batchnorms} of {self.nodes}{self.mark and ' '}{self.mark}"


SIMPLIFIERS = ("onnxscript", "onnxsim", "onnxslim")
COUNTS: dict[str, Callable[[Outcome], int]] = {
    "nodes without Constant": lambda row: row.nodes,
    "nodes with Constant": lambda row: row.nodes + row.constants,
    "BatchNormalizations": lambda row: row.batchnorms,
}
"""What is compared with the simplifiers."""


def outcome_of(path: Path, mark: str = "") -> Outcome:
    """Count what a file has."""
    (everything, norms), (nodes, _) = left(path), left(path, constants=False)
    return Outcome(nodes, norms, mark, everything - nodes)


def outcome(tool: str, source: Path, work: Path, timeout: float, budget: float) -> Outcome:
    """Run a tool on a network, and compare its result."""
    (work / tool).mkdir(parents=True)
    (work / "model.onnx").symlink_to(source.resolve())
    try:
        subprocess.run([sys.executable, _WORKER, tool, work], capture_output=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return outcome_of(source, "*too slow*")
    out, note = work / tool / "model.onnx", work / tool / "model.note"
    if not note.is_file() or note.read_text(encoding="utf-8") or not out.is_file():
        return outcome_of(source, "*crash*")
    return outcome_of(out, _numbers(source, out, budget))


def _numbers(source: Path, out: Path, budget: float) -> str:
    """Compare in onnxruntime, unoptimised; if that fails or they differ, the reference evaluator decides in float64."""
    if _is_fixed(source, out):
        return "**fixed sizes**"
    if _same_in_onnxruntime(source, out):
        return ""
    try:
        if {value.name for value in ir.load(out).required_inputs()} - {
            value.name for value in ir.load(source).required_inputs()
        }:
            return "**new inputs**"
        verdict = verify(source, out, depth="auto", runtime="none", budget_seconds=budget)
    except BnfoldError:
        return "**invalid**"
    if verdict.status == "failed" and verdict.decided_by == "interface":
        return "**wrong shape**"
    return {"verified": "", "failed": "**wrong**", "unverified": "?"}[verdict.status]


def _is_fixed(source: Path, out: Path) -> bool:
    """Whether an input has a size that it had not."""
    try:
        before, after = (
            {value.name: value.shape or () for value in ir.load(path).graph.inputs} for path in (source, out)
        )
    except BnfoldError:
        return False
    both = [pair for name in before.keys() & after.keys() for pair in zip(before[name], after[name], strict=False)]
    return any(isinstance(new, int) and not isinstance(old, int) for old, new in both)


def _same_in_onnxruntime(source: Path, out: Path) -> bool:
    """Whether results agree at two choices of dynamic sizes, or at the one that the original runs at."""
    model, ran = ir.load(source), False
    for sizing in (Sizing(1, (64, 96), (3, 5)), Sizing(2, (96, 128), (5, 7))):
        try:
            feeds = random_feeds(model, input_shapes(model, sizing, {}), 0, 0)
            expected = _run(source, feeds)
        except Exception:  # noqa: BLE001 - onnxruntime's own error types: not at these sizes
            continue
        try:
            ran = all(map(_is_close, expected, _run(out, feeds)))
        except Exception:  # noqa: BLE001 - onnxruntime's own error types
            ran = False
        if not ran:
            return False
    return ran


def _is_close(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if one.shape != other.shape:
        return False
    return float(np.abs(one - other).max(initial=0.0)) <= CLOSE * float(np.abs(one).max(initial=0.0))


def _run(path: Path, feeds: DrawnFeeds) -> list[npt.NDArray[Any]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    outputs: list[npt.NDArray[Any]] = session.run(
        None, {name: array for name, array in feeds.items() if name in wanted}
    )
    return outputs


def beside(names: Sequence[str], found_by: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Compare bnfold with the simplifier that leaves least of each network, of those whose result is right."""
    peers = [tool for tool in SIMPLIFIERS if tool in found_by]
    for what, count in COUNTS.items() if peers and "bnfold optimize" in found_by else ():
        rows = []
        for place, name in enumerate(names):
            row = {tool: found_by[tool][place] for tool in found_by}
            right = [(count(row[tool]), tool) for tool in peers if not row[tool].mark]
            rows.append((name, count(row["bnfold optimize"]), *min(right, default=(count(row["before"]), "before"))))
        own, best = sum(left for _, left, _, _ in rows), sum(least for *_, least, _ in rows)
        more = [f"{name} {left}, {least} by {tool}" for name, left, least, tool in rows if left > least]
        worst = max(left / max(least, 1) for _, left, least, _ in rows)
        yield f"\n{what}: {own} by bnfold, {best} by the best of each network; at most {worst:.2f} x"
        yield f"bnfold leaves no more in {len(rows) - len(more)} of {len(rows)}; more in: {'; '.join(more) or 'none'}"
