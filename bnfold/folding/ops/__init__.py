"""How each operator treats an affine: one record an operator, one file an operator family.

A handler is a pure function ``(node, slot, affine) -> Step``. Upward, ``affine`` is wanted on output ``slot``: the step
makes the node compute it. Downward, it applies to input ``slot``: the node must compute what it did, although it now
reads the value without it. A handler that cannot raises `Declined`.
"""

from bnfold.folding.ops import (  # noqa: F401 - each file registers its operators
    activation,
    batchnorm,
    clip,
    concat,
    conv_transpose,
    elementwise,
    elementwise_nary,
    gather_slice,
    gemm,
    grid_sample,
    identity,
    matmul,
    norms,
    ort_fused,
    pad_resize,
    padded,
    pool,
    quantized,
    recurrent,
    repeat,
    reshape,
    transpose,
)
from bnfold.folding.ops.registry import HANDLERS, Handler, carrier, record

__all__ = ["HANDLERS", "Handler", "carrier", "record"]
