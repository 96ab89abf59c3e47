"""Operators that older opsets do not have, in terms of others. Equal to their own texts, never approximate."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto


@down("Gelu", 20)
def gelu(conversion: NodeConversion) -> None:
    """Decompose Gelu: ``x/2 · (1 + erf(x/√2))``, or the text's curve of Tanh."""
    data, approximate = conversion.input(0), conversion.take("approximate", "none")
    if approximate == "none":
        root = conversion.add("Div", [data, conversion.scalar(math.sqrt(2), data, "root_of_2")], "scaled")
        curve = conversion.add("Erf", [root], "erf")
    elif approximate == "tanh":
        curve = conversion.add("Tanh", [_tanh_argument(conversion, data)], "tanh")
    else:
        raise Inexpressible(f"has approximate={approximate!r}, which its text does not know")
    raised = conversion.add("Add", [curve, conversion.scalar(1, data, "one")], "raised")
    half = conversion.add("Mul", [data, conversion.scalar(0.5, data, "half")], "halved")
    conversion.become("Mul", [half, raised])


def _tanh_argument(conversion: NodeConversion, data: ir.Value) -> ir.Value:
    """Add ``√(2/π) · (x + 0.044715·x³)``."""
    square = conversion.add("Mul", [data, data], "square")
    cube = conversion.add("Mul", [square, data], "cube")
    factor = float(np.float32(0.044715))  # the operator's own constant, of float32 whatever the type
    small = conversion.add("Mul", [cube, conversion.scalar(factor, data, "factor")], "small")
    inner = conversion.add("Add", [data, small], "inner")
    return conversion.add("Mul", [inner, conversion.scalar(math.sqrt(2 / math.pi), data, "scale")], "argument")


@down("HardSwish", 14)
def hard_swish(conversion: NodeConversion) -> None:
    """Decompose HardSwish: ``x · HardSigmoid(x)`` with alpha 1/6 and beta 1/2."""
    data = conversion.input(0)
    gate = conversion.add("HardSigmoid", [data], "gate", alpha=1 / 6, beta=0.5)
    conversion.become("Mul", [data, gate])


@down("Mish", 18)
def mish(conversion: NodeConversion) -> None:
    """Decompose Mish: ``x · tanh(softplus(x))``."""
    data = conversion.input(0)
    gate = conversion.add("Tanh", [conversion.add("Softplus", [data], "softplus")], "gate")
    conversion.become("Mul", [data, gate])


@down("Swish", 24)
def swish(conversion: NodeConversion) -> None:
    """Decompose Swish: ``x · sigmoid(alpha·x)``."""
    data, alpha = conversion.input(0), conversion.take("alpha", 1.0)
    inner = data
    if alpha != 1:
        inner = conversion.add("Mul", [data, conversion.scalar(alpha, data, "alpha")], "scaled")
    conversion.become("Mul", [data, conversion.add("Sigmoid", [inner], "gate")])


@down("Celu", 12)
def celu(conversion: NodeConversion) -> None:
    """Decompose Celu: ``alpha · elu(x/alpha)``, which holds for a positive alpha."""
    data, alpha = conversion.input(0), conversion.take("alpha", 1.0)
    if not alpha > 0:
        raise Inexpressible(f"has alpha={alpha}")
    if alpha == 1:
        conversion.become("Elu", [data], alpha=1.0)
        return
    factor = conversion.scalar(alpha, data, "alpha")
    curve = conversion.add("Elu", [conversion.add("Div", [data, factor], "scaled")], "curve", alpha=1.0)
    conversion.become("Mul", [curve, factor])


def or_equal(strict: str, opposite: str, conversion: NodeConversion) -> None:
    """Decompose GreaterOrEqual, LessOrEqual: floats may be NaN, which compares false; integers need one comparison."""
    left, right = conversion.input(0), conversion.input(1)
    if np.issubdtype(onnx.helper.tensor_dtype_to_np_dtype(conversion.dtype(left)), np.integer):
        conversion.become("Not", [conversion.add(opposite, [left, right], "opposite")])
        return
    is_strict = conversion.add(strict, [left, right], "strict")
    conversion.become("Or", [is_strict, conversion.add("Equal", [left, right], "equal")])


down("GreaterOrEqual", 12)(partial(or_equal, "Greater", "Less"))
down("LessOrEqual", 12)(partial(or_equal, "Less", "Greater"))


@down("CastLike", 15)
def cast_like(conversion: NodeConversion) -> None:
    """Write CastLike as Cast to the type that the other input has."""
    conversion.become("Cast", [conversion.input(0)], to=conversion.dtype(conversion.input(1)))


_LARGEST_MASK = 1 << 20
"""Elements of a triangle that are stored; beyond, the model makes it."""


@down("Trilu", 14)
def trilu(conversion: NodeConversion) -> None:
    """Decompose Trilu: Where, since a mask of zeros would make NaN of infinities."""
    data, upper = conversion.input(0), bool(conversion.take("upper", 1))
    if conversion.rank(data) < 2:
        raise Inexpressible("has an input of less than two axes")
    mask = _stored_triangle(conversion, data, upper=upper) or _computed_triangle(conversion, data, upper=upper)
    if conversion.dtype(data) == TP.BOOL:
        conversion.become("And", [data, mask])
    else:
        conversion.become("Where", [mask, data, conversion.scalar(0, data, "zero")])


def _stored_triangle(conversion: NodeConversion, data: ir.Value, *, upper: bool) -> ir.Value | None:
    """Return the mask of what is kept as a constant; None where its size or its place is not known."""
    rows, columns = (conversion.shape(data) or (None, None))[-2:]
    diagonal = conversion.node.input(1)
    tensor = None if diagonal is None else conversion.known(diagonal)
    if not isinstance(rows, int) or not isinstance(columns, int) or not 0 < rows * columns <= _LARGEST_MASK:
        return None
    if diagonal is not None and tensor is None:
        return None
    offset = 0 if tensor is None else int(tensor.numpy().reshape(-1)[0])
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    return conversion.constant(distance >= offset if upper else distance <= offset, "triangle")


def _computed_triangle(conversion: NodeConversion, data: ir.Value, *, upper: bool) -> ir.Value:
    """Make the mask of what is kept from the sizes at run time."""
    diagonal = conversion.node.input(1) or conversion.constant(np.array(0, np.int64), "zero")
    rank, shape = conversion.rank(data), conversion.add("Shape", [data], "shape")
    start, one = (conversion.constant(np.array(number, np.int64), "number") for number in (0, 1))
    ranges = []
    for axis in (rank - 2, rank - 1):
        size = conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)
        end = conversion.along("Squeeze", size, [0], "end")
        ranges.append(conversion.add("Range", [start, end, one], "range"))
    rows = conversion.add("Reshape", [ranges[0], conversion.ints([-1, 1], "column")], "rows_column")
    distance = conversion.add("Sub", [ranges[1], rows], "distance")
    if conversion.shape(diagonal) != ():
        diagonal = conversion.reshape(diagonal, [1], "diagonal")
    dropped = conversion.add("Less" if upper else "Greater", [distance, diagonal], "dropped")
    return conversion.add("Not", [dropped], "triangle")


@down("Round", 11)
def rounded(conversion: NodeConversion) -> None:
    """Decompose Round: half of an odd number goes to the even one above or below it.

    Twice the number is compared with the sum of both. Every node but Floor and Ceil works on integers, so all takes the
    same side of a tie in whatever precision the number itself is computed.
    """
    data = conversion.input(0)
    below, above = (conversion.add(op_type, [data], hint) for op_type, hint in (("Floor", "below"), ("Ceil", "above")))
    half, both = conversion.scalar(0.5, data, "half"), conversion.add("Add", [below, above], "both")
    twice = conversion.add("Div", [data, half], "twice")
    is_over = conversion.add("Greater", [conversion.add("Ceil", [twice], "twice_above"), both], "is_over")
    is_under = conversion.add("Less", [conversion.add("Floor", [twice], "twice_below"), both], "is_under")
    halved = conversion.add("Mul", [below, half], "halved")
    is_odd = conversion.add("Less", [conversion.add("Floor", [halved], "even"), halved], "is_odd")
    is_tie = conversion.add("Not", [is_under], "is_half_or_over")
    goes_up = conversion.add("Or", [is_over, conversion.add("And", [is_tie, is_odd], "is_odd_half")], "goes_up")
    conversion.become("Where", [goes_up, above, below])


@down("IsInf", 20, by_form=True)
def of_float(conversion: NodeConversion) -> None:
    """Convert IsInf 20 → 10, which takes no float16: float32 holds the same numbers."""
    data = conversion.input(0)
    if conversion.dtype(data) == TP.FLOAT16:
        conversion.node.set_input(0, conversion.add("Cast", [data], "float", to=TP.FLOAT))


@down("IsInf", 10)
def is_infinite(conversion: NodeConversion) -> None:
    """Decompose IsInf: beyond the largest number of the type, on either side or on one."""
    data = conversion.input(0)
    is_high, is_low = (bool(conversion.take(f"detect_{side}", 1)) for side in ("positive", "negative"))
    largest = float(np.finfo(numeric_type(conversion.dtype(data))).max)
    if is_low == is_high:  # the magnitude is above the largest number, or never below 0
        data = conversion.add("Abs", [data], "magnitude")
    bound = largest if is_high else -largest
    conversion.become("Greater" if is_high else "Less", [data, conversion.scalar(bound, data, "largest")])


@down("ThresholdedRelu", 10)
def thresholded(conversion: NodeConversion) -> None:
    """Decompose ThresholdedRelu: ``x`` where it is above alpha, and 0 elsewhere.

    A number of a narrow type is above alpha if it is above the largest number of that type that is not.
    """
    data, alpha = conversion.input(0), conversion.take("alpha", 1.0)
    with np.errstate(over="ignore"):
        bound = np.array(alpha).astype(numeric_type(conversion.dtype(data)))
        if bound.astype(np.float64) > alpha:
            bound = np.nextafter(bound, np.array(-np.inf, bound.dtype))
    is_above = conversion.add("Greater", [data, conversion.scalar(float(bound), data, "alpha")], "is_above")
    conversion.become("Where", [is_above, data, conversion.scalar(0, data, "zero")])
