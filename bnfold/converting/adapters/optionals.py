"""Questions about optional values to which tensors and sequences are the answer themselves."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down


@down("OptionalHasElement", 18)
def has_element(conversion: NodeConversion) -> None:
    """Convert OptionalHasElement 18 → 15, which takes optionals only: nothing has none, and anything else has one."""
    value = conversion.node.input(0)
    if value is None or _is_there(conversion, value):
        conversion.become("Identity", [conversion.constant(np.array(value is not None), "has_element")])


@down("OptionalGetElement", 18)
def element(conversion: NodeConversion) -> None:
    """Convert OptionalGetElement 18 → 15, which takes optionals only: anything else is its own element."""
    value = conversion.input(0)
    if _is_there(conversion, value):
        conversion.become("Identity", [value])


def _is_there(conversion: NodeConversion, value: ir.Value) -> bool:
    """Whether a value is a tensor or a sequence."""
    is_tensor = conversion.context.types.dtype(value) is not None
    return is_tensor or (value.type is not None and value.type.HasField("sequence_type"))
