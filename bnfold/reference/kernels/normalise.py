"""BatchNormalization of every version and mode, and its relatives.

Sources: the operator texts; where they leave a mode open, `registry.Policy`. Parameters may have another element type
than X; under numpy's promotion the arithmetic takes the widest.
"""

from __future__ import annotations

import math
from itertools import dropwhile

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.broadcast import spread_onto
from bnfold.reference.kernels.reduction import average
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, normal_axis, require

LAST_SLOTTED = 9
"""Up to this version outputs 4 and 5 (the saved statistics) exist, and the mode shows in the outputs."""

_BLOCK = 1 << 17
"""Elements that are normalised at once."""


@kernel("BatchNormalization", 1, 6)
@kernel("BatchNormalization", 7, 9)
@kernel("BatchNormalization", 14, 15)
def batch_normalization(call: Call, x: Array, scale: Array, b: Array, mean: Array, var: Array) -> tuple[Array, ...]:
    """Normalise X (N, C, D1…), parameters (C), or (C, D1…) if ``spatial`` is 0 -> Y, in training the statistics."""
    training = is_training(call)
    require(scale.shape == b.shape == mean.shape == var.shape, "its parameters differ in shape")
    per_activation = _is_per_activation(call, x, scale)
    shape = x.shape[1:] if per_activation else (-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else ()
    scale, b = scale.reshape(shape), b.reshape(shape)
    eps = call.attr("epsilon")
    if not training:
        y = np.subtract(x, mean.reshape(shape), dtype=np.result_type(x, scale, b, mean, var))
        y /= np.sqrt(var.reshape(shape) + eps)
        y *= scale  # in place: memory that is new costs more than the arithmetic
        y += b
        return (y,)
    axes = (0,) if per_activation else tuple(i for i in range(x.ndim) if i != 1)
    current = average(x, axes)
    spread = average(np.square(x - current), axes)
    y = (x - current) / np.sqrt(spread + eps) * scale + b
    return y, *_statistics(call, mean, var, current.reshape(mean.shape), spread.reshape(var.shape))


def is_training(call: Call) -> bool:
    """Return the mode of a BatchNormalization node.

    ``is_test`` and ``training_mode`` are honoured at versions that do not have them: exporters wrote them there and
    meant them. Where inference has no statistics to return, they stay undefined, which only matters if they are read.
    """
    slotted = call.version <= LAST_SLOTTED
    legal = len(call.named) in (1, 5) if slotted else not any(call.named[3:])
    require(legal, f"{len(call.named)} outputs, where 1 or {5 if slotted else 3} are legal", KernelDeclined)
    if call.policy.force_inference:
        return False
    is_test, training = call.attrs.get("is_test"), call.attrs.get("training_mode")
    agree = is_test is None or training is None or bool(is_test) != bool(training)
    require(agree, "is_test and training_mode contradict each other", KernelDeclined)
    if is_test is not None:
        return not is_test
    return bool(training) if training is not None else _implies_training(call)


def _implies_training(call: Call) -> bool:
    """Return the mode of a node that does not spell it out."""
    if call.version > LAST_SLOTTED:
        return False
    if call.version > 6 or any(call.read[1:]):
        return any(call.named[1:])
    return call.policy.legacy_mode == "training" or (call.policy.legacy_mode != "inference" and any(call.named[1:]))


def _is_per_activation(call: Call, x: Array, scale: Array) -> bool:
    """Whether parameters are one an activation. By element count where ``spatial`` is 0: exporters wrote 0 with (C)."""
    channels = x.shape[1] if x.ndim > 1 else 1
    is_flat = scale.ndim == 1 and scale.size == math.prod(x.shape[1:])
    if call.attr("spatial", 1) == 0 and (is_flat or _from_first(scale.shape) == _from_first(x.shape[1:])):
        return True
    fits = scale.size == channels == max(scale.shape, default=1)
    require(fits, f"parameters of shape {scale.shape} for an input of shape {x.shape}")
    return False


def _from_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dims without the ones before all others."""
    return tuple(dropwhile(lambda dim: dim == 1, shape))


def _statistics(call: Call, mean: Array, var: Array, current: Array, spread: Array) -> tuple[Array, ...]:
    """Return running mean and variance, and at old versions the saved ones. ONNX's momentum weighs the *old* value."""
    momentum = call.attr("momentum")
    running = (mean * momentum + current * (1 - momentum), var * momentum + spread * (1 - momentum))
    if call.version > LAST_SLOTTED:
        return running
    inverse = call.policy.saved_var == "inv-std"
    return *running, current, 1 / np.sqrt(spread + call.attr("epsilon")) if inverse else spread


@kernel("InstanceNormalization", 1, 6, 22)
def instance_normalization(call: Call, x: Array, scale: Array, b: Array) -> KernelResult:
    """Compute X (N, C, D1…), scale and B (C): each instance's channel to mean 0, variance 1 over D1…, then scale and B.

    In its own type it is one factor and one shift, as in onnxruntime, which loses digits where the factor is large.
    """
    require(scale.shape == b.shape == x.shape[1:2], f"{scale.size} scales and {b.size} shifts for a {x.shape} input")
    axes, epsilon = tuple(range(2, x.ndim)), call.attr("epsilon")
    scale, b = (parameter.reshape(-1, *(1,) * (x.ndim - 2)) for parameter in (scale, b))
    if call.precision == "float64":
        return _normalized(x, scale, b, epsilon)
    mean = average(x, axes)
    factor = scale / np.sqrt(average(np.square(x - mean), axes) + np.asarray(epsilon, x.dtype))
    return x * factor + (b - mean * factor)


def _normalized(x: Array, scale: Array, b: Array, epsilon: float) -> Array:
    """Compute InstanceNormalization, a few channels after the other: large temporaries take most of the time."""
    y, axes = np.empty_like(x), tuple(range(1, x.ndim - 1))
    step = max(1, _BLOCK // max(math.prod(x.shape[2:]), 1))
    for image, made in zip(x, y, strict=True):
        for first in range(0, len(image), step):
            some = slice(first, first + step)
            centred = np.subtract(image[some], average(image[some], axes), out=made[some])
            centred *= scale[some] / np.sqrt(average(np.square(centred), axes) + epsilon)
            centred += b[some]
    return y


def standardise(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Compute (x − mean) / sqrt(population variance + epsilon) over ``axes``, in an array of its own."""
    centred = np.asarray(x - average(x, axes))
    centred /= np.sqrt(average(np.square(centred), axes) + epsilon)
    return centred


@kernel("GroupNormalization", 18)
@kernel("GroupNormalization", 21)
def group_normalization(call: Call, x: Array, scale: Array, b: Array) -> KernelResult:
    """Compute X (N, C, D1…). Version 18 has one scale and bias a *group*, version 21 one a channel."""
    groups = call.attr("num_groups")
    require(x.shape[1] % groups == 0, f"{x.shape[1]} channels in {groups} groups")
    fits = scale.shape == b.shape == (groups if call.version == 18 else x.shape[1],)
    require(fits, f"{scale.size} scales at this version for {x.shape[1]} channels in {groups} groups")
    split = x.reshape(x.shape[0], groups, -1)
    y = standardise(split, (2,), call.attr("epsilon")).reshape(x.shape)
    repeat = x.shape[1] // scale.size
    shape = (-1, *(1,) * (x.ndim - 2))
    return y * np.repeat(scale, repeat).reshape(shape) + np.repeat(b, repeat).reshape(shape)


@kernel("LayerNormalization", 17)
def layer_normalization(call: Call, x: Array, scale: Array, b: Array | None = None) -> tuple[Array, ...]:
    """Normalise over ``axis`` and all later axes -> Y, Mean, InvStdDev (the latter two keep them as 1)."""
    axes = tuple(range(normal_axis(call.attr("axis"), x.ndim), x.ndim))
    current = average(x, axes)
    inverse = 1 / np.sqrt(average(np.square(x - current), axes) + call.attr("epsilon"))
    y = (x - current) * inverse * spread_onto(x, scale)
    return y if b is None else y + spread_onto(x, b), current, inverse


@kernel("RMSNormalization", 23)
def rms_normalization(call: Call, x: Array, scale: Array) -> KernelResult:
    """Compute X / sqrt(mean(X²) + epsilon) · scale over ``axis`` and all later axes."""
    axes = tuple(range(normal_axis(call.attr("axis"), x.ndim), x.ndim))
    return x / np.sqrt(average(np.square(x), axes) + call.attr("epsilon")) * spread_onto(x, scale)


@kernel("LpNormalization", 1, 22)
def lp_normalization(call: Call, x: Array) -> KernelResult:
    """Compute X over its L1 or L2 norm along ``axis``; a zero norm gives zeros."""
    p, axis = call.attr("p"), normal_axis(call.attr("axis"), x.ndim)
    norm = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt(np.square(x).sum(axis, keepdims=True))
    return np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)


@kernel("LRN", 1, 13)
def lrn(call: Call, x: Array) -> KernelResult:
    """Compute X / (bias + alpha/size · Σ X²)^beta, over ``size`` neighbouring channels, the longer half behind."""
    size = call.attr("size")
    before = (size - 1) // 2
    squares = np.square(x)
    total = np.zeros_like(x)
    for channel in range(x.shape[1]):
        stop = min(channel - before + size, x.shape[1])
        total[:, channel] = squares[:, max(channel - before, 0) : stop].sum(1)
    return x / (call.attr("bias") + call.attr("alpha") / size * total) ** call.attr("beta")
