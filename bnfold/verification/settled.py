"""Integers that both regions compute from constants alone: where they are the same, how they are made is no matter."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.reference.dispatch import meaning
from bnfold.verification.extract import Region, held
from bnfold.verification.floats import is_float
from bnfold.verification.rounding import Array


def settled(old: Region, new: Region) -> set[ir.Node]:
    """The nodes that make nothing but such integers, which what reads them is given on the other side as well."""
    made = [_computed(region) for region in (old, new)]
    if not any(made):
        return set()
    numbers = [_numbers(region, nodes) for region, nodes in zip((old, new), made, strict=True)]
    readers = [{_key(node): node for node in region.nodes} for region in (old, new)]
    found: set[ir.Node] = set()
    for side, other in ((0, 1), (1, 0)):

        def is_given(value: ir.Value, reader: ir.Node, slot: int, side: int = side, other: int = other) -> bool:
            twin = readers[other].get(_key(reader))
            own, given = numbers[side].get(value.name), twin.input(slot) if twin is not None else None
            return own is not None and given is not None and _is_same(own, given, numbers[other])

        for node in reversed(made[side]):
            values = [value for value in node.outputs if value is not None]
            uses = [(value, *use) for value in values for use in value.uses]
            is_read_by_callers = any(value.is_output for value in values)
            if not is_read_by_callers and all(use[1] in found or is_given(*use) for use in uses):
                found.add(node)
    return found


def _computed(region: Region) -> list[ir.Node]:
    """The nodes that read nothing but constants, in order."""
    values: set[ir.Value] = set()
    found = []
    for node in region.nodes:
        reads = [value for value in node.inputs if value is not None]
        is_constant = reads and all(value in values or ir.constant(value) is not None for value in reads)
        if is_constant and not node.subgraphs and held(node.output(0)) is None:
            values.update(value for value in node.outputs if value is not None)
            found.append(node)
    return found


def _numbers(region: Region, nodes: list[ir.Node]) -> dict[str, Array]:
    """What these make but for floats, by name."""
    made = [value for node in nodes for value in node.outputs if value is not None]
    names = [value.name for value in made if not is_float(value.dtype)]
    with suppress(BnfoldError):
        return reference.evaluate(region.model, {}, names, precision="stored")
    return {}


def _is_same(own: Array, given: ir.Value, others: Mapping[str, Array]) -> bool:
    """Whether these integers are what is given on the other side."""
    tensor = ir.constant(given)
    theirs = tensor.numpy() if tensor is not None else others.get(given.name)
    is_integer = own.dtype.kind in "iub"
    return is_integer and theirs is not None and own.dtype == theirs.dtype and np.array_equal(own, theirs)


def _key(node: ir.Node) -> tuple[object, ...]:
    """What a node means, and the first value that it makes."""
    return (*meaning(node), *(value.name for value in node.outputs[:1] if value is not None))
