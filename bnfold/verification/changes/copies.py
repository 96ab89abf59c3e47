"""Find the value that another one is a copy of, through steps that change nothing.

Whether an operator leaves its operand as it is beside a constant, is computed for numbers of every kind. A constant
that changes any number changes one of these: the ends of the type, infinities, NaN, both zeros, and numbers of many and
of few digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS, RAW_TYPES, Array
from bnfold.ir.tensor import TP
from bnfold.ir.value import Dims
from bnfold.reference.dispatch import meaning
from bnfold.reference.operators import COMPARING, RESHAPING
from bnfold.verification.changes.from_constants import fixed
from bnfold.verification.changes.partly import known_of
from bnfold.verification.inputs.bounds import follow_from_sizes

NeutralOperation = Callable[[Any, Any], Any]

OPERATIONS: Mapping[str, NeutralOperation] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda x, other: np.true_divide(x, other) if x.dtype.kind not in "iu" else np.floor_divide(x, other),
    "Pow": lambda x, other: np.power(x, other.astype(x.dtype)),
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
    "Max": np.maximum,
    "Min": np.minimum,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitShift": np.left_shift,
    "Clip": np.maximum,
}
_FEW = 2
"""Distinct elements that a neutral constant may have: zeros of both signs."""

_MOST = 1 << 10
"""Elements of a constant that is looked at, so that no large weight is read for it."""

_FAR = 64
"""How many copies in a row are followed back."""

_TRAINS_BY_INPUT = 12
"""The first version of Dropout that has an input for training mode."""


def leaves_all(node: ir.Node, slot: int, others: Mapping[int, Array], dtype: int | None, *, signs: bool) -> bool:
    """Whether a node returns whatever it reads at ``slot``, beside constants at its other places.

    With ``signs``, a zero keeps its sign.
    """
    numbers = _numbers_of(dtype) if dtype is not None else None
    if numbers is None or (node.is_op("Pow") and dtype not in FLOATS):  # runtimes compute that of integers in floats
        return False
    if node.is_op("Clip"):
        others = {place: others.get(place, _end(numbers, place)) for place in (1, 2)} if slot == 0 else {}
    return bool(others) and all(
        _leaves(_operation(node, place), numbers, constant, is_left=place < slot, signs=signs)
        for place, constant in others.items()
    )


def _operation(node: ir.Node, place: int) -> NeutralOperation:
    return np.minimum if node.is_op("Clip") and place == 2 else OPERATIONS[node.op_type]


def _leaves(operation: NeutralOperation, numbers: Array, constant: Array, *, is_left: bool, signs: bool) -> bool:
    if constant.dtype.kind == "O":  # words, which no number fits
        return False
    size = constant.dtype.itemsize
    kept = constant.tobytes()
    distinct = {kept[start : start + size] for start in range(0, len(kept), size)}
    if len(distinct) > _FEW:
        return False
    for element in distinct:
        number = np.frombuffer(element, constant.dtype)
        with np.errstate(all="ignore"):
            made = operation(number, numbers) if is_left else operation(numbers, number)
        if not _are_same(numbers, np.asarray(made), signs=signs):
            return False
    return True


def _are_same(numbers: Array, made: Array, *, signs: bool) -> bool:
    if numbers.dtype.kind in "biu":
        return np.array_equal(numbers, made)
    same = (numbers == made) | (np.isnan(numbers) & np.isnan(made))
    return bool(same.all()) and not (signs and (np.signbit(numbers) != np.signbit(made))[~np.isnan(numbers)].any())


def _numbers_of(dtype: int) -> Array | None:
    """Return numbers of a type, of every kind that it has; None for other types than plain numbers and booleans."""
    kind = RAW_TYPES.get(dtype)
    if dtype == TP.BOOL:
        return np.array([False, True])
    if kind is None or (dtype not in FLOATS and np.dtype(kind).kind not in "iu"):
        return None
    if dtype not in FLOATS:
        limits = np.iinfo(kind)
        return np.array([limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1, 7, 100], kind)
    bits = np.dtype(f"u{np.dtype(kind).itemsize}")
    infinite = int(np.array(np.inf, kind).view(bits))
    # subnormal, smallest and largest, all by their bits, for types that numpy does not know
    patterns = [1, 2, infinite - 1, infinite // 2, infinite // 2 + 1, infinite // 3, infinite // 5]
    positive = np.array([0, *patterns, infinite], bits).view(kind)
    ordinary = np.array([1.0, 1.5, 3.0, 0.1, np.nan]).astype(kind)
    return np.concatenate([positive, -positive, ordinary, -ordinary])


def _end(numbers: Array, place: int) -> Array:
    """Return the bound of a Clip that says none: the end of the type, which is no infinity."""
    kept = numbers[np.isfinite(numbers)] if numbers.dtype.kind not in "biu" else numbers
    return np.array([kept.min() if place == 1 else kept.max()], numbers.dtype)


def copied(value: ir.Value | None) -> ir.Value | None:
    """Return the value that this one is a copy of, through any number of copying nodes."""
    for _ in range(_FAR):
        producer = value.producer if value is not None else None
        source = handed_on(producer) if producer is not None and value is producer.output(0) else None
        if source is None:
            break
        value = source
    return value


def handed_on(producer: ir.Node) -> ir.Value | None:
    """Return the input that the first output is a copy of; None if it is no copy.

    Dropout copies if it has no input for training mode, arithmetic if its constants leave every number as it is. A
    vector of sizes is copied by a Reshape to a vector, and by a Where that takes all from one side. What is reshaped is
    copied once it has its first sizes again.
    """
    if producer.is_call or producer.has_references:
        return None
    if producer.has_trait(RESHAPING):
        return _reshaped_again(producer) or _whole_vector(producer)
    source = next((source for operators, source in _SOURCES if producer.is_op(*operators)), None)
    return source(producer) if source is not None else None


def _with_idle_dropout(node: ir.Node) -> ir.Value | None:
    is_idle = meaning(node)[2] >= _TRAINS_BY_INPUT and node.input(2) is None
    return node.input(0) if is_idle else None


def _moved_nowhere(node: ir.Node) -> ir.Value | None:
    """Return the input of a Tile by ones, a Pad by zeros, or a Transpose that leaves all axes in their order."""
    if node.is_op("Transpose"):
        order = node.attr("perm")
        return node.input(0) if order and list(order) == sorted(order) else None
    held = reference.constant(node.input(1))
    numbers = held.numpy() if held is not None else np.asarray(node.attr("pads", [None]))
    return node.input(0) if (numbers == (1 if node.is_op("Tile") else 0)).all() else None


def _reshaped_again(node: ir.Node) -> ir.Value | None:
    """Return the value of the same sizes that nodes before have only reshaped, each of them whatever the sizes are."""
    made, known = node.output(0), known_of(node.graph.model)
    dims = known.dims(made) if made is not None else None
    total = _product(dims or ())
    value = node.input(0)
    for _ in range(_FAR if dims is not None and total is not None else 0):
        before = known.dims(value) if value is not None and value is not made else None
        if value is None or before is None or _product(before) != total:
            return None
        if before == dims:
            return value
        if value.producer is None or not value.producer.has_trait(RESHAPING) or value.producer.is_call:
            return None
        value = value.producer.input(0)
    return None


def _product(dims: Dims) -> tuple[int, list[str]] | None:
    """Return the number of elements as a number and names to multiply; None if a size is unknown."""
    names = [dim for dim in dims if isinstance(dim, str)]
    numbers = [dim for dim in dims if isinstance(dim, int)]
    return (math.prod(numbers), sorted(names)) if len(names) + len(numbers) == len(dims) else None


def _left_as_it_is(node: ir.Node) -> ir.Value | None:
    """Return the operand of arithmetic that the others leave as it is, whatever it is."""
    for slot, given in enumerate(node.inputs):
        if given is None:
            continue
        others = {place: other for place, other in enumerate(node.inputs) if place != slot and other is not None}
        numbers = {place: held for place, other in others.items() if (held := _numbers(other)) is not None}
        if len(numbers) < len(others) or any(_widens(held.shape, given, node) for held in numbers.values()):
            continue
        if leaves_all(node, slot, numbers, _dtype(node, given), signs=_may_show_sign(node)):
            return given
    return None


def _dtype(node: ir.Node, given: ir.Value) -> int | None:
    """Return the element type of an operand, as it is proven, or that of a constant beside it."""
    proven = known_of(node.graph.model).dtype(given)
    held = next((held for value in node.inputs if (held := reference.constant(value)) is not None), None)
    return held.dtype if proven is None and held is not None and not node.is_op("Pow") else proven


def _numbers(value: ir.Value | None) -> Array | None:
    """Return the elements of a constant, or of what follows from sizes that are the same in every run."""
    held = reference.constant(value)
    if held is not None:
        return held.numpy() if held.size <= _MOST else None
    is_of_sizes = value is not None and follow_from_sizes([value])  # else the walk back to its inputs is long
    return known_of(value.graph.model).certain(value) if value is not None and is_of_sizes else None


def _widens(dims: Sequence[int], given: ir.Value, node: ir.Node) -> bool:
    """Whether an operand with these dims may give the result other ones than the ``given`` operand has."""
    known, made = known_of(node.graph.model), node.output(0)
    own = known.dims(given) if dims else ()
    if own is None or made is None:
        return True
    return len(dims) > len(own) or (math.prod(dims) != 1 and (None in own or known.dims(made) != own))


def _may_show_sign(node: ir.Node) -> bool:
    """Whether it may show that a zero has another sign."""
    made = node.output(0)
    is_compared = made is not None and all(reader.has_trait(COMPARING) for reader in made.consumers)
    return not is_compared and known_of(node.graph.model).has_poles


def _only_one(concat: ir.Node) -> ir.Value | None:
    """Return the operand, if only one is not known to be empty."""
    others = [value for value in concat.inputs if (held := fixed(value)) is None or held.size]
    return others[0] if len(others) == 1 else None


def _whole_vector(node: ir.Node) -> ir.Value | None:
    made, source = node.output(0), node.input(0)
    if made is None or made.dtype not in (TP.INT64, TP.INT32):
        return None
    if node.is_op("Where"):
        held = fixed(node.input(0))
        truths = set(held.numpy().reshape(-1).tolist()) if held is not None else set()
        source = node.input(1 if truths == {True} else 2) if len(truths) == 1 else None
    known = known_of(node.graph.model)
    before, after = (known.of(value) if value is not None else None for value in (source, made))
    is_vector = before is not None and after is not None and before.elements.shape == after.elements.shape
    return source if is_vector and after is not None and after.elements.ndim == 1 else None


_SOURCES: tuple[tuple[tuple[str, ...], Callable[[ir.Node], ir.Value | None]], ...] = (
    (("Identity",), lambda node: node.input(0)),
    (("Dropout",), _with_idle_dropout),
    (("Concat",), _only_one),
    (("Where",), _whole_vector),
    (tuple(OPERATIONS), _left_as_it_is),
    (("Tile", "Pad", "Transpose"), _moved_nowhere),
)
