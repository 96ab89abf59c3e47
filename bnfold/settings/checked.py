"""Dataclasses whose fields are checked when they are made: by their types, their bounds and the operators they name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, Literal, SupportsIndex, TypeVar, Union, get_args, get_origin, get_type_hints

from bnfold.errors import BadSetting

T = TypeVar("T")

OPENVINO_OPERATORS = frozenset({
    "Abs", "Add", "AvgPool", "BatchNormInference", "CTCGreedyDecoder", "Clamp", "Concat", "Const", "Convert",
    "Convolution", "ConvolutionBackpropData", "DeformableConvolution", "DepthToSpace", "Divide", "Elu", "Erf", "Exp",
    "FakeConvert", "FakeQuantize", "GRUCell", "GRUSequence", "Gather", "Gelu", "GroupConvolution",
    "GroupConvolutionBackpropData", "GroupNormalization", "HSigmoid", "HSwish", "HardSigmoid", "If", "Interpolate",
    "LSTMCell", "LSTMSequence", "LogSoftmax", "Loop", "MVN", "MatMul", "MaxPool", "Maximum", "Minimum", "Mish",
    "Multiply", "Negative", "NormalizeL2", "PReLU", "Pad", "Power", "RMSNorm", "RNNCell", "RNNSequence", "ReLU",
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape",
    "ScaledDotProductAttention", "Select", "Selu", "Sigmoid", "Slice", "SoftMax", "SoftPlus", "SpaceToDepth", "Split",
    "Sqrt", "SquaredDifference", "Squeeze", "StridedSlice", "Subtract", "Swish", "Tanh", "TensorIterator", "Tile",
    "TopK", "Transpose", "Unsqueeze", "VariadicSplit",
})  # fmt: skip
"""Names that an OpenVINO IR has for operators; those of ONNX are asked of onnx."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A dataclass whose fields are checked when it is made: BadSetting names the first that is not as it has to be.

    A field's metadata may hold ``low``, the least number in it, and ``operators``: it names operators, of these or, if
    there are none, of all that onnx and OpenVINO know.
    """

    def __post_init__(self) -> None:
        hints = type_hints(type(self))  # type: ignore[arg-type] # a class is hashable, mypy
        for member in fields(self):
            hint, value = hints[member.name], getattr(self, member.name)
            try:
                value = _read(value, hint, member.metadata.get("low"))
            except TypeError as error:
                wrong = error.args[0] if get_origin(hint) is Sequence and isinstance(error.args[0], str) else value
                problem = f"{wrong!r} is not {described(hint)}"
                if isinstance(value, str) and get_origin(hint) in (Sequence, frozenset):
                    problem = f"{value!r} is one text, and a list is wanted: {[*map(str.strip, value.split(','))]!r}"
                raise BadSetting(member.name, problem) from None
            except ValueError as error:
                raise BadSetting(member.name, str(error)) from None
            if "operators" in member.metadata:
                check_operators(member.name, value, member.metadata["operators"])
            object.__setattr__(self, member.name, value)


def about(text: str, more: str = "", **bounds: Any) -> dict[str, Any]:
    """Return the metadata of a field: a sentence, which is an option's help, what else there is to say, and bounds."""
    return {"help": text, "more": more, **bounds}


def documented(kind: type[T]) -> type[T]:
    """Add what is said `about` the fields of a dataclass to its docstring."""
    said = {member.name: member.metadata for member in fields(kind)}  # type: ignore[arg-type] # it is a dataclass
    lines = [f"        {name}: {told['help']} {told['more']}".rstrip() for name, told in said.items()]
    kind.__doc__ = "\n".join([(kind.__doc__ or "").rstrip(), "", "    Attributes:", *lines])
    return kind


_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    Path: "a path",
    type(None): "None",
}


def described(hint: Any) -> str:
    """Say in words what a field of the type ``hint`` may hold."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(described, parts))
    if kind is Literal:
        return f"{'one of ' if len(parts) > 1 else ''}{', '.join(map(repr, parts))}"
    if kind is Sequence and get_origin(parts[0]) is Literal:
        return described(parts[0])
    if kind is Mapping:
        is_numbers = parts[1] is int
        example = "numbers, such as {'com.acme': 2}" if is_numbers else "sizes, such as {'x': (1, 3, 224, 224)}"
        return f"a mapping of names to {example}"
    if kind in (Sequence, frozenset):
        return f"a list{' or set' * (kind is frozenset)} of {'texts' if parts[0] is str else 'such values'}"
    return _WORDS.get(kind) or f"a {getattr(kind, '__name__', kind)}"


@cache
def type_hints(kind: Any) -> dict[str, Any]:
    """Return the types of a class's fields."""
    return get_type_hints(kind)


_ACCEPTED: dict[Any, Any] = {
    int: SupportsIndex,
    float: Real,
    Path: (str, os.PathLike),
    frozenset: Iterable,
    Literal: str,
}


def _read(value: Any, hint: Any, low: int | None) -> Any:
    """Return ``value`` as a field of the type ``hint`` holds it.

    Raises:
        TypeError: It is of another type, or none of the choices.
        ValueError: A number in it is below ``low``.
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        for part in parts:
            with suppress(TypeError):
                return _read(value, part, low)
        raise TypeError(value)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, _ACCEPTED.get(kind, kind)):
        raise TypeError(value)
    if (kind is Literal and value not in parts) or (kind in (Sequence, frozenset) and isinstance(value, str)):
        raise TypeError(value)
    if kind is int:
        number = index(value)
        if low is not None and number < low:
            raise ValueError(f"{number} is not in the range x>={low}")
        return number
    if kind is float:
        return float(value)
    if kind is Mapping:
        return {_read(key, parts[0], low): _read(item, parts[1], low) for key, item in value.items()}
    if kind in (Sequence, frozenset):
        return (tuple if kind is Sequence else frozenset)(_read(item, parts[0], low) for item in value)
    return Path(value) if kind is Path else value


def check_operators(name: str, given: Collection[str], known: Collection[str] = (), *, openvino: bool = True) -> None:
    """Make sure that setting ``name`` holds operators of ``known``, or of onnx's domain (and with ``openvino`` its).

    Raises:
        BadSetting: There is no such operator: a misspelt one would match nothing.
    """
    if set(given) <= set(known):
        return
    import onnx

    from bnfold.registered.table import all_operators

    standard = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    standard |= {operator.op_type for operator in all_operators()}
    known = known or (standard | OPENVINO_OPERATORS if openvino else standard)
    for operator in sorted(set(given).difference(known)):
        from difflib import SequenceMatcher

        names = sorted(known, key=lambda known_name: (known_name not in standard, known_name))
        alike = [SequenceMatcher(None, known_name.lower(), operator.lower()).ratio() for known_name in names]
        hint = f"; did you mean {names[alike.index(max(alike))]}?" if max(alike) >= 0.6 else ""
        raise BadSetting(name, f"there is no operator {operator!r}{hint}")
