"""How many bytes edits may add to the weights, and what becomes free; equal copies of a weight are made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bnfold import analysis, ir
from bnfold.edits.edit import Edit, SetConstant, distinct_adds
from bnfold.ir.tensor import Computed, Exact, Scaled
from bnfold.ir.value import Use
from bnfold.report.growth import WORTH
from bnfold.report.reasons import Declined, Reason

Fingerprint = bytes


_SMALL = 64 << 10
"""Bytes of a constant that may vary along more axes than it did."""


class TooLarge(Declined):
    """A plan would store shared or computed weights anew.

    ``copies`` lists them, so that all consumers of one can be considered together.
    """

    def __init__(self, copies: list[SetConstant], growth: int, worth: int) -> None:
        super().__init__(Reason.SHARED_WEIGHT, f"{growth} bytes")
        self.copies, self.worth = copies, worth


class _Request(NamedTuple):
    """A copy that one use of a weight needs, its bytes, and what may be added for the nodes that go with it."""

    fingerprint: Fingerprint
    nbytes: int
    worth: int


@dataclass(slots=True, eq=False)
class SizeBudget:
    """The bytes that edits may still add.

    Without a ``limit``, each plan may add what the nodes that it removes are worth, and what it frees: a second run has
    no more to spend. With one, all plans together may add as many bytes: every stored byte counts, and what goes counts
    against it. An equal fold of the same weight reuses the first copy and costs nothing.
    """

    limit: int | None
    _copies: dict[tuple[ir.Value | None, Fingerprint], tuple[ir.Value, ir.Tensor | None]] = field(default_factory=dict)
    _wanted: dict[ir.Value, dict[Use, _Request]] = field(default_factory=dict)
    _granted: set[ir.Value] = field(default_factory=set)
    _spent: int = 0

    def renew(self, limit: int) -> None:
        """Set what may be added from now on."""
        self.limit, self._spent = limit, 0

    def left(self, nodes: int = 0, freed: int = 0) -> int:
        """Return the bytes that a plan may add that takes out some nodes and frees some bytes, never below zero."""
        return WORTH * nodes + freed if self.limit is None else max(self.limit - self._spent, 0)

    def spend(self, growth: int) -> bool:
        """Take what a plan adds, less what it frees, out of the limit; return whether there was enough."""
        if growth > self.left():
            return False
        self.charge(max(growth, 0))
        return True

    def check(
        self, edits: Sequence[Edit], *, removed: Collection[ir.Node] = (), adds_spatial_constant: bool = False
    ) -> int:
        """Return what the copies among ``edits`` cost, and the constant of a shift that differs by pixel.

        If the limit is that of everything, return what the model grows by when the ``removed`` nodes are gone.
        Raises TooLarge or Declined if they do not fit.
        """
        if self.limit is not None:
            return self._check_total(edits, removed)
        left = self.left(len(removed), _own_bytes(removed))
        adds = distinct_adds(edits) if adds_spatial_constant else []
        size = sum(Exact(edit.dtype, edit.block).nbytes for edit in adds)
        if adds_spatial_constant and size > left:
            raise Declined(Reason.NO_GAIN, f"{size} bytes would be added for a shift that is padded")
        for edit in edits:
            stretched = self._stretched(edit) if isinstance(edit, SetConstant) else 0
            size += stretched
            if stretched and size > left:
                where = f"{edit.node.op_type} {edit.node.label!r}"
                raise Declined(Reason.NO_GAIN, f"the constant of {where} would take {stretched} bytes more")
        copies = [edit for edit in edits if isinstance(edit, SetConstant) and self._is_copied(edit)]
        growth = self._growth(copies)
        if growth > 0 and growth > left:
            raise TooLarge(copies, growth, left)
        return growth + size

    def _check_total(self, edits: Sequence[Edit], removed: Collection[ir.Node]) -> int:
        constants = [edit for edit in edits if isinstance(edit, SetConstant)]
        copies = [edit for edit in constants if self._is_copied(edit)]
        growth = self._growth(copies)
        total = growth + sum(Exact(edit.dtype, edit.block).nbytes for edit in distinct_adds(edits))
        total += sum(_difference(edit) for edit in constants if not self._is_copied(edit)) - _own_bytes(removed)
        if total > self.left():
            if growth > 0:
                raise TooLarge(copies, total, 0)
            raise Declined(Reason.NO_GAIN, f"the weights would grow by {total} bytes, more than --max-growth leaves")
        return total

    def _stretched(self, edit: SetConstant) -> int:
        """Return bytes that a constant of its own gains by varying along more axes than it did; few do not count."""
        value = edit.node.input(edit.slot)
        if value is None or edit.tensor.nbytes <= _SMALL or not value.holds_constant or self._is_copied(edit):
            return 0
        return max(_difference(edit), 0)

    def charge(self, cost: int) -> None:
        """Subtract the cost of a plan, which `check` returned."""
        self._spent += cost

    def _is_copied(self, edit: SetConstant) -> bool:
        """Whether it is of a constant that another node needs as it is, or that is not stored so far."""
        value = edit.node.input(edit.slot)
        if value is None or value in self._granted:
            return False
        return value.only_use is None or not value.holds_constant

    def _growth(self, edits: list[SetConstant]) -> int:
        total = 0
        by_value: dict[ir.Value, dict[Fingerprint, int]] = {}
        uses: dict[ir.Value, int] = {}
        for edit in edits:
            value = edit.node.inputs[edit.slot]
            assert value is not None, "it is shared"
            uses[value] = uses.get(value, 0) + 1
            key = fingerprint(edit.tensor)
            if self.copy_of(value, edit.tensor, edit.node.graph) is None:
                by_value.setdefault(value, {})[key] = edit.tensor.nbytes
        for value, sizes in by_value.items():
            total += sum(sizes.values())
            if uses[value] == len(value.uses) and not value.is_output:
                total -= self._returned(value, sizes.values())
        return total

    def copy_of(self, value: ir.Value | None, tensor: ir.Tensor, graph: ir.Graph) -> ir.Value | None:
        """Return the constant that is stored already for an equal fold of ``value``, if it still is what it was.

        Without a value, an equal constant that a node reads.
        """
        copy, held = self._copies.get((value, fingerprint(tensor)), (None, None)) if self._copies else (None, None)
        return copy if copy is not None and copy.tensor is held and copy.graph is graph and copy.uses else None

    def remember(self, value: ir.Value | None, tensor: ir.Tensor, copy: ir.Value) -> None:
        self._copies[value, fingerprint(tensor)] = (copy, copy.tensor)

    def want(self, refusal: Declined) -> None:
        """Record the copies that a plan needs, where they are why it was declined."""
        if not isinstance(refusal, TooLarge):
            return
        total = sum(edit.tensor.nbytes for edit in refusal.copies)
        for edit in refusal.copies:
            value = edit.node.input(edit.slot)
            if value is not None and len(value.uses) > 1:
                requested = self._wanted.setdefault(value, {})
                worth = refusal.worth * edit.tensor.nbytes // total
                requested[edit.node, edit.slot] = _Request(fingerprint(edit.tensor), edit.tensor.nbytes, worth)

    def grant(self) -> bool:
        """Allow copies if those for all consumers fit; the original is then removed.

        Returns whether any were allowed.
        """
        granted = False
        for value, requested in self._wanted.items():
            covered = not value.is_output and all(use in requested for use in value.uses)
            sizes = {request.fingerprint: request.nbytes for request in requested.values()}
            growth = sum(sizes.values()) - (self._returned(value, sizes.values()) if covered else 0)
            worth = sum(request.worth for request in requested.values())
            if value not in self._granted and growth <= self.left(freed=worth):
                self._granted.add(value)
                self._spent += growth
                granted = True
        self._wanted.clear()
        return granted

    def _returned(self, value: ir.Value, sizes: Collection[int]) -> int:
        """Return bytes that are saved if all consumers of a constant read tensors of these ``sizes`` instead."""
        if value.holds_constant:
            return max(sizes)
        constants, nodes = freed([value])
        own = sum(map(stored_bytes, constants))
        if self.limit is None:  # files whose weights are filled are those of others without their weights
            made = (node.output(0) for node in nodes if node.is_op("ConstantOfShape"))
            filled = [analysis.constant(filling) for filling in made]
            own += sum(tensor.nbytes for tensor in filled if tensor is not None)
        return min(own, sum(sizes))


def _difference(edit: SetConstant) -> int:
    """Return bytes by which a constant is larger than the one in whose place it is stored."""
    held = analysis.constant(edit.node.input(edit.slot))
    return edit.tensor.nbytes - (held.nbytes if held is not None else 0)


def _own_bytes(nodes: Collection[ir.Node]) -> int:
    """Return bytes of the constants that only these nodes read."""
    read = {value for node in nodes for value in node.inputs if value is not None and value.holds_constant}
    own = [value for value in read if not value.is_output and all(consumer in nodes for consumer in value.consumers)]
    return sum(map(stored_bytes, own))


def freed(values: Iterable[ir.Value]) -> tuple[list[ir.Value], set[ir.Node]]:
    """Return the stored constants, and the nodes, that serve for nothing but to compute ``values``."""
    constants: list[ir.Value] = []
    nodes: set[ir.Node] = set()
    waiting = [*values]
    unread = Counter({value: len(value.uses) for value in waiting})
    while waiting:
        value = waiting.pop()
        node = value.producer
        if value.holds_constant:
            constants.append(value)
        elif (
            node is not None
            and node not in nodes
            and all(unread[made] == len(made.uses) and not made.is_output for made in node.outputs if made is not None)
        ):
            nodes.add(node)
            for read in node.inputs:
                if read is None:
                    continue
                unread[read] += 1
                if unread[read] == len(read.uses) and not (read.is_output or read.is_input):
                    waiting.append(read)
    return constants, nodes


def stored_bytes(value: ir.Value) -> int:
    """Return the bytes of a constant, which an initializer or a Constant node stores."""
    if value.tensor_proto is not None:
        return value.stored_bytes
    held = analysis.constant(value)
    return held.nbytes if held is not None else 0


def fingerprint(tensor: ir.Tensor) -> Fingerprint:
    """Return a hash that is equal for folds of one weight that give the same bits."""
    import hashlib  # it loads OpenSSL, and few models share weights

    digest = hashlib.blake2b(repr((tensor.dtype, tensor.dims)).encode(), digest_size=16)
    if isinstance(tensor, Scaled):
        for axis, vector in tensor.factors:
            digest.update(axis.to_bytes(1, "little") + vector.tobytes())
    else:
        is_exact = isinstance(tensor, Computed | Exact)  # of others, float64 has not all integers
        digest.update((tensor.float64() if is_exact else tensor.numpy()).tobytes())
    return digest.digest()
