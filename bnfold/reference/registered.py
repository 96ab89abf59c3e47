"""Kernels that callers registered for operators of other domains: the evaluator runs them as it runs its own.

A kernel is a caller's word. What it returns is checked: float64 for floats, an array for every output that is read, and
the shapes that the caller's own shape function says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.registered import registered_operator
from bnfold.reference.attributes import resolve
from bnfold.reference.outlines import UnknownNumbers
from bnfold.reference.precision import Datum, is_float, widen
from bnfold.reference.registry import Call, Kernel, KernelDeclined, KernelResult, Mismatch
from bnfold.registered.table import RegisteredOperator
from bnfold.registered.types import DoesNotApply, ValueType, returned


def registered_kernel(node: ir.Node) -> Kernel | None:
    """Return the kernel that a caller registered for the node's operator, in the form of the evaluator's own."""
    operator = registered_operator(node)
    if operator is None or operator.kernel is None:
        return None

    def kernel(call: Call, *inputs: Datum) -> KernelResult:
        return _computed(operator, call, inputs)

    return kernel


def callers_word(nodes: Iterable[ir.Node]) -> str:
    """Return a sentence that names the operators that registered kernels compute; empty if there are none."""
    found = (registered_operator(node) for node in nodes if node.domain)
    operators = dict.fromkeys(each for each in found if each is not None and each.kernel is not None)
    modules: dict[str, dict[str, None]] = {}
    for operator in operators:
        modules.setdefault(operator.module, {})[operator.name] = None
    by = (f"{', '.join(names)}{f' (by {module})' if module else ''}" for module, names in modules.items())
    return f"computed by kernels that were registered, on the caller's word: {'; '.join(by)}" if modules else ""


def _computed(operator: RegisteredOperator, call: Call, inputs: Sequence[Datum]) -> KernelResult:
    shown = [_read_only(widen(value)) for value in inputs]
    attributes = {name: _read_only(value) for name, value in call.attrs.items()}
    for name, value in attributes.items():
        if any(isinstance(each, ir.Graph) for each in (value if isinstance(value, list) else [value])):
            raise KernelDeclined(f"attribute {name!r} is a graph, which registered kernels are not given")
    assert operator.kernel is not None, "it was looked for"
    try:
        answer = operator.kernel(*shown, **attributes)
        sizes = [value.size for value in shown if isinstance(value, np.ndarray)]
        again = operator.kernel(*shown, **attributes) if sum(sizes) <= _SMALL else answer
    except DoesNotApply as reason:
        raise KernelDeclined(f"its registered kernel does not apply: {reason}") from reason
    except UnknownNumbers:
        raise
    except (ValueError, IndexError) as error:
        if "read-only" in str(error):
            raise KernelDeclined("its registered kernel writes to its inputs, which others read, too") from error
        raise Mismatch(f"its registered kernel refuses the inputs: {_one_line(error)}") from error
    except MemoryError:
        raise
    except Exception as error:
        raise KernelDeclined(f"its registered kernel raised {type(error).__name__}: {_one_line(error)}") from error
    results, others = (_checked(each if isinstance(each, tuple) else (each,), call) for each in (answer, again))
    if not all(map(_is_same, results, others)):
        raise KernelDeclined(
            "its registered kernel computes other numbers each time: random numbers hide any difference"
        )
    _compare_shapes(operator, shown, attributes, results)
    return results


_SMALL = 1 << 16
"""Elements up to which a kernel is asked twice, so that one with random numbers is found."""


def _is_same(one: Datum, other: Datum) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return type(one) is type(other)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _read_only(value: Datum) -> Datum:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _checked(answer: tuple[Any, ...], call: Call) -> tuple[Datum, ...]:
    """Return the results as arrays. Raises KernelDeclined for what is none, and for floats that are not float64."""
    results = tuple(np.asarray(value) if isinstance(value, np.generic | float | int) else value for value in answer)
    last_read = max((place for place, is_read in enumerate(call.read, 1) if is_read), default=0)
    if len(results) < last_read:
        raise KernelDeclined(f"its registered kernel returned {_count(len(results))}, and output {last_read} is read")
    for place, value in enumerate(results):
        if not isinstance(value, np.ndarray):
            if value is None and not (place < len(call.read) and call.read[place]):
                continue
            raise KernelDeclined(f"its registered kernel returned {type(value).__name__} for output {place}, no array")
        if is_float(value) and value.dtype != np.float64:
            raise KernelDeclined(f"its registered kernel returned {value.dtype}, and has to compute in float64")
    return results


def _count(results: int) -> str:
    return f"{results} result{'s' * (results != 1)}"


def _compare_shapes(
    operator: RegisteredOperator, inputs: Sequence[Datum], attributes: dict[str, Any], results: Sequence[Datum]
) -> None:
    """Raise KernelDeclined if the operator's shape function says other shapes, or other kinds of numbers."""
    if operator.shape is None or not all(value is None or isinstance(value, np.ndarray) for value in inputs):
        return
    kinds = [None if value is None else _value_type(value) for value in inputs]
    while kinds and kinds[-1] is None:
        kinds.pop()
    try:
        said = [returned(kind, ValueType) for kind in operator.shape(*kinds, **attributes)]
    except Exception:  # noqa: BLE001 - then nothing was inferred either
        return
    for place, (kind, value) in enumerate(zip(said, results, strict=False)):
        if not isinstance(value, np.ndarray):
            continue
        has_shape = len(kind.dims) == value.ndim and all(
            size == dim or not isinstance(dim, int) for dim, size in zip(kind.dims, value.shape, strict=True)
        )
        if not has_shape or _family(kind.dtype) != _family(value.dtype):
            made = f"{value.dtype} of shape {value.shape}"
            text = f"its registered kernel made {made} for output {place}, where its shape function says"
            raise KernelDeclined(f"{text} {kind.dtype} of shape {kind.dims}")


def _value_type(value: np.ndarray[Any, Any]) -> ValueType:
    numbers = value if value.dtype.kind == "i" and type(value) is np.ndarray else None
    return ValueType(value.shape, value.dtype, numbers)


def _family(dtype: np.dtype[Any]) -> str:
    """Return one word for all float types, which are computed in float64; else the type's own."""
    return "float" if is_float(np.zeros((), dtype)) else str(dtype)


def said_types(node: ir.Node, kinds: Sequence[ValueType | None]) -> list[ValueType]:
    """Return what a caller's shape function says of a node's results, from those that it reads; nothing if none does.

    The function is asked with the node's attributes; None stands for an input that is left out.
    """
    operator = registered_operator(node)
    if operator is None or operator.shape is None or node.has_references:
        return []
    attributes = {
        name: _read_only(value) for name, value in resolve(node, {}, "float64").items() if name not in node.subgraphs
    }
    given = [*kinds]
    while given and given[-1] is None:
        given.pop()
    try:
        return [returned(kind, ValueType) for kind in operator.shape(*given, **attributes)]
    except Exception:  # noqa: BLE001 - it is a caller's function; rewriting warns of it
        return []
