"""Sparse tensors with their zeros: a sparse weight differs from a dense one in the size of its file alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import onnx

from bnfold.ir.elements import LIMIT, to_raw

if TYPE_CHECKING:
    from bnfold.ir.model import Model
    from bnfold.ir.tensor import Array


def dense(model: Model, proto: onnx.SparseTensorProto) -> Array:
    """Return a sparse tensor with its zeros; indices are flat (NNZ) or coordinates (NNZ, rank).

    Raises ValueError for one that is too large, and IndexError for one whose indices lie outside.
    """
    if math.prod(proto.dims) > LIMIT or min(proto.dims, default=0) < 0:
        raise ValueError("too large")
    values, indices = (model.tensor(part).numpy() for part in (proto.values, proto.indices))
    full = np.zeros(tuple(proto.dims), values.dtype)
    if indices.ndim == 1:
        full.reshape(-1)[indices] = values
    else:
        full[tuple(indices.T)] = values
    return full


def store_dense(model: Model) -> list[str]:
    """Make dense initializers of the sparse ones, and return their names. Nodes are other objects afterwards.

    Those stay sparse that do not fit together, or would be too large.
    """
    model.sync()
    stored: list[str] = []
    for graph in model.graphs():
        if not isinstance(graph.proto, onnx.GraphProto):
            continue
        left = []
        for sparse in graph.proto.sparse_initializer:
            copy = onnx.SparseTensorProto()
            copy.CopyFrom(sparse)
            try:
                array = dense(model, sparse)
            except (ValueError, IndexError):
                left.append(copy)
                continue
            raw, dtype = bytes(to_raw(array, sparse.values.data_type)), sparse.values.data_type
            graph.proto.initializer.add(name=sparse.values.name, data_type=dtype, dims=sparse.dims, raw_data=raw)
            stored.append(sparse.values.name)
        del graph.proto.sparse_initializer[:]
        graph.proto.sparse_initializer.extend(left)
    if stored:
        model.reindex()
    return stored
