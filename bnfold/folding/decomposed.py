"""A BatchNormalization written out as constant arithmetic counts as one.

It is a whole row of Mul, Div, Add, Sub and Neg, each with one constant and the only consumer of the one before, in
which both a Mul or Div and an Add or Sub have a constant along axis 1: a float for each channel, stored or computed
from constants, in any shape that broadcasts there and nowhere else. In NHWC, beside a Transpose, it is the axis that
this has moved there, or moves away from there. The other constants are single numbers. So
exporters write FrozenBatchNorm of detectron2 and detr, and converters a BatchNormalization they know no operator for.

None are: a lone Mul or Add, rows of single numbers (they scale activations as often as they normalise), constants
along another axis or over several (LayerNormalization, position tables), rows with a BatchNormalization in them (which
goes by that), and the last steps of another normaliser, which multiply and add what that has centred and divided.
"""

from __future__ import annotations

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC, NORMALISING, REARRANGING
from bnfold.folding import chains
from bnfold.folding.chains import Link
from bnfold.semantics import Policy

SCALES = ("Mul", "Div")


def find_decomposed(model: ir.Model, policy: Policy) -> list[ir.Node]:
    """Return the last node of each."""
    with analysis.evaluated_once(model):
        firsts = [node for node in model.nodes() if _may_start_one(node)]
        return [row[-1].node for row in chains.all_of(firsts, policy) if _is_one(row)]


def _may_start_one(node: ir.Node) -> bool:
    """Whether the constants alone allow one: asking for a rank may take shape inference."""
    kinds: set[bool] = set()
    following: ir.Node | None = node
    for _ in range(chains.MAX_ROW):
        if following is None or not following.has_trait(ARITHMETIC) or not chains.has_constant(following):
            break
        held = [tensor.size for value in following.inputs if (tensor := analysis.constant(value)) is not None]
        kinds.update(following.is_op(*SCALES) for size in held if size > 1)
        made = following.output(0)
        following = made.only_consumer if made is not None and len(kinds) < 2 else None
    return len(kinds) == 2 and not any(normalises(value) for value in node.inputs)


def normalises(value: ir.Value | None) -> bool:
    """Whether a value is what another normaliser has centred and divided, perhaps with its axes moved."""
    producers = value.producers() if value is not None else ()
    node = next(
        (node for node in producers if not (node.has_trait(REARRANGING) or node.is_op("Cast", "Identity"))), None
    )
    if node is None or node.has_trait(NORMALISING):
        return node is not None
    divides = node.is_op("Div") or (node.is_op("Mul") and any(map(_is_inverse, node.inputs)))
    return divides and not chains.has_constant(node)


def _is_inverse(value: ir.Value | None) -> bool:
    node = value.producer if value is not None else None
    return node is not None and node.is_op("Reciprocal", "Div", "Pow")


def _is_one(row: list[Link]) -> bool:
    kinds: set[bool] = set()
    axes: set[int] = set()
    for link in row:
        if link.node.is_op("BatchNormalization"):
            return False
        held = analysis.constant(link.node.input(1 - link.slot))
        if held is None or held.size == 1:
            continue
        rank = link.affine.rank
        sizes = (1,) * (rank - len(held.dims)) + held.dims
        axes.update(axis for axis, size in enumerate(sizes) if size > 1)
        if rank < 2 or len(axes) != 1:
            return False
        kinds.add(link.node.is_op(*SCALES))
    return len(kinds) == 2 and axes <= _channels(row)


def _channels(row: list[Link]) -> set[int]:
    """Return the axes of channels: the second, and the one that a Transpose in front moved there or one behind takes.

    tf2onnx leaves an NHWC network's arithmetic between such.
    """
    (first, slot, affine), last = row[0], row[-1].node
    source, made = first.input(slot), last.output(0)
    before, after = source.producer if source is not None else None, made.only_consumer if made is not None else None
    axes = {1}
    if before is not None and before.is_op("Transpose"):
        axes.add(_order(before, affine.rank).index(1))
    if after is not None and after.is_op("Transpose"):
        axes.add(_order(after, affine.rank)[1])
    return axes


def _order(transpose: ir.Node, rank: int) -> list[int]:
    """Return which axis each one of the output is; in reverse where nothing is said, or what does not fit."""
    stated = list(transpose.attr("perm", []))
    return stated if sorted(stated) == list(range(rank)) else list(range(rank))[::-1]
