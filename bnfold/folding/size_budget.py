"""What folding may use, and how many bytes copies of shared or computed weights may add; equal copies are reused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bnfold import analysis, ir
from bnfold.folding.step import Edit, SetConstant, distinct_adds
from bnfold.ir.tensor import Exact, Scaled
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
    """The bytes that copies of shared weights may still add, and computed ones that are stored.

    An equal fold of the same weight reuses the first copy and costs nothing. Without a ``limit``, each plan may add
    what the nodes that it removes are worth, and what they store: a second run has no more to spend. If it
    ``is_total``, every stored byte counts, and what goes counts against it.
    """

    limit: int | None
    is_total: bool = False
    _copies: dict[tuple[ir.Value, Fingerprint], tuple[ir.Value, ir.Tensor]] = field(default_factory=dict)
    _wanted: dict[ir.Value, dict[Use, _Request]] = field(default_factory=dict)
    _granted: set[ir.Value] = field(default_factory=set)
    _spent: int = 0

    def renew(self, limit: int) -> None:
        """Set what may be added from now on."""
        self.limit, self._spent = limit, 0

    def check(
        self, edits: Sequence[Edit], *, removed: Collection[ir.Node] = (), adds_spatial_constant: bool = False
    ) -> int:
        """Return what the copies among ``edits`` cost, and the constant of a shift that differs by pixel.

        If the limit is that of everything, return what the model grows by when the ``removed`` nodes are gone.
        Raises TooLarge or Declined if they do not fit.
        """
        if self.is_total:
            return self._check_total(edits, removed)
        left = self._left(removed)
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
        if total > self._left(removed):
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

    def _left(self, removed: Collection[ir.Node]) -> int:
        """Return what a plan may add that removes these nodes, never below zero."""
        if self.limit is None:
            return WORTH * len(removed) + _own_bytes(removed)
        return max(self.limit - self._spent, 0)

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

    def copy_of(self, value: ir.Value, tensor: ir.Tensor, graph: ir.Graph) -> ir.Value | None:
        """Return the constant that an equal fold of ``value`` made before, if it still is what it was."""
        copy, held = self._copies.get((value, fingerprint(tensor)), (None, None)) if self._copies else (None, None)
        return copy if copy is not None and copy.tensor is held and copy.graph is graph and copy.uses else None

    def remember(self, value: ir.Value, tensor: ir.Tensor, copy: ir.Value) -> None:
        self._copies[value, fingerprint(tensor)] = (copy, tensor)

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
            left = worth if self.limit is None else max(self.limit - self._spent, 0)
            if value not in self._granted and growth <= left:
                self._granted.add(value)
                self._spent += growth
                granted = True
        self._wanted.clear()
        return granted

    def _returned(self, value: ir.Value, sizes: Collection[int]) -> int:
        """Return bytes that are saved if all consumers of a constant read tensors of these ``sizes`` instead."""
        if value.holds_constant:
            return max(sizes)
        return min(computed_from(value, counts_filled=not self.is_total), sum(sizes))


def _difference(edit: SetConstant) -> int:
    """Return bytes by which a constant is larger than the one in whose place it is stored."""
    value = edit.node.input(edit.slot)
    held = analysis.constant(value) if value is not None else None
    return edit.tensor.nbytes - (held.nbytes if held is not None else 0)


def _own_bytes(nodes: Collection[ir.Node]) -> int:
    """Return bytes of the constants that only these nodes read."""
    read = {value for node in nodes for value in node.inputs if value is not None and value.holds_constant}
    own = [value for value in read if not value.is_output and all(consumer in nodes for consumer in value.consumers)]
    held = [analysis.constant(value) for value in own]
    return sum(tensor.nbytes for tensor in held if tensor is not None)


def computed_from(value: ir.Value, *, counts_filled: bool = True) -> int:
    """Return bytes of stored constants that serve for nothing but to compute ``value``.

    If it ``counts_filled``, what a ConstantOfShape fills counts as stored: such files are those of others without
    their weights.
    """
    producers = _producers(value)
    inner = {made for node in producers for made in node.outputs if made is not None} - {value}
    while outside := {made for made in inner if made.is_output or not producers.issuperset(made.consumers)}:
        inner -= outside
        producers -= {made.producer for made in outside if made.producer is not None}
    leaves = {read for node in producers for read in node.inputs if read is not None and read.holds_constant}
    own = [leaf for leaf in leaves if not leaf.is_output and producers.issuperset(leaf.consumers)]
    filled = [made for made in (*inner, value) if made.producer in producers and made.producer.is_op("ConstantOfShape")]
    held = [analysis.constant(constant) for constant in (*own, *(filled if counts_filled else ()))]
    return sum(tensor.nbytes for tensor in held if tensor is not None)


def _producers(value: ir.Value) -> set[ir.Node]:
    """Return the nodes that compute a constant of what is stored."""
    producers: set[ir.Node] = set()
    waiting = [value]
    while waiting:
        producer = waiting.pop().producer
        if producer is not None and producer not in producers and not producer.is_op("Constant"):
            producers.add(producer)
            waiting += [read for read in producer.inputs if read is not None]
    return producers


def fingerprint(tensor: ir.Tensor) -> Fingerprint:
    """Return a hash that is equal for folds of one weight that give the same bits."""
    import hashlib  # it loads OpenSSL, and few models share weights

    digest = hashlib.blake2b(repr((tensor.dtype, tensor.dims)).encode(), digest_size=16)
    if isinstance(tensor, Scaled):
        for axis, vector in tensor.factors:
            digest.update(axis.to_bytes(1, "little") + vector.tobytes())
    else:
        digest.update(tensor.float64().tobytes())
    return digest.digest()


class Limits(NamedTuple):
    """What a plan may cost and use.

    Attributes:
        only: Operators that may take part; empty for all.
        excluded: Operators that may not.
        all_affines: Fold rows of constant Mul, Add, … too that no BatchNormalization stands in.
        spares_fused: But for those that are steps of GELU or of a normaliser.
        merge_branches: Merge parallel convolutions, too, that no BatchNormalization stands in.
        exchange: Whether an Add takes a BatchNormalization's place always, or where that pays.
        simplifies: Whether simplification follows, which takes out nodes that a fold brings together.
        simple: Only plans after which no consumer has to undo a change.
        disabled: Names of rewrites that are left out.
        banned: Nodes of rows or sums that stay, by graph and output: a weight overflowed when they were folded.
    """

    only: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    all_affines: bool = False
    spares_fused: bool = False
    merge_branches: bool = False
    exchange: Literal["auto", "always"] = "auto"
    simplifies: bool = False
    simple: bool = False
    disabled: frozenset[str] = frozenset()
    banned: frozenset[tuple[str, str]] = frozenset()
