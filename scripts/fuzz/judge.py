"""Rewrite a model, compare it with the original in float64, and shrink the differing ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from bnfold import ir, reference
from bnfold.errors import BnfoldError, ConversionBlocked, Unsupported
from bnfold.folding import facts
from bnfold.ir.fixing import fix_inputs
from bnfold.pipeline import passes
from bnfold.report.events import Report
from bnfold.settings import Options
from fuzz import condition, distance, feeding, promises, watch
from fuzz.builder import Array
from fuzz.case import Outcome

Feeds = Mapping[str, Array]
UNIT = {TensorProto.DOUBLE: 1e-9, TensorProto.FLOAT: 2e-3, TensorProto.FLOAT16: 5e-2}
"""Error relative to an output's largest value that weights rounded to a type do not explain."""

SIZES = 2
"""Sizes that dynamic dims are tried at."""


def options(mode: str) -> Options:
    """Choose options: ``fold`` keeps the opset, ``affines`` also folds other affines, ``optimize`` does everything.

    Overridable inputs stay, for they get other values.
    """
    if mode == "optimize":
        return Options(decompose="remaining", max_growth=1 << 30, overridable="keep")
    affines = mode == "affines"
    return Options(
        target_opset="keep", all_affines=affines, merge_branches=affines, max_growth=1 << 30, overridable="keep"
    )


def judge(proto: onnx.ModelProto, feeds: Feeds, how: str | Options = "fold", *, keep: Path | None = None) -> Outcome:
    """Rewrite and compare. A crash of the rewrite is an error; a model without a float64 evaluation is none.

    ``how`` is the name of a mode, or options; the result is written to ``keep``. Models that cannot be upgraded are
    refused.
    """
    settings = options(how) if isinstance(how, str) else how
    try:
        expected = reference.evaluate(ir.load(proto), feeds)
    except reference.CannotEvaluate:
        return Outcome("")
    model = ir.load(proto)
    try:
        with _unforgiving():
            report = passes.rewrite(model, settings)
        found = reference.evaluate(_saved(model, keep), feeds)
    except ConversionBlocked as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Unsupported as refusal:
        if isinstance(settings.ir_version, int) and "cannot be of IR version" in str(refusal):
            return Outcome(behaviour=watch.refusal(refusal), refused=True)
        return Outcome(watch.crash(refusal))
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    after = _saved(model, keep)
    error = _compared(proto, feeds, expected, found)
    if not settings.fix_shapes:
        error = error or _at_other_sizes(proto, feeds, after)
    error = _left(model, report, settings) or _broken_promise(proto, after, report, found, settings.fix_shapes) or error
    return Outcome(error, _behaviour(report), len(report.batchnorms), _gone(report), compared=True)


def _compared(proto: onnx.ModelProto, feeds: Feeds, expected: Feeds, found: Feeds) -> str:
    tolerance = _tolerance(proto)
    error = _difference(expected, found, tolerance)
    if not error or condition.explains(proto, feeds, expected, found):
        return ""
    return _difference(condition.without_ties(proto, feeds, expected, found, tolerance), found, tolerance)


def _at_other_sizes(proto: onnx.ModelProto, drawn: Feeds, after: ir.Model) -> str:
    """Find the difference at other sizes of dynamic dims that the original runs at."""
    for seed in range(SIZES):
        feeds = feeding.resized(proto, drawn, np.random.default_rng(seed))
        if all(array.shape == drawn[name].shape for name, array in feeds.items()):
            break
        try:
            expected = reference.evaluate(ir.load(proto), feeds)
        except BnfoldError:
            continue
        try:
            error = _compared(proto, feeds, expected, reference.evaluate(after, feeds))
        except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
            error = watch.crash(crash)
        if error:
            return f"{error} at {', '.join(f'{name} {array.shape}' for name, array in feeds.items())}"
    return ""


@contextmanager
def _unforgiving() -> Iterator[None]:
    """Let handlers raise. The models are legal: an exception is the handler's own fault."""
    forgiven, facts.MISFIT = facts.MISFIT, ()
    try:
        yield
    finally:
        facts.MISFIT = forgiven


def _behaviour(report: Report) -> str:
    """Describe the fate of the BatchNormalizations, and the operators that they passed."""
    facts = {f"{event.verdict} {event.reason} {'-'.join(event.operators)}" for event in report.batchnorms}
    facts |= {f"equalized {event.reason} {'-'.join(event.passed)}" for event in report.equalized}
    return " ".join(sorted(facts | {repair.kind for repair in report.repairs}))


def _broken_promise(
    proto: onnx.ModelProto, after: ir.Model, report: Report, found: Feeds, fixed: Mapping[str, Sequence[int]]
) -> str:
    """Find inputs that callers may no longer set, and outputs not as declared; frozen defaults have to be reported."""
    original = ir.load(proto)
    fix_inputs(original, fixed)
    before, result = original.proto, after.proto
    kept = [info for info in before.graph.input if info.name not in report.frozen]
    del before.graph.input[:]
    before.graph.input.extend(kept)
    if promises.are_narrower(before, result):
        return "interface: inputs or outputs are not those that they were"
    told = promises.of_outputs(before, result)
    broken = [name for name, array in found.items() if promises.is_broken(told[name], array.shape)]
    return f"interface: outputs {broken} are declared wrongly" if broken else ""


def _left(model: ir.Model, report: Report, settings: Options) -> str:
    """Find normalisations that should be decomposed and remain without a reason in the report."""
    if settings.decompose != "all":
        return ""
    left = [node for node in model.nodes() if node.op_type in settings.decompose_ops]
    silent = [event for event in report.batchnorms if event.verdict == "kept" and event.reason is None]
    kept = sum(event.verdict == "kept" for event in report.batchnorms)
    norms = sum(node.op_type == "BatchNormalization" for node in left)
    return f"left: {norms} BatchNormalizations, {kept} reported" if silent or norms > kept else ""


def _saved(model: ir.Model, keep: Path | None) -> ir.Model:
    """Return the model after writing and reading it."""
    if keep is not None:
        ir.save(model, keep)
        return ir.load(keep.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        ir.save(model, Path(folder) / "model.onnx")
        return ir.load((Path(folder) / "model.onnx").read_bytes())


def _gone(report: Report) -> int:
    return report.count("folded") + report.count("exchanged") + report.count("removed")


def _tolerance(proto: onnx.ModelProto) -> float:
    """Return the tolerance: quantised values are float32 on the way, and so are some constants."""
    is_narrow = any(node.op_type in ("DequantizeLinear", "Cast") for node in proto.graph.node)
    least = 1e-5 if is_narrow else 1e-9
    return max(least, *(UNIT.get(info.type.tensor_type.elem_type, 0.0) for info in proto.graph.input))


def _difference(expected: Feeds, found: Feeds, tolerance: float) -> str:
    for name, array in expected.items():
        other = found[name]
        if array.shape != other.shape or array.dtype != other.dtype:
            return f"{name}: {array.dtype}{array.shape} became {other.dtype}{other.shape}"
        if array.dtype.kind == "f" and np.isinf(array).any():
            continue  # the sign of a zero may have decided the sign of an infinity, and no fold keeps it
        is_float = array.dtype.kind == "f"  # inf − inf, put together in one kernel first, is infinite
        wanted = np.where(np.isnan(array) & np.isinf(other), other, array) if is_float else array
        error = distance.relative(wanted, other, at_least=1.0)
        if error > tolerance:
            return f"{name}: relative error {error:.1e}"
    return ""


def shrink(proto: onnx.ModelProto, feeds: Feeds, fails: Callable[[onnx.ModelProto, Feeds], bool]) -> onnx.ModelProto:
    """Return the model without every output and node that the failure does not need."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in chain(_fewer_outputs(proto), fewer_nodes(proto)):
            if fails(candidate, feeds):
                proto, smaller = candidate, True
                break
    return proto


def _fewer_outputs(proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    for index in range(len(proto.graph.output)) if len(proto.graph.output) > 1 else ():
        candidate = onnx.ModelProto.FromString(proto.SerializeToString())
        del candidate.graph.output[index]
        yield _swept(candidate)


def fewer_nodes(proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield models with one node removed each, if its consumers can read its first input instead."""
    for index, node in enumerate(proto.graph.node):
        if len(node.output) != 1 or not node.input or any(info.name == node.output[0] for info in proto.graph.output):
            continue
        candidate = onnx.ModelProto.FromString(proto.SerializeToString())
        del candidate.graph.node[index]
        for consumer in candidate.graph.node:
            for slot, name in enumerate(consumer.input):
                if name == node.output[0]:
                    consumer.input[slot] = node.input[0]
        yield _swept(candidate)


def _swept(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without unused nodes and weights."""
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
