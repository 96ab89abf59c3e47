"""The commonest fold, for all of its kind at once: a BatchNormalization right behind a Conv that nobody else reads.

A Mul and an Add of constants behind it, as Caffe has them, go along.

`search` makes the same plans one by one, and a test holds the two against each other; but a search costs five times as
much, which shows where a model has thousands of them. What is not plain in every respect is left to the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bnfold import ir
from bnfold.classes import frozen
from bnfold.folding.magnitude import is_ordinary
from bnfold.folding.statistics import Table, tabulate
from bnfold.folding.tails import Tail, behind
from bnfold.ir.tensor import TP, Exact, Float64, Scaled
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics.batchnorm import read_form

ABSORBER = ("Conv",)


@frozen(eq=False)
class Pair:
    """A Conv and the BatchNormalization behind it, with the new weight and bias (None: it had none and needs none)."""

    conv: ir.Node
    row: tuple[ir.Node, ...]
    kernel: Scaled
    bias: Exact | None

    @property
    def node(self) -> ir.Node:
        """The BatchNormalization; what stands behind it in the row has constant operands."""
        return self.row[0]

    @property
    def cut(self) -> ir.Cut:
        """The boundary of the rewrite, as `region.cut_of` draws it."""
        x, y = self.conv.inputs[0], self.row[-1].outputs[0]
        assert x is not None, "a plain Conv reads something"
        assert y is not None, "a plain row makes something"
        return ir.Cut(self.node.graph.path, (x.name,), (y.name,), f"fold {self.row[-1].label}")


def pairs(nodes: Iterable[ir.Node], policy: Policy, original: frozenset[str]) -> Iterator[Pair]:
    """The plain ones among ``nodes``, to be applied before the graph is changed otherwise."""
    found = {node: tail for node in nodes if (tail := _plain_tail(node, policy, original)) is not None}
    table = tabulate(found)
    if table is None:
        return
    rows = [found[node] for node in table.nodes]
    convs = [node.inputs[0].producer for node in table.nodes if node.inputs[0] is not None]
    s, t = _with_tails(table, rows)
    t = _new_biases(table, s, t, [conv.input(2) for conv in convs if conv is not None])
    needed = ~table.every(t == 0) | [conv is not None and conv.input(2) is not None for conv in convs]
    sound = table.sound & table.every(is_ordinary(s)) & (table.every(is_ordinary(t)) | ~needed)
    sound &= ~table.every((s == 1) & (t == 0))  # an identity just goes
    columns = zip(table.nodes, rows, convs, table.vectors(s), table.vectors(t), needed, sound, strict=True)
    for node, tail, conv, factors, shift, biased, fine in columns:
        kernel = conv.inputs[1].tensor if conv is not None and conv.inputs[1] is not None else None
        if fine and conv is not None and kernel is not None and kernel.dims[:1] == (factors.size,):
            bias = Exact(kernel.dtype, shift) if biased else None
            yield Pair(conv, (node, *tail.nodes), Scaled(kernel, [(0, factors)]), bias)


def apply(pair: Pair) -> list[str]:
    """Edit the graph; the names of the values that are gone, which lay between the first node and the last."""
    conv, made = pair.conv, pair.row[-1].outputs[0]
    kernel, bias = conv.inputs[1], conv.input(2)
    assert kernel is not None, "a plain Conv has a weight"
    between = [value.name for node in (conv, *pair.row[:-1]) for value in node.outputs if value is not None]
    conv.set_output(0, made)
    for node in reversed(pair.row):
        node.graph.remove(node)
    kernel.tensor = pair.kernel
    if pair.bias is not None and bias is not None:
        bias.tensor = pair.bias
    elif pair.bias is not None:
        conv.set_input(2, conv.graph.add_constant(f"{conv.label}_bias", pair.bias))
    return between


def _with_tails(table: Table, tails: Sequence[Tail]) -> tuple[Float64, Float64]:
    """``s`` and ``t`` of the rows; a constant of another length than the statistics makes its row unsound."""
    if not any(tail.nodes for tail in tails):
        return table.s, table.t
    s, t = table.s.copy(), table.t.copy()
    for tail, scale, shift in zip(tails, table.vectors(s), table.vectors(t), strict=True):
        fits = all(constant.size in (1, scale.size) for constant in tail.constants)
        scale[:], shift[:] = tail.after(scale, shift) if fits else (np.nan, np.nan)
    return s, t


def _new_biases(table: Table, s: Float64, t: Float64, biases: list[ir.Value | None]) -> Float64:
    """``s·b + t`` for all nodes; a bias of another length than the statistics makes its node unsound."""
    flat = np.zeros_like(s)
    held = [(index, value) for index, value in enumerate(biases) if value is not None]
    values, sizes = ir.flat_floats([value for _, value in held])
    end = 0
    for (index, _), size in zip(held, sizes, strict=True):
        start, end = end, end + size
        place = flat[table.starts[index] :][: table.sizes[index]]
        place[:] = values[start:end] if size == place.size else np.nan
    with np.errstate(all="ignore"):
        return s * flat + t


def _plain_tail(node: ir.Node, policy: Policy, original: frozenset[str]) -> Tail | None:
    """What stands behind a plain BatchNormalization of a plain Conv; None where something about it is not plain."""
    if len(node.inputs) != 5 or len(node.outputs) != 1:
        return None
    between = node.inputs[0]
    if between is None or between.only_reader is not node:
        return None
    conv = between.producer
    if conv is None or not conv.is_op("Conv") or conv.graph is not node.graph or len(conv.outputs) != 1:
        return None
    if not (_has_plain_weights(conv, original) and _is_plain_form(node, policy) and _may_match(node, between)):
        return None
    tail = behind(node, conv.inputs[1]) if conv.inputs[1] is not None else None
    made = tail.nodes[-1].outputs[0] if tail is not None and tail.nodes else node.outputs[0]
    return tail if made is not None and made.name in original else None


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
