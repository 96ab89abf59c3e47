"""Nodes that leave the order of the elements alone: Reshape, Flatten, Squeeze and Unsqueeze, alone and in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.shapes.products import factors, named
from bnfold.analysis.traits import REDUCING, RESHAPING
from bnfold.edits.edit import can_bypass
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import integers, same_dims, store_target
from bnfold.simplifying.parameters import numbers, replacement
from bnfold.simplifying.plan import Simplification, bypass, only_above, replace
from bnfold.simplifying.transposing import keeps_order


def find_reduction(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan a reduction that keeps its axes in place of one before Unsqueeze, or that drops them before Squeeze."""
    keeps, first = node.is_op("Unsqueeze"), only_above(node)
    if first is None or not first.has_trait(REDUCING):
        return None
    if bool(first.attr("keepdims", 1)) == keeps:
        return None
    reduced, other, dims = numbers(first, "axes", known), numbers(node, "axes", known), known.dims(first.input(0))
    if not reduced or not other or len(reduced) != len(other) or _places(reduced, dims) != _places(other, dims):
        return None  # of as many axes, negative ones count from the same rank
    attrs = {name: first.attr(name) for name in first.attrs} | {"keepdims": int(keeps)}
    joined = rewrites.REDUCTION_AXES.of(first.op_type, node.op_type)
    return replace(joined, node, first.op_type, first.inputs, attrs)


def _places(axes: list[int], dims: tuple[Dim, ...] | None) -> set[int]:
    """Return axes counted from the front, where the rank is known."""
    return {axis + len(dims) if axis < 0 and dims is not None else axis for axis in axes}


_FAR = 8
"""Such nodes in a row that are looked at."""


def find_reshaping(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave nodes out between two values of one shape, or to make one of two."""
    if not _reshapes(node, known):
        return None
    made = node.output(0)
    for sources, source in _above(node, known):
        is_same = same_dims(known, source, made) or _cancel(sources, known)
        if is_same and can_bypass(node, source):
            is_one = len(sources) == 1
            return bypass(rewrites.SAME_SHAPE.of(node.op_type) if is_one else rewrites.RESHAPE_PAIR, node, source)
    return _one_of_two(node, known)


def _reshapes(node: ir.Node, known: Proven) -> bool:
    return node.is_op(*RESHAPING) or (node.is_op("Transpose") and not node.has_references and keeps_order(node, known))


def _above(node: ir.Node, known: Proven) -> Iterator[tuple[list[ir.Node], ir.Value]]:
    """Yield rows of such nodes that end in ``node``, shortest first, each with the value that its first node reads."""
    row = [node]
    while len(row) <= _FAR and (source := row[-1].input(0)) is not None:
        yield row, source
        producer = source.producer
        if producer is None or not _reshapes(producer, known) or producer.graph is not node.graph:
            return
        row.append(producer)


def _cancel(row: list[ir.Node], known: Proven) -> bool:
    """Whether a Squeeze and an Unsqueeze cancel each other, whatever the shape."""
    if [node.op_type for node in row] not in (["Squeeze", "Unsqueeze"], ["Unsqueeze", "Squeeze"]):
        return False
    axes = [numbers(node, "axes", known) for node in row]
    return bool(axes[0]) and axes[0] == axes[1] and min(axes[0] or (-1,)) >= 0


def _target(node: ir.Node, known: Proven) -> list[Dim] | None:
    """Return the target of a Reshape: sizes, 0 for the input's size on that axis, -1 for the remaining elements."""
    told = known.integers(node.input(1))
    if told is None or not told.dims or (node.attr("allowzero", 0) and 0 in told.items):
        return None
    return list(told.items)


def learn_target(node: ir.Node, known: Proven) -> None:
    """Note the sizes that a Reshape makes, which inference may not have followed."""
    target, made = _target(node, known), node.output(0)
    if target is not None and made is not None:
        known.learn(made, _sizes(node, target, known))


def _sizes(node: ir.Node, target: Sequence[Dim], known: Proven) -> list[Dim]:
    """Return the sizes that a target makes."""
    dims = known.dims(node.input(0))
    copied = [_at(dims, place) if item == 0 else item for place, item in enumerate(target)]
    rest = _rest(node, copied, known) if -1 in copied else None
    return [rest if item == -1 else item for item in copied]


def _rest(node: ir.Node, target: Sequence[Dim], known: Proven) -> Dim:
    """Return what a -1 stands for: sizes of a source that the target does not have.

    Beside a size of zero no runtime infers it; with ``allowzero`` onnxruntime takes 1 all the same.
    """
    if None in target:
        return None
    names, number = factors(item for item in target if item is not None and item != -1)
    for dims in (known.dims(source) for _, source in _above(node, known)):
        if dims is None or None in dims:
            continue
        others, elements = factors(dim for dim in dims if dim is not None)
        if names <= others and number > 0 and elements % number == 0:
            size = named(others - names, elements // number)
            return size if size == 1 or not node.attr("allowzero", 0) else None
    return None


def _at(dims: Sequence[Dim] | None, place: int) -> Dim:
    return dims[place] if dims is not None and place < len(dims) else None


def find_target(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to store the target of a Reshape that is computed from dynamic sizes."""
    if analysis.constant(node.input(1)) is not None:
        return None
    target, source = _target(node, known), known.dims(node.input(0))
    if target is None:
        return None
    if node.attr("allowzero", 0):  # onnxruntime infers a -1 beside a zero
        target = [None if item == -1 else item for item in target]
    settled = _settled(target, source, known)
    if settled is None and -1 in target:
        settled = _settled(_with_rest(node, target, known), source, known)
    return store_target(node, 1, list(settled), {}) if settled is not None else None


def _with_rest(node: ir.Node, target: list[Dim], known: Proven) -> list[Dim]:
    """Return a target with the size that its -1 stands for, if no size in it can be zero in a run that ends well.

    A zero copies the size of the source; if that is zero as well, a -1 beside it stands for nothing.
    """
    source, rest = known.dims(node.input(0)), _sizes(node, target, known)[target.index(-1)]
    for place, item in enumerate(target):
        if isinstance(item, str):
            beside = _at(source, place)
            if beside is None or not factors([item])[0].keys() <= factors([beside])[0].keys():
                return target
    return [rest if item == -1 else item for item in target]


def _settled(target: list[Dim], source: Sequence[Dim] | None, known: Proven) -> list[int] | None:
    """Return a target of numbers: 0 on axes of the same size as the source, -1 for one other unknown size.

    With a -1, no other size may be zero, because the rest would be undefined then. If the model has a -1 itself, it
    stays.
    """
    copied = [0 if isinstance(item, str) and item == _at(source, at) else item for at, item in enumerate(target)]
    unknown = [at for at, item in enumerate(copied) if not isinstance(item, int)]
    if len(unknown) == 1 and all(
        at in unknown or _is_positive(_at(source, at) if item == 0 else item, known) for at, item in enumerate(copied)
    ):
        copied[unknown[0]] = -1
    sizes = [item for item in copied if isinstance(item, int)]
    return sizes if len(sizes) == len(copied) else None


def _is_positive(size: Dim, known: Proven) -> bool:
    return size > 0 if isinstance(size, int) else size in known.positive


def _one_of_two(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan one Reshape in place of two such nodes, if nothing else reads what is between them."""
    first = only_above(node)
    source = first.input(0) if first is not None and _reshapes(first, known) else None
    target = _from_source(node, known, source) if source is not None else None
    if target is None:
        return None
    return replacement(rewrites.RESHAPE_AFTER_RESHAPE, node, "Reshape", source, {"shape": integers(target)})


def _from_source(node: ir.Node, known: Proven, source: ir.Value) -> list[int] | None:
    """Return the target of one Reshape from ``source`` to the shape of ``node``, which is further down."""
    target, middle = (_target(node, known) if node.op_type == "Reshape" else None), known.dims(node.input(0))
    if target is not None:
        absolute = [_at(middle, place) if item == 0 else item for place, item in enumerate(target)]
        if all(isinstance(item, int) and item != 0 for item in absolute):
            return [item for item in absolute if isinstance(item, int)]  # a -1 is the same of as many elements
    dims = known.dims(node.output(0))
    if dims is None or 0 in dims:  # in a target, 0 is the size of the source
        return None
    return _settled(list(dims), known.dims(source), known)
