"""Integers that nodes make of constants alone: what they are does not depend on who makes them."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeGuard

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.verification.numbers.floats import is_float

_FEW = 64
"""Values that are looked at to tell what one is made from."""


def same_integers(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Whether both are the same integers in every run, stored or made from what is."""
    one = _integers(old)
    other = _integers(new) if one is not None else None
    return one is not None and other is not None and one.dtype == other.dtype and np.array_equal(one, other)


def is_integer(made: object) -> TypeGuard[Array]:
    """Whether it is an array at all, and no sequence."""
    return isinstance(made, np.ndarray) and made.dtype.kind in "iub"


def _integers(value: ir.Value | None) -> Array | None:
    made: object = None
    tensor = ir.constant(value)
    if tensor is not None:
        made = None if is_float(tensor.dtype) else tensor.numpy()
    elif value is not None and not is_float(value.dtype) and _follows_from_constants(value):
        with suppress(BnfoldError):
            made = reference.evaluate(value.graph.model, {}, [value.name], precision="stored")[value.name]
    return made if is_integer(made) else None


def _follows_from_constants(value: ir.Value) -> bool:
    """Whether a few nodes of the main graph make it of nothing else."""
    stack, seen = [value], {value}
    while stack:
        maker = stack.pop().producer
        if maker is None or maker.subgraphs or not maker.inputs or len(seen) > _FEW:
            return False
        if maker.graph is not maker.graph.model.graph:
            return False
        for read in maker.inputs:
            if read is not None and read not in seen and ir.constant(read) is None:
                seen.add(read)
                stack.append(read)
    return True
