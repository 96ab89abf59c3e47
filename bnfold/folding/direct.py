"""The commonest fold, for all of its kind at once: a BatchNormalization right behind a Conv that nobody else reads.

`search` makes the same plans one by one, and a test holds the two against each other; but a search costs five times as
much, which shows where a model has thousands of them. What is not plain in every respect is left to the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from bnfold import ir
from bnfold.folding.magnitude import is_ordinary
from bnfold.folding.operators import AFFINE
from bnfold.folding.statistics import Table, tabulate
from bnfold.frozen import frozen
from bnfold.ir.tensor import TP, Exact, Float64, Scaled
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics.batchnorm import read_form

ABSORBER = ("Conv",)


@frozen(eq=False)
class Pair:
    """A Conv and the BatchNormalization behind it, with the new weight and bias (None: it had none and needs none)."""

    conv: ir.Node
    node: ir.Node
    kernel: Scaled
    bias: Exact | None

    @property
    def cut(self) -> ir.Cut:
        """The boundary of the rewrite, as `region.cut_of` draws it."""
        x, y = self.conv.inputs[0], self.node.outputs[0]
        assert x is not None, "a plain Conv reads something"
        assert y is not None, "a plain BatchNormalization makes something"
        return ir.Cut(self.node.graph.path, (x.name,), (y.name,), f"fold {self.node.label}")


def pairs(nodes: Iterable[ir.Node], policy: Policy, original: frozenset[str]) -> Iterator[Pair]:
    """The plain ones among ``nodes``, to be applied before the graph is changed otherwise."""
    table = tabulate(node for node in nodes if _is_plain(node, policy, original))
    if table is None:
        return
    convs = [node.inputs[0].producer for node in table.nodes if node.inputs[0] is not None]
    s, t = table.s, _new_biases(table, [conv.input(2) for conv in convs if conv is not None])
    needed = ~table.every(t == 0) | [conv is not None and conv.input(2) is not None for conv in convs]
    sound = table.sound & table.every(is_ordinary(s)) & (table.every(is_ordinary(t)) | ~needed)
    sound &= ~table.every((table.s == 1) & (table.t == 0))  # an identity just goes
    rows = zip(table.nodes, convs, table.vectors(s), table.vectors(t), needed, sound, strict=True)
    for node, conv, factors, shift, biased, fine in rows:
        kernel = conv.inputs[1].tensor if conv is not None and conv.inputs[1] is not None else None
        if fine and conv is not None and kernel is not None and kernel.dims[:1] == (factors.size,):
            yield Pair(conv, node, Scaled(kernel, [(0, factors)]), Exact(kernel.dtype, shift) if biased else None)


def apply(pair: Pair) -> str:
    """Edit the graph; the name of the value that is gone, which lay between the two."""
    conv, node = pair.conv, pair.node
    kernel, bias, between, made = conv.inputs[1], conv.input(2), conv.outputs[0], node.outputs[0]
    assert kernel is not None, "a plain Conv has a weight"
    assert between is not None, "its output is what the BatchNormalization reads"
    conv.set_output(0, made)
    node.graph.remove(node)
    kernel.tensor = pair.kernel
    if pair.bias is not None and bias is not None:
        bias.tensor = pair.bias
    elif pair.bias is not None:
        conv.set_input(2, node.graph.add_constant(f"{conv.label}_bias", pair.bias))
    return between.name


def _new_biases(table: Table, biases: list[ir.Value | None]) -> Float64:
    """``s·b + t`` for all nodes; a bias of another length than the statistics makes its node unsound."""
    flat = np.zeros_like(table.s)
    held = [(index, value) for index, value in enumerate(biases) if value is not None]
    values, sizes = ir.flat_floats([value for _, value in held])
    end = 0
    for (index, _), size in zip(held, sizes, strict=True):
        start, end = end, end + size
        place = flat[table.starts[index] :][: table.sizes[index]]
        place[:] = values[start:end] if size == place.size else np.nan
    with np.errstate(all="ignore"):
        return table.s * flat + table.t


def _is_plain(node: ir.Node, policy: Policy, original: frozenset[str]) -> bool:
    if len(node.inputs) != 5 or len(node.outputs) != 1:
        return False
    between, made = node.inputs[0], node.outputs[0]
    if between is None or made is None or between.only_reader is not node:
        return False
    conv = between.producer
    if conv is None or not conv.is_op("Conv") or conv.graph is not node.graph or len(conv.outputs) != 1:
        return False
    return (
        _is_end_of_row(made)
        and made.name in original
        and _has_plain_weights(conv, original)
        and _is_plain_form(node, policy)
        and _may_match(node, between)
    )


def _is_end_of_row(made: ir.Value) -> bool:
    """Whether somebody reads the value, and no affine that would have to move along."""
    if made.is_output:
        return True
    reader = made.only_reader
    if reader is None:
        return bool(made.uses)
    return not reader.is_op(*AFFINE) or _joins(reader)


def _joins(reader: ir.Node) -> bool:
    """Whether arithmetic has two computed operands, as where a shortcut ends: no affine then."""
    return len(reader.inputs) == 2 and all(ir.constant(value) is None for value in reader.inputs)


def _has_plain_weights(conv: ir.Node, original: frozenset[str]) -> bool:
    """Whether a Conv reads a computed value, and a kernel and bias that are its own."""
    x, kernel, bias = conv.input(0), conv.input(1), conv.input(2)
    if x is None or x.name not in original or len(conv.inputs) > 3 or ir.constant(x) is not None:
        return False
    if kernel is None or not _is_own(kernel, conv) or kernel.dtype not in (TP.FLOAT, TP.DOUBLE):
        return False
    return bias is None or (_is_own(bias, conv) and bias.dtype == kernel.dtype and len(bias.shape or ()) == 1)


def _is_own(value: ir.Value, conv: ir.Node) -> bool:
    """Whether a value is a constant initializer that only the Conv reads, so that its name can pass on."""
    return (
        value.only_use is not None
        and value.graph is conv.graph
        and value.graph.model.is_constant_initializer(value)
        and not value.is_input
    )


def _is_plain_form(node: ir.Node, policy: Policy) -> bool:
    try:
        form = read_form(node, policy)
    except Unreadable:
        return False
    return form.mode == "inference" and not form.per_activation


def _may_match(node: ir.Node, between: ir.Value) -> bool:
    """False where the file says that the value has another number of channels than there are parameters."""
    if between.type is None or between.shape is None:
        return True
    scale = node.inputs[1]
    channels = between.shape[1] if len(between.shape) > 1 else 1
    return not isinstance(channels, int) or (scale is not None and scale.shape == (channels,))
