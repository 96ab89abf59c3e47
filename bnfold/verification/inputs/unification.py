"""Find shapes by unification: each operator relates the dims of its inputs and outputs, in both directions.

A dim is a size, or a name that stands for one size wherever it appears. So a weight determines dims of data far before
and behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.inferable import is_damaged
from bnfold.ir.types import filled, is_inferred
from bnfold.ir.value import Known
from bnfold.reference.operators import READS_VALUES, REARRANGING
from bnfold.verification.inputs.dims import KnownDim, Term, terms, widest

_MOST_ROUNDS = 8
_ILL_FORMED = (BnfoldError, ValueError, TypeError, IndexError, KeyError, AttributeError)
"""Exceptions that damaged nodes raise; nothing follows from such nodes."""

_MOVES = REARRANGING - {"Transpose"} | {"DepthToSpace", "SpaceToDepth"}
_TAKE_ONE = {"If": 0, "Loop": 0}
_USUAL_RANK = _TAKE_ONE | {"MatMul": 2, "BatchNormalization": 4, "InstanceNormalization": 4}
"""What operators that take any rank are mostly fed; conditions and numbers of turns are single elements."""


class UnifiedDims:
    """The known shapes of the values of a graph. Unless ``declared``, only weights and operators determine them."""

    def __init__(self, *, declared: bool = True) -> None:
        self._declared = declared
        self._shapes: dict[ir.Value, list[KnownDim]] = {}
        self._untold: set[ir.Value] = set()
        self._same: dict[str, KnownDim] = {}
        self._facts = 0
        self._mute: set[tuple[object, ...]] = set()

    def of(self, value: ir.Value | None) -> list[KnownDim] | None:
        """Return the shape; None for an unknown rank."""
        known = self._known(value)
        return None if known is None else [*known]

    def _known(self, value: ir.Value | None) -> list[KnownDim] | None:
        """Do as `of`, for callers that do not change the result."""
        if value is None:
            return None
        if value not in self._shapes:
            dims = self._stated(value) if value not in self._untold else None
            if dims is None:
                self._untold.add(value)
                return None
            self._put(value, dims)
        known = self._shapes[value]
        return [self._now(dim) for dim in known] if self._same else known

    def _stated(self, value: ir.Value) -> Known | None:
        """Return the shape that the model states, which stays the same."""
        if is_damaged(value):
            return None
        shape = value.shape if self._declared or value.is_initializer else None
        held = reference.constant(value) if shape is None else None
        return held.dims if held is not None else shape

    def tell(self, value: ir.Value | None, shape: Known) -> None:
        """Note the value's shape, as far as it is known; what was known before wins."""
        own = self.of(value)
        if value is not None and own is None:
            self._put(value, shape)
            self._facts += 1
        elif own is not None and len(own) == len(shape):
            for mine, theirs in zip(own, shape, strict=True):
                if theirs is not None:
                    self.equal(mine, theirs)

    def equal(self, one: KnownDim, other: KnownDim) -> None:
        """Note that two dims are one size; sizes that contradict each other stay as they are."""
        one, other = self._now(one), self._now(other)
        if isinstance(one, int) or is_inferred(other):
            one, other = other, one  # sizes stay, and names that a file gave
        if isinstance(one, str) and one != other:
            self._same[one] = other
            self._facts += 1

    def follow(self, nodes: Sequence[ir.Node], *, guess: bool = False) -> None:
        """Apply the rules of all operators until nothing more follows.

        With ``guess``, usual ranks and the largest possible sizes are assumed as well.
        """
        told = -1
        for turn in range(2 * _MOST_ROUNDS):
            if self._facts == told and not (guess and self._guess(nodes)):
                return
            told = self._facts
            for node in nodes if turn % 2 == 0 else reversed(nodes):
                with suppress(*_ILL_FORMED):
                    self._learn_anew(node)

    def _put(self, value: ir.Value, shape: Known) -> None:
        """Note a shape, with a new name for each dim that has none; 0 is what exporters write for an unknown size."""
        count = len(self._shapes)
        self._shapes[value] = [dim or f"?{count}.{axis}" for axis, dim in enumerate(shape)]

    def _now(self, dim: KnownDim) -> KnownDim:
        while isinstance(dim, str) and dim in self._same:
            dim = self._same[dim]
        return dim

    def _guess(self, nodes: Sequence[ir.Node]) -> bool:
        for node in nodes:
            rank = _USUAL_RANK.get(node.op_type) if not node.domain else None
            unknown = [value for value in node.inputs[:2] if value is not None and self.of(value) is None]
            if rank is not None and unknown:
                self.tell(unknown[0], [None] * rank)
                return True
        return any(self._guess_widest(node) for node in nodes if node.is_op("Expand"))

    def _guess_widest(self, node: ir.Node) -> bool:
        """Guess the widest data for an Expand: data may have size 1, but from the full size more follows."""
        before, data = self._facts, node.input(0)
        with suppress(*_ILL_FORMED):
            self.tell(data, widest(node, len(self.of(data) or ())))
        return self._facts > before

    def _learn_anew(self, node: ir.Node) -> None:
        """Apply the rule of a node, unless nothing followed from an equal node with equal shapes."""
        if node.op_type in READS_VALUES or node.subgraphs:
            self._learn(node)
            return
        shapes = [tuple(self._known(value) or ("none",)) for value in (*node.inputs, None, *node.outputs)]
        form = (node.graph.path, node.domain, node.op_type, *node.spelled, *shapes)
        before = self._facts
        if form not in self._mute:
            self._learn(node)
            if self._facts == before:
                self._mute.add(form)

    def _learn(self, node: ir.Node) -> None:
        self._match(terms(node, self.of))
        if node.is_op("Concat"):
            self._add_up(node, node.inputs, node.output(0), default=1)
        elif node.is_op("Split"):
            self._add_up(node, node.outputs, node.input(0), default=0)
        elif node.has_trait(_MOVES):
            self._multiply(node.input(0), node.output(0))

    def _match(self, found: Sequence[Term]) -> None:
        """Match letters: equal ones are equal dims; a value of unknown rank has a dim for each letter."""
        sizes: dict[KnownDim, KnownDim] = {}
        for value, letters in found:
            own = self.of(value)
            if own is not None and len(own) == len(letters):
                for letter, dim in zip(letters, own, strict=True):
                    self.equal(sizes.setdefault(letter, letter if isinstance(letter, int) else dim), dim)
        for value, letters in found:
            if value is not None and self.of(value) is None:
                self.tell(value, [letter if isinstance(letter, int) else sizes.get(letter) for letter in letters])

    def _add_up(self, node: ir.Node, parts: Sequence[ir.Value | None], whole: ir.Value | None, *, default: int) -> None:
        """Add up: along their axis, the parts together have the size of the whole."""
        axis = int(node.attr("axis", default))
        total, shapes = self.of(whole), [self.of(part) for part in parts]
        if total is None or any(shape is None for shape in shapes):
            return
        sizes = [shape[axis] for shape in shapes if shape is not None]
        names = [size for size in sizes if isinstance(size, str)]
        known, sum_ = sum(size for size in sizes if isinstance(size, int)), total[axis]
        if not names:
            self.equal(sum_, known)
        elif isinstance(sum_, int) and len(names) == 1 and sum_ > known:
            self.equal(names[0], sum_ - known)

    def _multiply(self, one: ir.Value | None, other: ir.Value | None) -> None:
        """Multiply: both have as many elements, so the only dim that is not known follows."""
        left, right = self.of(one), self.of(other)
        if left is None or right is None:
            return
        for dim in [dim for dim in left if isinstance(dim, str)]:
            if dim in right:
                left.remove(dim)
                right.remove(dim)
        names = [dim for dim in (*left, *right) if isinstance(dim, str)]
        if len(names) != 1:
            return
        sides = [math.prod(dim for dim in side if isinstance(dim, int)) for side in (left, right)]
        part, whole = sides if names[0] in left else reversed(sides)
        if part and whole and whole % part == 0:
            self.equal(names[0], whole // part)


def learn_shapes(model: ir.Model) -> None:
    """Fill in types that the operators' rules determine beyond inference; the file's annotations stay."""
    dims = UnifiedDims()
    with reference.keeping_constants(model):
        dims.follow([*model.nodes()])
        told = {value: dims.of(value) for graph in model.graphs() for value in graph.values.values()}
    for value, shape in told.items():
        if value.tensor_proto is None and shape is not None and shape != list(value.shape or ()):
            sizes = [dim if isinstance(dim, int) and dim < 1 << 63 else None for dim in shape]
            value.graph.types[value.name] = filled(value.type, onnx.helper.make_tensor_type_proto(0, sizes))
