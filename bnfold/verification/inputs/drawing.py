"""Draw values to feed: seeded, of another kind for each sample, and accepted by the operators that read them.

Ordinary numbers show what is analytic. Large ones serve pieces, on either side of each, and special values: they may
overflow. Tiny ones serve visibility and bounds, constant ones ties, and flat ones poles: a variance of zero.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BadInput, BadSetting
from bnfold.ir.elements import TP, Array
from bnfold.ir.value import Known
from bnfold.verification.claims import SampleKind
from bnfold.verification.inputs.domains import InputShapeOf, declared_shape, legal
from bnfold.verification.inputs.learned import drawn_for_learned
from bnfold.verification.inputs.roles import computed_bound, is_positive_for_some, role
from bnfold.verification.inputs.shapes import Sizing
from bnfold.verification.inputs.sized import followed
from bnfold.verification.tolerance.floats import float_type, is_float

DrawnFeeds = dict[str, Array]
_T = onnx.TensorProto

SAMPLE_KINDS: tuple[SampleKind, ...] = ("normal", "large", "tiny", "constant", "at mean")
"""What the activations of the first, second … sample are drawn as; after the last it begins anew, mirrored.

Of few numbers a sum might by chance be negative in all samples, and hide what only positive ones show.
"""


MOST_SAMPLES = 2 * len(SAMPLE_KINDS)
"""Samples of few numbers: of every kind at most twice."""

NO_TIME = 0.2
"""Counted seconds for all samples beyond those that were asked for."""

CROSSED = len(SAMPLE_KINDS) + SAMPLE_KINDS.index("tiny")
"""The sample in which the lower bound of a Clip is above the upper one."""

FLAT = ("constant", "at mean")
"""Those in which channels may vary nowhere."""

_MOST_DRAWN = 1_048_573
"""Numbers after which they repeat: a prime, so that no two rows or channels are alike."""

_NARROW = (TP.INT8, TP.INT16, TP.INT32, TP.UINT8, TP.UINT16, TP.UINT32)

_SIGNED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64)


def samples_for(sizes: Iterable[int], few: int, seconds: float = 0.0) -> int:
    """Return how many samples to draw: more than one if something has fewer than ``few`` elements, and it is quick.

    All of few numbers may be negative in front of a Relu, or hide behind the largest. A sample takes ``seconds``.
    """
    affordable = int(NO_TIME / max(seconds, 1e-6))
    return max(1, min(MOST_SAMPLES, few // max(min(sizes, default=few), 1), affordable))


class CannotFeed(BadInput):
    """An input for which no value can be made up; the message says how to give one."""


def input_shapes(model: ir.Model, sizing: Sizing, given: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every required input, open dims as ``sizing`` says. Raises as `known_sizes`."""
    return {name: sizing.concrete(shape) for name, shape in known_sizes(model, given)[0].items()}


def known_sizes(model: ir.Model, given: Mapping[str, Sequence[int]]) -> tuple[dict[str, Known], ir.Model | None]:
    """Return the shape of every required input: as ``given``, else as declared, dynamic dims as operators require.

    With it comes a copy of the model at these shapes, if there is one that fits. Raises CannotFeed for inputs that are
    no tensors or have an unknown rank. Raises BadInput if a given shape does not fit, or its input does not exist.
    """
    unknown = sorted(set(given) - {value.name for value in model.graph.inputs})
    if unknown:
        known = ", ".join(repr(value.name) for value in model.required_inputs())
        raise BadSetting("inputs", f"the model has no input {', '.join(map(repr, unknown))}; its inputs are {known}")
    told, copy = followed(
        model, {value.name: _declared(value, given.get(value.name)) for value in model.required_inputs()}
    )
    shapes = {name: shape for name, shape in told.items() if shape is not None}
    for name in (name for name in told if name not in shapes):
        raise CannotFeed(f"the rank of input {name!r} is unknown; give its shape with --input {name}=N,…")
    return shapes, copy


def _declared(value: ir.Value, given: Sequence[int] | None) -> Known | None:
    if value.type is not None and not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "value without a type"
        raise CannotFeed(f"input {value.name!r} is a {kind.removesuffix('_type')}; give recorded inputs with --data")
    if given is None:
        return value.shape
    if value.shape is not None and len(value.shape) != len(given):
        raise BadInput(
            f"input {value.name!r} has {len(value.shape)} dimensions, the shape given has {len(given)}: {tuple(given)}"
        )
    return tuple(given)


def random_feeds(
    model: ir.Model, shapes: Mapping[str, tuple[int, ...]], seed: int, sample: int, *, signed: bool = False
) -> DrawnFeeds:
    """Return a value for every required input, of the shapes that were chosen. ``signed`` as in `random_value`."""
    inputs = model.required_inputs()
    return {value.name: random_value(value, shapes[value.name], seed, sample, signed=signed) for value in inputs}


def random_value(
    value: ir.Value,
    shape: tuple[int, ...],
    seed: int,
    sample: int,
    shape_of: InputShapeOf = declared_shape,
    *,
    signed: bool = False,
) -> Array:
    """Return a value of the input's element type.

    The same (seed, name, sample) gives the same numbers on every machine. If ``shape_of`` knows the shapes of values,
    indices and counts are such that their consumers accept them. With ``signed``, other integers have both signs; a
    model that computes indices from them may not accept that.
    """
    dtype = value.dtype or _T.FLOAT
    mirrored = is_float(dtype) and sample // len(SAMPLE_KINDS) % 2 == 1
    drawn = sample - len(SAMPLE_KINDS) if mirrored else sample
    rng = np.random.default_rng([seed, drawn, zlib.crc32(value.name.encode())])
    shared = drawn_for_learned(value, shape, np.random.default_rng([seed, sample]))
    if dtype == _T.STRING:
        words = rng.choice(np.array(["a", "b", "word"], dtype=object), size=shape)
        return np.asarray(words if shared is None else shared, object)
    found = legal(value, shape, rng, shape_of, sample) if shared is None else shared
    if dtype == _T.BOOL:
        flags = _flags(shape, rng, SAMPLE_KINDS[drawn % len(SAMPLE_KINDS)]) if found is None else found
        return np.asarray(flags, bool)
    try:
        target = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    except KeyError as error:
        raise CannotFeed(f"input {value.name!r} has an unknown element type: {dtype}") from error
    if found is not None and dtype not in (_T.COMPLEX64, _T.COMPLEX128):
        is_whole = np.dtype(target).kind in "iu"
        return np.asarray(np.rint(found) if is_whole else found, target)
    if is_float(dtype):
        largest = float_type(dtype).largest
        floats = np.asarray(np.clip(_floats(value, shape, rng, sample, mirrored=mirrored), -largest, largest), target)
        return floats if floats.shape == shape else np.resize(floats, shape)
    if dtype in (_T.COMPLEX64, _T.COMPLEX128):
        pair = rng.standard_normal((2, *shape))
        return np.asarray(pair[0] + 1j * pair[1], target)
    is_data = dtype in (_T.UINT8, _T.INT8) and role(value) == "data"
    integers = _all_of(target, shape, rng) if is_data else small_integers(value, shape, rng, signed=signed)
    return np.asarray(integers, target)


def _flags(shape: tuple[int, ...], rng: np.random.Generator, kind: str) -> Array:
    """Draw flags: beyond the normal ones, rows that are mixed, all true or all false.

    Of the flat kinds, all are alike.
    """
    mixed = rng.integers(0, 2, size=shape)
    if kind == "normal":
        return mixed
    alike = rng.integers(0, 3, size=(*shape[:-1], *[1] * min(len(shape), 1)))
    if kind in FLAT:
        alike = np.full_like(alike, FLAT.index(kind))
    return np.where(alike == 2, mixed, alike)


def _all_of(target: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return any integers of a type, its last one too."""
    return rng.integers(np.iinfo(target).min, np.iinfo(target).max, size=shape, endpoint=True)


def _floats(value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator, sample: int, *, mirrored: bool) -> Array:
    """Draw floats; parameters fed as inputs get the statistics of trained ones in every sample.

    Activations stay in range. Ordinary ones are the numbers that are to be repeated.
    """
    numbers = rng.standard_normal(min(math.prod(shape), _MOST_DRAWN))
    purpose, kind = role(value), SAMPLE_KINDS[sample % len(SAMPLE_KINDS)]
    crossing = -1000.0 if sample % MOST_SAMPLES == CROSSED else 1.0  # further than a constant bound beside it may be
    if kind == "tiny" and purpose == "data" and (bound := computed_bound(value)):
        purpose, crossing = bound, math.copysign(1000.0, crossing)  # beyond all that is bounded, on either side
    is_data = purpose == "data" or is_of_both_signs(value, sample)
    if is_data and kind == "normal":
        return -numbers if mirrored else numbers
    normal = np.resize(numbers, shape)
    if is_data:
        center = _stored_mean(value, normal) if kind == "at mean" else 0.0
        data = _DATA[kind](normal)
        return center - data if mirrored else center + data
    if purpose == "weight":
        fan_in = np.prod(shape[1:]) if len(shape) != 2 else max(shape)
        return np.asarray(normal / np.sqrt(max(float(fan_in), 1.0)))
    if purpose == "factor":
        return np.array([1.0] * min(2, normal.size) + [2.0] * (normal.size - 2)).reshape(shape)
    uniform = rng.uniform(0.0, 1.0, shape)
    scale = np.copysign(0.5 + uniform, normal)  # trained scales are of both signs
    return {
        "bias": normal * 0.1,
        "scale": scale,
        "positive": 0.5 + uniform,
        "lower": crossing * (-0.5 - uniform),
        "upper": crossing * (0.5 + uniform),
        "wide": 200.0 + 400.0 * uniform,
        "unit": uniform,
        "inner": 1.98 * uniform - 0.99,
    }[purpose]


def is_of_both_signs(value: ir.Value, sample: int) -> bool:
    """Whether a Log or Sqrt gets negative numbers too, for another consumer of the value: in every second sample."""
    return sample % 2 == 1 and role(value) == "positive" and is_positive_for_some(value)


def _large(normal: Array) -> Array:
    """Give every channel of every sample one sign, the opposite of its neighbours'.

    Some faults show on negative numbers only, such as a wrong slope of a PRelu. A later maximum hides them if signs are
    mixed.
    """
    if normal.ndim < 2:
        return normal * 1e3
    odd = np.indices(normal.shape[:2]).sum(axis=0) % 2
    signs = np.where(odd, 1e3, -1e3).reshape(*normal.shape[:2], *[1] * (normal.ndim - 2))
    return np.asarray(np.abs(normal) * signs)


def _constant_channels(normal: Array) -> Array:
    """Give every channel one number, a half or a whole one; the first is zero.

    Rounding then meets ties, and dividing by a channel's variance divides by zero.
    """
    if normal.ndim < 2:
        return _halves(normal)
    channels = normal[:1, :, *([slice(0, 1)] * (normal.ndim - 2))]
    return np.broadcast_to(_halves(channels), normal.shape)


def _halves(normal: Array) -> Array:
    found = np.asarray(np.rint(normal * 6) / 2)
    found.reshape(-1)[:1] = 0.0
    return found


def _every_second_flat(normal: Array) -> Array:
    spread = np.ones(normal.shape)
    if normal.ndim > 1:
        spread[:, ::2] = 0.0
    return normal * spread


def _stored_mean(value: ir.Value, normal: Array) -> Array:
    """Return the mean stored by a BatchNormalization that reads the value; 0 where there is none."""
    mean = np.zeros(1)
    for node, slot in value.uses:
        stored = node.input(3) if node.is_op("BatchNormalization") and slot == 0 else None
        tensor = reference.constant(stored) if stored is not None else None
        if tensor is not None and normal.ndim > 1 and tensor.dims == normal.shape[1:2]:
            mean = tensor.numpy().astype(np.float64).reshape(-1, *[1] * (normal.ndim - 2))
    return mean


_DATA: dict[str, Callable[[Array], Array]] = {
    "normal": lambda normal: normal,
    "large": _large,
    "tiny": lambda normal: normal * 1e-3,
    "constant": _constant_channels,
    "at mean": _every_second_flat,
}


def small_integers(value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator, *, signed: bool) -> Array:
    """Draw small integers, of both signs if ``signed`` or if consumers take any sign, as those that make floats do.

    If ``signed``, one is too large for a narrower type that they are cast to.
    """
    takes_any = signed or (bool(value.uses) and all(_takes_any_sign(node) for node, _ in value.uses))
    lowest = -8 if takes_any and value.dtype in _SIGNED else 0
    found = np.asarray(rng.integers(lowest, 9, size=shape))
    if signed and value.dtype == TP.INT64 and any(_narrows(node) for node, _ in value.uses):
        found.reshape(-1)[:1] += 1 << 40
    return found


def _narrows(node: ir.Node) -> bool:
    return node.is_op("Cast") and not node.has_references and node.attr("to", 0) in _NARROW


def _takes_any_sign(node: ir.Node) -> bool:
    if not node.is_op("Cast"):
        return node.is_op("Abs", "Sign", "Relu")
    target = None if node.has_references else node.attr("to", 0)
    return target in ("FLOAT", "DOUBLE", "FLOAT16") or (isinstance(target, int) and is_float(target))
