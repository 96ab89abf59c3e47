"""One random model and what to feed it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from _fuzz.builder import Array, Builder, Drawn
from _fuzz.operators import TABLE, batchnorm

LARGEST = 6000
"""Elements of a value beyond which nothing more is built on it: evaluation has to stay quick."""
PRIMES = (2, 3, 4, 5, 6, 7)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model of a seed, and its inputs. Dims are pairwise different as far as there are enough of them."""
    rng = np.random.default_rng(seed)
    dtype = TensorProto.DOUBLE if rng.random() < 0.8 else TensorProto.FLOAT
    b = Builder(rng, opset=int(rng.choice([13, 15, 17, 18, 19, 21])), dtype=dtype)
    for _ in range(int(rng.integers(1, 3))):
        shape = tuple(int(size) for size in rng.permutation(PRIMES)[: int(rng.choice([2, 3, 4, 4, 4, 5]))])
        b.inputs.append(Drawn(b.fresh("x"), dtype, shape))
        b.values.append(b.inputs[-1])
    weights = np.array([weight for _, weight in TABLE])
    for _ in range(int(rng.integers(3, 11))):
        _grow(b, weights / weights.sum())
    if not any(node.op_type == "BatchNormalization" for node in b.nodes):
        batchnorm(b, b.values[-1])
    return b.model(_outputs(b)), {value.name: feed(rng, value) for value in b.inputs}


def feed(rng: np.random.Generator, value: Drawn) -> Array:
    """Numbers for an input."""
    return rng.standard_normal(value.shape).astype(helper.tensor_dtype_to_np_dtype(value.dtype))


def _grow(b: Builder, weights: Array) -> None:
    """Try to put one more node behind a value, mostly behind the newest: chains are what affines move along."""
    at = -1 if b.chance(0.75) else int(b.rng.integers(len(b.values)))
    value = b.values[at]
    if np.prod(value.shape) > LARGEST or 0 in value.shape or value.rank == 0:
        value = b.inputs[0]
    entry, _ = TABLE[int(b.rng.choice(len(TABLE), p=weights))]
    kept = len(b.nodes), len(b.weights)
    try:
        entry(b, value)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, onnx.defs.SchemaError):
        del b.nodes[kept[0] :], b.weights[kept[1] :]  # not legal at this opset or with these sizes: draw something else


def _outputs(b: Builder) -> list[Drawn]:
    """What nobody reads, and now and then something that others do read."""
    read = {name for node in b.nodes for name in node.input}
    made = {name for node in b.nodes for name in node.output}
    computed = [value for value in b.values if value.name in made]
    return [value for value in computed if value.name not in read or b.chance(0.06)]
