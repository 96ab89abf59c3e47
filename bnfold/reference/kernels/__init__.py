"""The kernels by family; importing this package registers all of them."""

from bnfold.reference.kernels import (
    activation,
    broadcast,
    conv,
    create,
    drafts,
    index,
    layout,
    matrix,
    normalise,
    pad,
    pool,
    quantise,
    randomness,
    reduction,
    resize,
    slicing,
)

__all__ = [
    "activation",
    "broadcast",
    "conv",
    "create",
    "drafts",
    "index",
    "layout",
    "matrix",
    "normalise",
    "pad",
    "pool",
    "quantise",
    "randomness",
    "reduction",
    "resize",
    "slicing",
]
