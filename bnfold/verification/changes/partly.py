"""What is known of small values that are computed from constants and sizes, whatever the inputs are.

The few nodes that compute a value are evaluated. A size that is not the same in every run makes every element unknown
that is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import Array
from bnfold.reference.constants import kept
from bnfold.reference.operators import BROADCASTING, CHOOSING, KEEPS_SHAPE, REARRANGING, SINGULAR
from bnfold.reference.shapes import ShapeWalk
from bnfold.reference.sizing import Sizes
from bnfold.verification.changes.extract import Subgraph, draws

_FEW = 64
"""Nodes that a value may be computed by, beyond those that are known."""
_MOVING = REARRANGING | CHOOSING | {"Cast", "Concat", "Identity"}
"""Operators whose results are elements of their inputs, one for each."""
_PLACEHOLDER = 5
"""Stands for a size that is not known."""
_MOST = 1 << 10
"""Elements of a value that is evaluated."""
_WIDE = 4
"""Bytes of an integer that has room for any size."""
_STEPS, _LARGEST = 1 << 10, 1 << 14
"""Floats that are multiples of 1/1024, and not larger than this, are the same in whatever way they are computed."""


class Partly(NamedTuple):
    """Elements, a mask of those that are not the same in every run, and whether rounding decides none of them.

    What is unknown in ``sizes`` are sizes, which are never negative.
    """

    elements: Array
    unknown: Array
    is_exact: bool = True
    sizes: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether every element is the same in every run."""
        return not self.unknown.any()


class PartlyKnown:
    """What is known of the values of one model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[ir.Value, Partly | None] = {}

    @cached_property
    def _shapes(self) -> ShapeWalk:
        return kept(self._model, ShapeWalk)

    @cached_property
    def has_poles(self) -> bool:
        """Whether some node may make different numbers of -0.0 and 0.0."""
        return any(node.domain or node.is_call or may_have_pole(node) for node in self._model.nodes())

    def dims(self, value: ir.Value) -> Sizes | None:
        """Return the sizes of a value as they follow; equal names are equal sizes in every run."""
        held = reference.constant(value)
        return held.dims if held is not None else self._shapes.dims(value)

    def dtype(self, value: ir.Value) -> int | None:
        """Return the element type of a value as it follows."""
        return self._shapes.dtype(value)

    def of(self, value: ir.Value) -> Partly | None:
        """Return what is known of a value; None if not even its shape is, or if it is not computed by a few nodes."""
        for node in self._computing(value) or ():
            made = only_output(node)
            try:
                self._known[made] = self._evaluated(node)
            except (BnfoldError, ValueError):
                self._known[made] = None
                break
        return self.read(value)

    def certain(self, value: ir.Value) -> Array | None:
        """Return the elements of a value if they are the same in every run, and no rounding decides them."""
        found = self.of(value)
        return found.elements if found is not None and found.is_certain and found.is_exact else None

    def _computing(self, value: ir.Value) -> list[ir.Node] | None:
        """Return the nodes that compute a value from constants and shapes, in order; None for others."""
        order: dict[ir.Node, None] = {}
        entered: set[ir.Node] = set()
        stack: list[tuple[ir.Value | None, ir.Node | None]] = [(value, None)]
        while stack:
            read, done = stack.pop()
            if done is not None:
                order[done] = None
            if read is None or read in self._known or reference.constant(read) is not None:
                continue
            node = read.producer
            if node is None or len(entered) > _FEW or not is_plain(node):
                self._known[value] = None
                return None
            if node not in entered:
                entered.add(node)
                stack.append((None, node))
                stack.extend((source, None) for source in node.inputs if self._measured(node) is None)
        return list(order)

    def read(self, value: ir.Value) -> Partly | None:
        """Return what is known already, or a constant."""
        if value in self._known:
            return self._known[value]
        held = reference.constant(value)
        return None if held is None or held.size > _MOST else _fully(held.numpy(), is_exact=True)

    def operands(self, node: ir.Node) -> dict[ir.Value, Partly]:
        """Return what is known of the inputs. Raises ValueError where nothing is known of one."""
        operands = {value: self.read(value) for value in node.inputs if value is not None}
        found = {value: known for value, known in operands.items() if known is not None}
        if len(found) < len(operands):
            raise ValueError("nothing is known of an operand")
        return found

    def _evaluated(self, node: ir.Node) -> Partly:
        if (measured := self._measured(node)) is not None:
            return measured
        operands = self.operands(node)
        known = [*operands.values()]
        is_exact = all(operand.is_exact for operand in known)
        if node.is_op("Size"):  # as of a shape: a rank
            return _fully(np.array(known[0].elements.size, np.int64), is_exact=is_exact)
        elements = _run(node, {value: operand.elements for value, operand in operands.items()})
        partly = [operand for operand in known if not operand.is_certain]
        if not partly:
            return _fully(elements, is_exact=is_exact)
        sizes = all(operand.sizes for operand in partly)
        if node.has_trait(BROADCASTING):
            unknown = _any(operand.unknown for operand in known)
            if node.is_op("Equal") and sizes:
                unknown &= ~_any(map(_is_negative, known))
            return Partly(elements, unknown, is_exact)
        if node.has_trait(KEEPS_SHAPE - _MOVING):
            return Partly(elements, np.ones(elements.shape, np.bool_), is_exact)
        marks = {value: operand.unknown for value, operand in operands.items()}
        sizes &= elements.dtype.itemsize >= _WIDE  # one that is cast to fewer bits may become negative
        return Partly(elements, moved(node, operands, marks), is_exact, sizes)

    def _measured(self, node: ir.Node) -> Partly | None:
        """Return what is known of a Shape or a Size; None if not even the rank is, and for other operators."""
        source = node.inputs[0] if node.is_op("Shape", "Size") else None
        dims = self.dims(source) if source is not None else None
        if dims is None:
            return None
        if node.is_op("Shape"):
            dims = dims[slice(node.attr("start", 0), node.attr("end", None))]
        sizes = np.array([dim if isinstance(dim, int) else _PLACEHOLDER for dim in dims], np.int64)
        unknown = np.array([not isinstance(dim, int) for dim in dims], np.bool_)
        if node.is_op("Size"):
            return Partly(np.asarray(sizes.prod()), np.asarray(unknown.any()), sizes=True)
        return Partly(sizes, unknown, sizes=True)


def known_of(model: ir.Model) -> PartlyKnown:
    """Return what is known of the values of a model, which is kept as long as its evaluated constants are."""
    return kept(model, PartlyKnown)


def only_output(node: ir.Node) -> ir.Value:
    """Return the output of a node that has one."""
    return next(value for value in node.outputs if value is not None)


def _fully(elements: Array, *, is_exact: bool) -> Partly:
    return Partly(elements, np.zeros(elements.shape, np.bool_), is_exact and _is_exact(elements))


def _any(masks: Iterable[Array]) -> Array:
    """Return which elements of a result are made of one that is marked, element by element."""
    return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*masks)), np.bool_)


def moved(node: ir.Node, operands: Mapping[ir.Value, Partly], marks: Mapping[ir.Value, Array]) -> Array:
    """Return where a node that moves elements puts those that are marked.

    Raises ValueError where it moves none, or where marks decide about the shape of the result.
    """
    data = node.inputs if node.is_op("Concat") else node.inputs[:1]
    if not node.has_trait(_MOVING) or any(mark.any() for value, mark in marks.items() if value not in data):
        raise ValueError("not even the shape of the result is known")
    fed = {
        value: marks[value].astype(operand.elements.dtype) if value in data else operand.elements
        for value, operand in operands.items()
    }
    return _run(node, fed).astype(np.bool_)


def may_have_pole(node: ir.Node) -> bool:
    """Whether a node may make different numbers of -0.0 and 0.0."""
    is_fixed = node.is_op("Div") and reference.constant(node.input(1)) is not None
    return node.has_trait(SINGULAR) and not node.is_op("Sqrt") and not is_fixed


def _is_negative(operand: Partly) -> Array:
    """Return which elements are known to be negative."""
    return ~operand.unknown & (operand.elements < 0)


def _is_exact(elements: Array) -> bool:
    if elements.dtype.kind != "f":
        return True
    wide = elements.astype(np.float64)
    if not np.all(np.abs(wide) <= _LARGEST):
        return False
    return bool(np.all(wide * _STEPS == np.floor(wide * _STEPS)))


def is_plain(node: ir.Node) -> bool:
    """Whether a node has one output that only its inputs decide about."""
    has_one = sum(value is not None for value in node.outputs) == 1 and bool(node.inputs)
    return has_one and not (node.domain or node.subgraphs or node.has_references or node.is_call or draws(node))


def _run(node: ir.Node, fed: Mapping[ir.Value, Array]) -> Array:
    made = only_output(node)
    subgraph = Subgraph([made], list(fed))
    arrays = {value.name: array for value, array in fed.items()}
    result: object = reference.evaluate(subgraph.model, arrays, [made.name], precision="stored")[made.name]
    if not isinstance(result, np.ndarray) or result.size > _MOST:
        raise Unsupported("no small tensor")
    return result
