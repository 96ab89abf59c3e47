"""Numbers so small that a type has no normal number of their size: arithmetic with them is slow on many processors."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnfold.ir.elements import TP, Array
from bnfold.ir.tensor import Tensor

_BITS: dict[int, tuple[str, int]] = {TP.FLOAT: ("u4", 23), TP.DOUBLE: ("u8", 52)}
"""By type, the integer of its size and the bits of its mantissa. Runtimes compute with narrower floats as float32."""


def count_subnormal(tensor: Tensor) -> int:
    """Return how many elements of a tensor are subnormal, piece by piece."""
    if tensor.dtype not in _BITS:
        return 0
    kind, mantissa = _BITS[tensor.dtype]
    return sum(map(int, (_count(block, np.dtype(kind), mantissa) for block in tensor.blocks())))


def _count(block: Array, kind: np.dtype[Any], mantissa: int) -> int:
    native = np.ascontiguousarray(block).astype(block.dtype.newbyteorder("="), copy=False)
    bits = native.view(kind) << kind.type(1)
    # Without the sign, subnormal numbers are the integers up to the largest mantissa; 0 becomes the largest of all.
    return int(np.count_nonzero(bits - kind.type(2) < kind.type((1 << (mantissa + 1)) - 2)))
