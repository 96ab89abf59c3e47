"""Initializers that are inputs too: defaults that callers may override, or all that an exporter lists by habit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from bnfold import ir
from bnfold.analysis.shapes.propagation import numbers_read
from bnfold.report.events import BatchNormEvent, Report
from bnfold.settings import Options

ASKED = "as asked, callers can no longer feed the weights that were also inputs ({count})"
FROZEN = (
    "callers can no longer feed the weights that were also inputs ({count}), so that more BatchNormalizations fold "
    "({more}). The file listed every weight as an input; --overridable keep leaves them as they are"
)
KEPT = (
    "--overridable freeze would fold more BatchNormalizations ({more}), if no caller feeds the weights that are also "
    "inputs ({count})"
)

SIZES = (
    "weights that are also inputs ({names}) decide sizes of {operators}, which are left or converted for any value of "
    "them. --overridable freeze takes them for constants, if no caller feeds them"
)


def names(model: ir.Model) -> list[str]:
    """Return the inputs with a default."""
    return [value.name for value in model.graph.inputs if model.is_overridable(value)]


def freeze(model: ir.Model) -> str:
    """Make constants of the inputs with a default; return the advice to do so, empty if there are none."""
    if not names(model):
        return ""
    from bnfold import converting

    converting.strip_initializer_inputs(model, frozen=True)
    return "give `--overridable freeze`, if no caller feeds the weights that are also inputs"


def is_frozen(
    model: ir.Model, options: Options, report: Report, trial: Callable[[bool], Sequence[BatchNormEvent]]
) -> bool:
    """Whether they are taken for constants; a note says so, or what that would fold.

    ``trial`` folds a copy, with frozen initializers or without, and returns what became of its BatchNormalizations.
    """
    count = len(names(model))
    if not count:
        return False
    if options.overridable == "freeze":
        report.notes.append(ASKED.format(count=count))
        return True
    foldable = any(node.is_op("BatchNormalization", "Mul", "Div") for node in model.nodes())
    if options.fold and foldable and (more := _more(model, trial)) > 0:
        freezes = options.overridable == "auto" and _lists_every_initializer(model.proto.graph)
        report.notes.append((FROZEN if freezes else KEPT).format(count=count, more=more))
        return freezes
    report.notes.extend(_decided_sizes(model))
    return False


def _decided_sizes(model: ir.Model) -> list[str]:
    """Say which operators' sizes depend on inputs with a default."""
    found = [(value.name, node.op_type) for node in model.nodes() for value in numbers_read(node)
             if model.is_overridable(value)]  # fmt: skip
    inputs, operators = (sorted({row[column] for row in found}) for column in (0, 1))
    return [SIZES.format(names=", ".join(inputs[:_FEW]), operators=", ".join(operators))] if found else []


_FEW = 3
"""Inputs that the note names."""


def _more(model: ir.Model, trial: Callable[[bool], Sequence[BatchNormEvent]]) -> int:
    """Count the BatchNormalizations that fold only with frozen initializers.

    Where each has a parameter that callers may replace, none folds without: that takes no second trial.
    """
    frozen = trial(True)
    nodes = [node for node in model.nodes() if node.is_op("BatchNormalization")]
    if all(_is_replaceable(model, node) for node in nodes) and all(not event.is_affine for event in frozen):
        return sum(not event.is_left and event.verdict != "removed" for event in frozen)
    return sum(not event.is_left for event in frozen) - sum(not event.is_left for event in trial(False))


def _is_replaceable(model: ir.Model, node: ir.Node) -> bool:
    return any(value is not None and model.is_overridable(value) for value in node.inputs[1:])


def _lists_every_initializer(graph: onnx.GraphProto) -> bool:
    """Whether every initializer is listed; a file that lists some has chosen them."""
    inputs = {info.name for info in graph.input}
    dense = {tensor.name for tensor in graph.initializer}
    return inputs >= dense | {tensor.values.name for tensor in graph.sparse_initializer}
