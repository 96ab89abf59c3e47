#!/usr/bin/env python
"""Fold every model of a folder, and check on the result that the reasons for remaining BatchNormalizations hold.

    .venv/bin/python scripts/check_reasons.py CORPUS

A reason names a node or a value, which this script looks up in the graph. Its rules:

* a negative scale is before an operator that only positive scales pass, and both ways were tried;
* an output is an output of the graph, and a barrier is crossed;
* a shared value has several consumers, and one cannot undo a change;
* the Adds that would replace a BatchNormalization read and write as many numbers as it does, by the sizes that onnx
  infers.

Reasons without a rule are counted as such. Exit code 1 if one does not hold.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from _environment import require_models  # first, for its message to users of another Python

# isort: split
import numpy as np
import onnx

import bnfold
from bnfold import analysis, ir
from bnfold.report.events import BatchNormEvent

ONE_SIGN = {"Relu", "LeakyRelu", "PRelu", "Abs", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Max", "Min"}


def main() -> int:
    """Print a line for each reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--largest", type=int, default=1 << 40, help="bytes of a model, without external data")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for path in require_models([arguments.folder], sought=f"model in {arguments.folder}"):
        if path.stat().st_size > arguments.largest:
            continue
        try:
            outcome = bnfold.optimize(path, verify=bnfold.VerifyOptions(depth="none"))
        except bnfold.BnfoldError:
            continue
        left = [event for event in outcome.report.batchnorms if event.verdict in ("kept", "upgraded")]
        model = ir.load(outcome.to_proto()) if left else None
        for event in left:
            assert model is not None, "something is left"
            if event.reason is None:
                print(f"{path}: no reason: {event}")
                counts.setdefault("no reason", Counter())["fails"] += 1
                continue
            holds = _holds(model, event, outcome.report.renamed)
            counts.setdefault(event.reason.code, Counter())[holds] += 1
            if holds == "fails":
                print(f"{path}: {event}")
    for code, count in sorted(counts.items()):
        print(f"{code}: {count['holds']} hold, {count['fails']} do not, {count['open']} with nothing to look up")
    return int(any(count["fails"] for count in counts.values()))


def _holds(model: ir.Model, event: BatchNormEvent, renamed: dict[str, str]) -> str:
    """Return ``holds``, ``fails``, or ``open`` if there is nothing to look up."""
    code, detail = event.reason.code if event.reason is not None else "", event.detail
    if code == "shared-value" and ": " in detail:
        if not any(len(value.uses) > 1 for value in _values(model, detail, renamed)):
            return "fails"
        code, detail = detail.rpartition("[")[2].rstrip("]"), detail.partition("; ")[2]
        return "holds" if code != "negative-scale" or _named(model, detail, ONE_SIGN) else "fails"
    check = CHECKS.get(code)
    return "open" if check is None else "holds" if check(model, event, renamed) else "fails"


def _values(model: ir.Model, detail: str, renamed: dict[str, str]) -> Iterator[ir.Value]:
    """Return the values of all graphs that a detail names."""
    names = {renamed.get(name, name) for name in re.findall(r"(?:value|graph input|graph output) '([^']*)'", detail)}
    graphs = dict.fromkeys([model.graph, *(node.graph for node in model.nodes())])
    yield from (graph.values[name] for graph in graphs for name in names if name in graph.values)


def _named(model: ir.Model, detail: str, operators: set[str]) -> bool:
    labels = set(re.findall(r"'([^']*)'", detail))
    return any(node.label in labels and node.op_type in operators for node in model.nodes())


def _made(model: ir.Model, event: BatchNormEvent) -> ir.Node | None:
    return next((node for node in model.nodes() if node.label == event.name), None)


def _in_front(node: ir.Node | None) -> ir.Node | None:
    """Return the BatchNormalization before a node: one without a name is found by its output's name, which changed."""
    value = node.input(0) if node is not None else None
    producer = value.producer if value is not None else None
    return producer if producer is not None and producer.is_op("BatchNormalization") else None


def _negative(model: ir.Model, event: BatchNormEvent, _: dict[str, str]) -> bool:
    node = _made(model, event)
    scale = analysis.constant(node.input(1)) if node is not None else None
    tried = {attempt.direction for attempt in event.attempts}
    has_negative = scale is None or bool(np.any(scale.float64() < 0))  # else the sign turns on the way
    return tried >= {"up", "down"} and has_negative and _named(model, event.detail, ONE_SIGN)


def _training(model: ir.Model, event: BatchNormEvent, _: dict[str, str]) -> bool:
    node = _made(model, event)
    return node is None or len([made for made in node.outputs if made]) > 1 or bool(node.attr("training_mode", 0))


def _instance(model: ir.Model, event: BatchNormEvent, new: dict[str, str]) -> bool:
    """Whether it trains between two Reshapes, and the reported obstacle is there."""
    node = _made(model, event)
    if node is None:
        return True
    beside = [made.producer for made in node.inputs[:1] if made is not None]
    beside += [made.only_consumer for made in node.outputs[:1] if made is not None]
    return _training(model, event, new) and all(each is not None and each.is_op("Reshape") for each in beside)


def _dynamic(model: ir.Model, event: BatchNormEvent, _: dict[str, str]) -> bool:
    node = _made(model, event)
    return node is None or any(analysis.constant(value) is None for value in node.inputs[1:5])


def _no_gain(model: ir.Model, event: BatchNormEvent, _: dict[str, str]) -> bool:
    """Whether the Adds are more, or as many that read and write no less, counted in numbers and not in elements."""
    places = re.findall(r"(in front of|behind) \S+ '([^']*)'", event.detail)
    if len(places) > 1:
        return True
    side, label = places[0] if places else ("", "")
    beside = next((made for made in model.nodes() if made.label == label), None)
    node = _made(model, event) or _in_front(beside)
    if node is None or beside is None:
        return any(phrase in event.detail for phrase in ("has no reader", "would stay", "bytes more"))
    known = onnx.shape_inference.infer_shapes(model.proto, data_prop=True).graph
    sizes = {info.name: info.type.tensor_type.shape for info in (*known.input, *known.value_info, *known.output)}
    before, value = _numbers(sizes, node.output(0)), beside.input(0) if side == "in front of" else beside.output(0)
    after = _numbers(sizes, value)
    # Behind a Conv it is an image, whose constant is read beside the value, and both layouts are changed for it.
    times = 4 if side == "behind" and beside.is_op("Conv") else 1
    return before is None or after is None or 2 * before <= 2 * times * after


def _numbers(sizes: dict[str, onnx.TensorShapeProto], value: ir.Value | None) -> int | None:
    """Return the number of elements of a value, if no size is open."""
    shape = sizes.get(value.name) if value is not None else None
    dims = [dim.dim_value for dim in shape.dim] if shape is not None else [0]
    return math.prod(dims) or None


CHECKS: dict[str, Callable[[ir.Model, BatchNormEvent, dict[str, str]], bool]] = {
    "negative-scale": _negative,
    "training-mode": _training,
    "instance-unproven": _instance,
    "dynamic-parameters": _dynamic,
    "no-gain": _no_gain,
    "graph-output": lambda model, event, new: any(one.is_output for one in _values(model, event.detail, new)),
    "graph-input": lambda model, event, new: any(one.producer is None for one in _values(model, event.detail, new)),
    "shared-value": lambda model, event, new: any(len(one.uses) > 1 for one in _values(model, event.detail, new)),
    "barrier": lambda model, event, new: any(
        one.graph is not consumer.graph for one in _values(model, event.detail, new) for consumer, _ in one.uses
    ),
}
if __name__ == "__main__":
    sys.exit(main())
