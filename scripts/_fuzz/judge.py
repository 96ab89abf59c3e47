"""Rewrite a model and compare it with what it was, in float64; shrink what differs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from _fuzz.builder import Array
from bnfold import ir, pipeline, reference
from bnfold.report import Report

Feeds = Mapping[str, Array]
UNIT = {TensorProto.DOUBLE: 1e-9, TensorProto.FLOAT: 2e-3, TensorProto.FLOAT16: 1.0}
"""Error relative to an output's largest value beyond which weights rounded to a type are no explanation."""


@dataclass(frozen=True)
class Outcome:
    """What one model came to. ``error`` is empty when the rewritten model computes what the original did."""

    error: str
    batchnorms: int = 0
    folded: int = 0


def options(mode: str) -> pipeline.Options:
    """``fold`` leaves the opset; ``affines`` also folds what no BatchNormalization stands in; ``optimize`` does all."""
    if mode == "optimize":
        return pipeline.Options(decompose="residual", max_growth=1 << 30)
    return pipeline.Options(target_opset="keep", all_affines=mode == "affines", max_growth=1 << 30)


def judge(proto: onnx.ModelProto, feeds: Feeds, mode: str = "fold") -> Outcome:
    """Rewrite and compare. A crash of the rewrite counts as an error, a model nobody can evaluate does not."""
    try:
        expected = reference.evaluate(ir.load(proto), feeds)
    except reference.Unsupported:
        return Outcome("")
    model = ir.load(proto)
    try:
        report = pipeline.rewrite(model, options(mode))
        found = reference.evaluate(_saved(model), feeds)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(f"{type(crash).__name__}: {crash}")
    return Outcome(_difference(expected, found, _tolerance(proto)), len(report.batchnorms), _gone(report))


def _saved(model: ir.Model) -> ir.Model:
    """The model as it is written and read again."""
    with tempfile.TemporaryDirectory() as folder:
        ir.save(model, Path(folder) / "model.onnx")
        return ir.load((Path(folder) / "model.onnx").read_bytes())


def _gone(report: Report) -> int:
    return report.count("folded") + report.count("removed")


def _tolerance(proto: onnx.ModelProto) -> float:
    return max(UNIT[info.type.tensor_type.elem_type] for info in proto.graph.input)


def _difference(expected: Feeds, found: Feeds, tolerance: float) -> str:
    for name, array in expected.items():
        other = found[name]
        if array.shape != other.shape or array.dtype != other.dtype:
            return f"{name}: {array.dtype}{array.shape} became {other.dtype}{other.shape}"
        if not np.isfinite(array).all():
            continue
        size = max(1.0, float(np.abs(array).max(initial=0.0)))
        error = float(np.abs(array - other).max(initial=0.0)) / size
        if not error <= tolerance:
            return f"{name}: relative error {error:.1e}"
    return ""


def shrink(proto: onnx.ModelProto, feeds: Feeds, fails: Callable[[onnx.ModelProto, Feeds], bool]) -> onnx.ModelProto:
    """The model without every output and node that the failure does not need."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in (*_fewer_outputs(proto), *_fewer_nodes(proto)):
            if fails(candidate, feeds):
                proto, smaller = candidate, True
                break
    return proto


def _fewer_outputs(proto: onnx.ModelProto) -> list[onnx.ModelProto]:
    found = []
    for index in range(len(proto.graph.output)) if len(proto.graph.output) > 1 else ():
        candidate = onnx.ModelProto.FromString(proto.SerializeToString())
        del candidate.graph.output[index]
        found.append(_swept(candidate))
    return found


def _fewer_nodes(proto: onnx.ModelProto) -> list[onnx.ModelProto]:
    """Each node left out in turn, where its readers can read its first input instead."""
    found = []
    for index, node in enumerate(proto.graph.node):
        if len(node.output) != 1 or not node.input or any(info.name == node.output[0] for info in proto.graph.output):
            continue
        candidate = onnx.ModelProto.FromString(proto.SerializeToString())
        del candidate.graph.node[index]
        for reader in candidate.graph.node:
            for slot, name in enumerate(reader.input):
                if name == node.output[0]:
                    reader.input[slot] = node.input[0]
        found.append(_swept(candidate))
    return found


def _swept(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Without nodes and weights that nobody reads."""
    graph = proto.graph
    while True:
        read = {name for node in graph.node for name in node.input} | {info.name for info in graph.output}
        dead = [index for index, node in enumerate(graph.node) if not read.intersection(node.output)]
        for index in reversed(dead):
            del graph.node[index]
        if not dead:
            break
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return proto
