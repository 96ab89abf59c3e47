"""Integers that both regions compute from constants alone: where they are the same, how they are made is no matter."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.verification.differences.extract import Region, computed, held
from bnfold.verification.differences.from_constants import is_integer
from bnfold.verification.differences.unchanged import identity
from bnfold.verification.numbers.floats import is_float


def same_integers(old: Region, new: Region) -> set[ir.Node]:
    """The nodes that make nothing but such integers, which what reads them is given on the other side as well."""
    sides = _Integers(old), _Integers(new)
    return {node for side, other in (sides, sides[::-1]) for node in side.settled(other)}


class _Integers:
    """A region: what it computes from constants, in order, and the integers of it by name."""

    def __init__(self, region: Region) -> None:
        self._nodes = {identity(node): node for node in region.nodes}
        self._computed = _computed(region)
        self._numbers = _numbers(region, self._computed) if self._computed else {}

    def settled(self, other: _Integers) -> set[ir.Node]:
        found: set[ir.Node] = set()
        for node in reversed(self._computed):
            values = [value for value in node.outputs if value is not None]
            uses = [(value, *use) for value in values for use in value.uses]
            is_read_by_callers = any(value.is_output for value in values)
            if not is_read_by_callers and all(use[1] in found or self._agrees(other, *use) for use in uses):
                found.add(node)
        return found

    def _agrees(self, other: _Integers, value: ir.Value, reader: ir.Node, slot: int) -> bool:
        """Whether the reader's twin is given the same integers."""
        twin = other._nodes.get(identity(reader)) if self._nodes.get(identity(reader)) is reader else None
        given = twin.input(slot) if twin is not None else None
        mine, theirs = self._numbers.get(value.name), other._number(given) if given is not None else None
        return mine is not None and theirs is not None and mine.dtype == theirs.dtype and np.array_equal(mine, theirs)

    def _number(self, value: ir.Value) -> Array | None:
        tensor = ir.constant(value)
        return self._numbers.get(value.name) if tensor is None else tensor.numpy()


def _computed(region: Region) -> list[ir.Node]:
    """The nodes that read nothing but constants that no caller overrides."""
    nodes = computed(region.nodes, lambda value: ir.constant(value) is not None)
    return [node for node in nodes if held(node.output(0)) is None]


def _numbers(region: Region, nodes: list[ir.Node]) -> dict[str, Array]:
    made = [value for node in nodes for value in node.outputs if value is not None]
    names = [value.name for value in made if not is_float(value.dtype)]
    results = {}
    with suppress(BnfoldError):
        results = reference.evaluate(region.model, {}, names, precision="stored")
    return {name: array for name, array in results.items() if is_integer(array)}
