"""One random model, and its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from fuzz.builder import Array, Builder, Drawn
from fuzz.convolutions import conv, conv_transpose
from fuzz.far import clip, noisy, undefined
from fuzz.feeding import overriding
from fuzz.fills import filled
from fuzz.near import alike, two_open
from fuzz.operators import (
    TABLE,
    Draw,
    arithmetic,
    batchnorm,
    channelwise,
    decomposed,
    gemm,
    matmul,
    normaliser,
)
from fuzz.positions import mask, positions
from fuzz.sampling import from_state
from fuzz.scopes import looped, one_branch, ranked, scanned
from fuzz.sequences import sequenced
from fuzz.weights import VariedBuilder

LARGEST = 6000
"""Number of elements above which no node is added to a value: evaluation has to stay quick."""
PRIMES = (2, 3, 4, 5, 6, 7)


def draw(seed: int, dtype: int | None = None) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw the model of a seed, and its inputs; ``dtype`` is that of all floats.

    Most often dims are pairwise different, so that no axis passes for another. Sometimes they are equal, to find
    rewrites that go by sizes.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice([TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16], p=[0.8, 0.17, 0.03])
    dtype = dtype or int(drawn)
    b = VariedBuilder(rng, opset=int(rng.choice([13, 15, 17, 18, 19, 21])), dtype=dtype)
    for _ in range(int(rng.integers(1, 3))):
        sizes = rng.choice(PRIMES, 5, replace=bool(rng.random() < 0.3))
        if rng.random() < 0.03:
            sizes[int(rng.integers(5))] = 0
        shape = tuple(int(size) for size in sizes[: int(rng.choice([2, 3, 4, 4, 4, 5]))])
        b.inputs.append(Drawn(b.fresh("x"), dtype, shape))
        b.values.append(b.inputs[-1])
    if rng.random() < 0.2:
        _put(b, b.pick(FIRST), b.inputs[0])
    kind = rng.random()
    if kind < 0.5:
        _sandwich(b)
    elif kind < 0.6:
        _layers(b)
    elif kind > 0.94:
        _stream(b)
    else:
        for _ in range(int(rng.integers(3, 11))):
            _grow(b, ANY)
    if not any(node.op_type == "BatchNormalization" for node in b.nodes):
        batchnorm(b, next(value for value in reversed(b.values) if value.dtype == dtype and value.rank > 1))
    return _model(b)


def _model(b: Builder) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Build the model; return it with its inputs."""
    model, feeds = b.model(_outputs(b)), {value.name: feed(b.rng, value) for value in b.inputs} | b.fed
    return model, feeds | overriding(model, b.rng)


def alone(seed: int, dtype: int = TensorProto.FLOAT) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw a typical prefix with little or nothing behind it, so that every change is near it.

    There are no two dynamic inputs: subgraphs are known to miss faults that show if one of them is 1 wide
    (docs/verification.md).
    """
    rng = np.random.default_rng([seed, 7])
    b = VariedBuilder(rng, opset=int(rng.choice([13, 17, 19, 21])), dtype=dtype)
    shape = tuple(int(size) for size in rng.choice(PRIMES, int(rng.integers(2, 5)), replace=False))
    b.inputs.append(Drawn(b.fresh("x"), dtype, shape))
    b.values.append(b.inputs[0])
    while not b.nodes:
        _put(b, b.pick([entry for entry in FIRST if entry is not two_open]), b.inputs[0])
    if b.chance(0.3):
        _grow(b, CARRIERS)
    return _model(b)


def feed(rng: np.random.Generator, value: Drawn) -> Array:
    """Draw numbers for an input."""
    return rng.standard_normal(value.shape).astype(helper.tensor_dtype_to_np_dtype(value.dtype))


ANY: tuple[Draw, ...] = tuple(entry for entry, weight in TABLE for _ in range(int(10 * weight)))
FIRST: tuple[Draw, ...] = (
    *(positions, positions, mask, alike, two_open, one_branch, one_branch, looped, scanned, ranked, sequenced),
    *(clip, clip, filled, filled, undefined, noisy, from_state, noisy),
)
"""Typical prefixes, for which sizes, scopes of their own, bounds and types are decisive."""
ABSORBERS: tuple[Draw, ...] = (conv, conv_transpose, gemm, matmul, normaliser)
CARRIERS: tuple[Draw, ...] = tuple(entry for entry, _ in TABLE if entry not in (batchnorm, decomposed, *ABSORBERS))


def _sandwich(b: Builder) -> None:
    """Append a BatchNormalization, an operator that could absorb it, and carriers between them, in either order."""
    between = [CARRIERS] * int(b.rng.integers(1, 4))
    ends: list[tuple[Draw, ...]] = [ABSORBERS * 3, (batchnorm, batchnorm, batchnorm, decomposed)]
    for options in (ends[0], *between, ends[1]) if b.chance(0.5) else (ends[1], *between, ends[0]):
        for _ in range(4):
            before = len(b.nodes)
            _grow(b, options, branch=0.05)
            if len(b.nodes) > before:
                break


def _layers(b: Builder) -> None:
    """Append layers as in Caffe: a convolution, a normalisation of it, and one or two that scale and shift."""
    for options in ((conv,), (batchnorm,), *[(channelwise, arithmetic)] * int(b.rng.integers(1, 3))):
        _grow(b, options, branch=0.05)
    for _ in range(int(b.rng.integers(0, 3))):
        _grow(b, ANY)


def _stream(b: Builder) -> None:
    """Append values with several consumers: a BatchNormalization, Adds, other layers, now and then a subgraph."""
    _grow(b, (conv, conv, conv_transpose, gemm, matmul), branch=0.0)
    for _ in range(int(b.rng.integers(1, 4))):
        x = b.values[-1]
        for options in ((batchnorm,), *[CARRIERS] * int(b.rng.integers(0, 2)), ABSORBERS):
            _grow(b, options, branch=0.02)
        branch = b.values[-1]
        if b.chance(0.1):
            _captured(b, x)
        if x.rank > 2 and branch.rank == x.rank and branch.shape[2:] == x.shape[2:] and branch.dtype == x.dtype:
            kernel = b.weight(b.numbers([x.shape[1], branch.shape[1], *[1] * (x.rank - 2)]))
            branch = b.node("Conv", [branch.name, kernel])[0]
        if branch.shape == x.shape and branch.dtype == x.dtype:
            b.node(b.pick(["Add", "Add", "Sub", "Sum"]), b.pick([[x.name, branch.name], [branch.name, x.name]]))
        else:
            _put(b, b.pick(ABSORBERS), x)
    for _ in range(int(b.rng.integers(0, 2))):
        _grow(b, (batchnorm, *ABSORBERS))


def _captured(b: Builder, x: Drawn) -> None:
    """Append an If whose branches capture ``x``."""
    branches = {
        key: helper.make_graph(
            [helper.make_node(op_type, [x.name], [f"{x.name}_{op_type}"])],
            op_type,
            [],
            [helper.make_tensor_value_info(f"{x.name}_{op_type}", x.dtype, None)],
        )
        for key, op_type in (("then_branch", "Sin"), ("else_branch", "Identity"))
    }
    made = Drawn(b.fresh("v"), x.dtype, x.shape)
    b.nodes.append(helper.make_node("If", [b.weight(np.array(b.chance(0.5)), "c")], [made.name], **branches))
    b.values.append(made)


def _grow(b: Builder, options: Sequence[Draw], branch: float = 0.25) -> None:
    """Try to append one more node to a value, mostly to the newest: affines move along chains."""
    at = int(b.rng.integers(len(b.values))) if b.chance(branch) else -1
    value = b.values[at]
    if value.dtype != b.dtype or np.prod(value.shape) > LARGEST or value.rank == 0:
        value = b.inputs[0]
    _put(b, b.pick(options), value)


def _put(b: Builder, entry: Draw, value: Drawn) -> None:
    kept = b.size
    try:
        entry(b, value)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, onnx.defs.SchemaError, ValueError):
        b.cut(kept)  # not legal at this opset or with these sizes: draw another one


def _outputs(b: Builder) -> list[Drawn]:
    """Choose the values without consumers as outputs, and now and then one with consumers, or a weight."""
    read = {name for node in b.nodes for name in node.input}
    made = {name for node in b.nodes for name in node.output}
    computed = [value for value in b.values if value.name in made]
    ends = [value for value in computed if value.name not in read or b.chance(0.06)]
    stored = [Drawn(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in b.weights if b.chance(0.01)]
    return ends + stored
