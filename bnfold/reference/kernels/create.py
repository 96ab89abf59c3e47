"""Operators that make tensors, random ones too, or change nothing but their type: Constant, Cast, Range, Dropout."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx

from bnfold.ir.elements import Array, type_name
from bnfold.reference.kernels.layout import ALL_21
from bnfold.reference.precision import WIDENED, Datum, computed_type, is_float
from bnfold.reference.registry import (
    Call,
    KernelDeclined,
    KernelResult,
    Randomness,
    dims_to_make,
    int_list,
    kernel,
    require,
)

TP = onnx.TensorProto


def codes(*names: str) -> frozenset[int]:
    """Return the element types of these names, as far as the installed onnx knows them."""
    return frozenset(TP.DataType.Value(name) for name in names if name in TP.DataType.keys())  # noqa: SIM118 - no mapping


ORDINARY = codes("BOOL", *(f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (2, 4, 8, 16, 32, 64)))
SMALL_FLOATS = codes("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1")


_CONSTANTS: dict[str, int | None] = {
    "value": None,
    "sparse_value": None,
    "value_float": TP.FLOAT,
    "value_floats": TP.FLOAT,
    "value_int": TP.INT64,
    "value_ints": TP.INT64,
    "value_string": TP.STRING,
    "value_strings": TP.STRING,
}


@kernel("Constant", 1, 9, 11, 12, 13, 19, *ALL_21)
def constant(call: Call) -> KernelResult:
    """Return the attribute's value; float attributes are of type FLOAT, integers INT64."""
    for name, code in _CONSTANTS.items():
        if call.has(name):
            return np.asarray(call.attr(name), None if code is None else call.dtype(code))
    raise KernelDeclined("it has no value")


@kernel("ConstantOfShape", 9, 20, *ALL_21)
def constant_of_shape(call: Call, shape: Array) -> KernelResult:
    """Return one value everywhere, a float 0 by default."""
    value = np.asarray(call.attr("value", np.zeros(1, call.dtype(TP.FLOAT)))).reshape(())
    return np.broadcast_to(value, dims_to_make(int_list(shape)))


@kernel("Cast", 1)
@kernel("Cast", 6, 9, 13, 19, *ALL_21, 28)
def cast(call: Call, x: Array) -> KernelResult:
    """Return the target type by number.

    At version 1 by its name in upper case, though files of the time wrote numbers.
    """
    to = call.attr("to")
    require(call.version == 1 or isinstance(to, int), f"a cast to {to!r}")
    return _cast(call, x, TP.DataType.Value(to.upper()) if isinstance(to, str) else to)


@kernel("CastLike", 15, 19, *ALL_21)
def cast_like(call: Call, x: Array, like: Array) -> KernelResult:
    """Return the target type is that of the second input."""
    if is_float(like):
        return x.astype(like.dtype, copy=False)
    return _cast(call, x, onnx.helper.np_dtype_to_tensor_dtype(like.dtype))


def _cast(call: Call, x: Array, code: int) -> Array:
    """Cast between floats, integers and booleans; to integers it truncates. Strings are declined.

    To an integer, what is float32 in the file is rounded to that before, as in front of Floor.
    """
    if code in SMALL_FLOATS and x.dtype.kind not in "OSUc":
        return saturated(call, x, code)
    known = code in ORDINARY | WIDENED and x.dtype.kind not in "OSUc"
    require(known, f"cast from {x.dtype} to {type_name(code)}", KernelDeclined)
    made = call.dtype(code)
    if call.kind == TP.FLOAT and made.kind in "iu":
        x = x.astype(np.float32)
    return x.astype(made, copy=False)


def saturated(call: Call, x: Array, code: int) -> Array:
    """Keep floats of 8 and 4 bits within their limits unless ``saturate`` is 0."""
    limits = ml_dtypes.finfo(call.dtype(code))
    return (np.clip(x, limits.min, limits.max) if call.attr("saturate", 1) else x).astype(call.dtype(code))


@kernel("BitCast", 26)
def bit_cast(call: Call, x: Array) -> KernelResult:
    """Return the same bits read as another type of the same width; widened floats do not have theirs any more."""
    bits = call.precision == "stored" or not is_float(x)
    require(bits, "the bits of a float, which is held in another precision", KernelDeclined)
    stored = computed_type(call.attr("to"), "stored")
    require(stored.itemsize == x.dtype.itemsize, f"{x.dtype} and {stored} differ in width")
    return x.view(stored)


@kernel("Range", 11, 27)
def make_range(call: Call, start: Array, limit: Array, delta: Array) -> KernelResult:
    """Compute max(ceil((limit − start) / delta), 0) numbers from ``start`` on."""
    count = max(int(np.ceil((limit.item() - start.item()) / delta.item())), 0)
    dims_to_make([count])
    return (start.item() + np.arange(count) * delta.item()).astype(start.dtype)


@kernel("EyeLike", 9, 22)
def eye_like(call: Call, x: Array) -> KernelResult:
    """Return ones on diagonal ``k`` of a matrix of X's shape, in X's type unless ``dtype`` says another."""
    code = call.attr("dtype")
    rows, columns = x.shape
    return np.eye(rows, columns, k=call.attr("k"), dtype=x.dtype if code is None else call.dtype(code))


@kernel("Dropout", 1, 6)
@kernel("Dropout", 7, 10)
def dropout_legacy(call: Call, x: Array) -> tuple[Datum, ...]:
    """Return the input, unless ``is_test`` says (or, absent before version 7, the policy decides) that it trains.

    The mask is left undefined: the texts do not fill it in inference, and runtimes disagree on it.
    """
    guess = call.version <= 6 and call.policy.legacy_mode == "training"
    training = not call.attr("is_test") if call.has("is_test") else guess
    if training and call.attr("ratio") > 0:
        raise Randomness("dropout in training mode")
    return (x,)


@kernel("Dropout", 12, 13, 22)
def dropout(call: Call, x: Array, ratio: Array | None = None, training: Array | None = None) -> tuple[Datum, ...]:
    """Drop elements where training, an input, says so; a ratio of 0 drops nothing either way."""
    rate = 0.5 if ratio is None else float(ratio.item())
    if not 0 <= rate < 1:  # the text's range, which runtimes check even if nothing is dropped
        raise ValueError(f"a ratio of {rate:.3g} is not in [0, 1)")
    if training is None or not bool(training.item()) or rate == 0:
        return x, np.ones(x.shape, bool)
    kept = call.generator().random(x.shape) >= rate
    return np.where(kept, x / (1 - rate), 0).astype(x.dtype), kept


@kernel("RandomUniform", 1, 22)
@kernel("RandomUniformLike", 1, 22)
def uniform(call: Call, like: Array | None = None) -> KernelResult:
    """Draw between ``low`` and ``high``."""
    low, high = call.attr("low"), call.attr("high")
    return (low + (high - low) * call.generator().random(_shape(call, like))).astype(_dtype(call, like))


@kernel("RandomNormal", 1, 22)
@kernel("RandomNormalLike", 1, 22)
def normal(call: Call, like: Array | None = None) -> KernelResult:
    """Draw around ``mean``, with the standard deviation ``scale``."""
    drawn = call.generator().standard_normal(_shape(call, like))
    return (call.attr("mean") + call.attr("scale") * drawn).astype(_dtype(call, like))


@kernel("Bernoulli", 15, 22)
def bernoulli(call: Call, x: Array) -> KernelResult:
    """Compute 1 with the probability X, else 0."""
    return (call.generator().random(x.shape) < x).astype(_dtype(call, x))


@kernel("Multinomial", 7, 22)
def multinomial(call: Call, x: Array) -> KernelResult:
    """Draw classes by logarithms of their odds, as many a row as ``sample_size``."""
    odds = np.exp(x - x.max(axis=1, keepdims=True))
    ends = np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)
    drawn = call.generator().random((len(x), call.attr("sample_size"), 1))
    return (drawn >= ends[:, None, :-1]).sum(axis=2).astype(call.dtype(call.attr("dtype")))


def _shape(call: Call, like: Array | None) -> tuple[int, ...]:
    return dims_to_make(call.attr("shape")) if like is None else like.shape


def _dtype(call: Call, like: Array | None) -> np.dtype[Any]:
    """Compute ``dtype``, else the input's."""
    code = call.attr("dtype")
    return like.dtype if code is None and like is not None else call.dtype(code)
