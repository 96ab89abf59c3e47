"""What values are in every run: constants, fills of any size, and integers that nodes make of constants alone.

Who makes such a value does not matter.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.evaluators import filled
from bnfold.ir.tensor import InMemory
from bnfold.verification.differences.extract import Region
from bnfold.verification.numbers.floats import is_float

_FEW = 64
"""Values that are looked at to tell what one is made from."""


def fixed(value: ir.Value | None) -> ir.Tensor | None:
    """What a value is in every run; None where that is not certain. Kept as long as what constants come to is."""
    tensor = ir.constant(value)
    if value is None or tensor is not None or value.producer is None:
        return tensor
    evaluation = value.graph.model.evaluation
    known = evaluation.others if evaluation is not None else {}
    if value not in known:
        known[value] = _filled(value.producer) or _integers(value)
    return known[value]


def _filled(maker: ir.Node) -> ir.Tensor | None:
    """A fill of known size. It may have more elements than anybody would have computed as a constant."""
    shape = maker.input(0) if maker.is_op("ConstantOfShape") else None
    if shape is None or len(maker.outputs) != 1 or maker.is_call:
        return None
    dims = ir.constant(shape) or _integers(shape)
    with suppress(BnfoldError, ValueError, TypeError, AttributeError):  # damaged, told by a caller, or too large
        return filled(maker, tuple(dims.numpy().reshape(-1).tolist())) if dims is not None else None
    return None


def _integers(value: ir.Value) -> ir.Tensor | None:
    if is_float(value.dtype) or not _follows_from_constants(value):
        return None
    with suppress(BnfoldError):
        region = Region([value], ())
        made: object = reference.evaluate(region.model, {}, [value.name], precision="stored")[value.name]
        if isinstance(made, np.ndarray) and made.dtype.kind in "iub":
            return InMemory(onnx.helper.np_dtype_to_tensor_dtype(made.dtype), made)
    return None


def _follows_from_constants(value: ir.Value) -> bool:
    """Whether a few nodes make it of nothing else."""
    stack, seen = [value], {value}
    while stack:
        maker = stack.pop().producer
        if maker is None or maker.subgraphs or maker.has_references or not maker.inputs or len(seen) > _FEW:
            return False
        for read in maker.inputs:
            if read is not None and read not in seen and ir.constant(read) is None:
                seen.add(read)
                stack.append(read)
    return True
