"""In which type a number is computed: every float widened to float64, or each as the file stores it.

Float64 precision means that *rounding* is taken out of the model: a Cast between float types is the identity there, but
for what follows from constants, and a Cast of a float to float16 does not overflow. What is discontinuous by design
stays so: casts to booleans and to the 8-bit and 4-bit floats act on the unrounded value. What becomes an integer
(Round, Floor, Ceil, casts to integers, the quotient of QuantizeLinear) is rounded once, to its type in the file, so
that all ways to compute it take the same side of a tie.
"""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

Precision = Literal["float64", "stored"]
Datum = Any
"""What flows along an edge: an array, or a list, dict or None for a sequence, a map or an empty optional."""

TP = onnx.TensorProto

WIDENED = frozenset({TP.FLOAT, TP.FLOAT16, TP.BFLOAT16, TP.DOUBLE})
_HALVES = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
_NARROW = _HALVES | {np.dtype(np.float32)}
DOUBLE = np.dtype(np.float64)


def computed_type(code: int, precision: Precision) -> np.dtype[Any]:
    """Return the numpy type that stands for an ONNX element type (``onnx.TensorProto.DataType``)."""
    if precision == "float64" and code in WIDENED:
        return np.dtype(np.float64)
    if code == TP.STRING:
        return np.dtype(object)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def widen(value: Datum) -> Datum:
    """Return float16, bfloat16 and float32 arrays as float64, exactly.

    Anything else as it is (lists element by element).
    """
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype in _NARROW else value
    if isinstance(value, list):
        return [widen(item) for item in value]
    return value


def admitted(value: Datum, precision: Precision) -> Datum:
    """Return a stored or fed value in the type it is computed in."""
    return widen(value) if precision == "float64" else value


def jittered(value: Datum, rng: np.random.Generator) -> Datum:
    """Return the value with two thirds of its floats moved to a neighbour of their type.

    Whole numbers stay, which may be sizes or masks. If all others moved, the sum of two would have an even last digit
    before and after, and halving it would never round.
    """
    if isinstance(value, list):
        return [jittered(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or not is_float(value):
        return value
    with np.errstate(invalid="ignore"):
        is_between = np.abs(value - np.rint(value)) > 0  # neither NaN nor infinite
    # As integers, floats of one sign are in order: one more or less is a neighbour.
    steps = rng.integers(-1, 2, value.shape, np.int8) * is_between
    whole = np.dtype(f"i{value.dtype.itemsize}")
    moved: npt.NDArray[Any] = (value.view(whole) + steps.astype(whole)).view(value.dtype)
    return moved


def as_declared(value: Datum, code: int | None) -> Datum:
    """Return a float array in the float type that its declaration gives (None: says nothing).

    Anything else as it is.
    """
    if code not in WIDENED or not isinstance(value, np.ndarray) or not is_float(value):
        return value
    return value.astype(computed_type(code, "stored"), copy=False)


def workable(value: Datum) -> Datum:
    """Return 16-bit floats as float32, in which processors compute with them; anything else as it is."""
    if isinstance(value, np.ndarray) and value.dtype in _HALVES:
        return value.astype(np.float32)
    return value


def as_array(value: Datum) -> Datum:
    """Return numpy scalars, which reductions return for rank 0, as arrays of rank 0."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def rounded(value: Datum, like: npt.NDArray[Any] | None) -> Datum:
    """Return a float result rounded to the element type of ``like``.

    Where either is no float array, the result itself.
    """
    if like is None or not isinstance(value, np.ndarray) or value.dtype == like.dtype:
        return value
    if not (is_float(value) and is_float(like)):
        return value
    return value.astype(like.dtype)


def is_float(array: npt.NDArray[Any]) -> bool:
    """Whether the element type is one that float64 precision widens."""
    return array.dtype == DOUBLE or array.dtype in _NARROW
