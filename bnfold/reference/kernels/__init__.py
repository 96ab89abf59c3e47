"""The kernels by family; importing this package registers all of them."""

from bnfold.reference.kernels import (
    activation,
    broadcast,
    conv,
    create,
    drafts,
    index,
    layout,
    normalise,
    pool,
    quantise,
    recurrent,
    reduction,
    resize,
    sample,
    sequence,
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
    "normalise",
    "pool",
    "quantise",
    "recurrent",
    "reduction",
    "resize",
    "sample",
    "sequence",
    "slicing",
]
