"""What a caller says of an operator, and what the functions that say it are given and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Dim: TypeAlias = int | str | None
"""A size: a number, the name of a dynamic size (equal names are equal sizes), or None for a size that is unknown."""


T = TypeVar("T")


def returned(answer: object, kind: type[T]) -> T:
    """Return what a caller's function returned. Raises TypeError if it is of another type."""
    if not isinstance(answer, kind):
        raise TypeError(f"it returned {type(answer).__name__} in place of {kind.__name__}")
    return answer


class DoesNotApply(Exception):
    """Raised by a caller's function for a node that it has no answer for; ``str(error)`` says why, for reports."""


class ValueType:
    """The shape and element type of one value.

    Attributes:
        dims: The sizes.
        dtype: The element type; bfloat16 and the 8-bit floats are those of ``ml_dtypes``.
        numbers: What a small constant of integers holds, such as a shape or axes; None for any other value.
    """

    __slots__ = ("dims", "dtype", "numbers")

    def __init__(self, dims: Sequence[Dim], dtype: npt.DTypeLike, numbers: Array | None = None) -> None:
        self.dims: tuple[Dim, ...] = tuple(_size(dim) for dim in dims)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"ValueType({self.dims}, {self.dtype})"


def _size(dim: object) -> Dim:
    if dim is None or isinstance(dim, str):
        return dim or None
    if isinstance(dim, int | np.integer) and not isinstance(dim, bool) and dim >= 0:
        return int(dim)
    raise ValueError(f"{dim!r} is no size: a number of at least 0, a name, or None")


@dataclass(frozen=True, slots=True, eq=False)
class OperatorNode:
    """One node of a registered operator.

    Attributes:
        domain: Its domain.
        op_type: The operator.
        version: The version of the domain that the node is written in.
        name: The node's name, or that of the first value that it makes.
        attributes: The attributes that are written out: numbers, texts, lists of them, arrays.
        inputs: How many inputs the node names.
        read: Returns a constant input.
    """

    domain: str
    op_type: str
    version: int
    name: str
    attributes: Mapping[str, Any]
    inputs: int
    read: Callable[[int], Array | None] = field(repr=False)

    def has_constant(self, slot: int) -> bool:
        """Whether the node reads a constant at ``slot``."""
        return self.read(slot) is not None

    def constant(self, slot: int) -> Array:
        """Return the constant that the node reads at ``slot``, read-only: floats of any width as float64.

        Raises DoesNotApply if the input is left out or computed.
        """
        held = self.read(slot)
        if held is None:
            raise DoesNotApply(f"input {slot} is no constant")
        return held


@dataclass(frozen=True, slots=True, eq=False)
class ChannelAffine:
    """``scale · x + shift``, with a number for each channel.

    Attributes:
        scale: float64, one for each channel; a single one if it is the same for all of them.
        shift: float64, of the same length.
    """

    scale: npt.NDArray[np.float64]
    shift: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        scale, shift = (np.asarray(each, np.float64) for each in (self.scale, self.shift))
        if scale.ndim > 1 or shift.ndim > 1:
            raise ValueError(f"scale and shift are vectors, not of the shapes {scale.shape} and {shift.shape}")
        for name, each in zip(("scale", "shift"), np.broadcast_arrays(scale, shift), strict=True):
            vector = np.array(each).reshape(-1)
            vector.flags.writeable = False
            object.__setattr__(self, name, vector)

    @property
    def is_scale_only(self) -> bool:
        """Whether every shift is 0."""
        return not np.count_nonzero(self.shift)

    def of(self, channels: int) -> ChannelAffine:
        """Return the same with a number for each of ``channels``. Raises DoesNotApply if it has another number."""
        if self.scale.size not in (1, channels):
            raise DoesNotApply(f"factors for {self.scale.size} channels meet {channels}")
        return ChannelAffine(*(np.broadcast_to(each, (channels,)) for each in (self.scale, self.shift)))


@dataclass(frozen=True, slots=True, eq=False)
class AffineStep:
    """What a node does with an affine.

    Attributes:
        constants: New numbers of constant inputs, by slot; they keep their element type. A slot that the node leaves
            out gets an input of the element type of input 0.
        attributes: New numbers of attributes.
        passes: What is left: upward what the value at input 0 has to become, downward what is left on output 0. None
            if the node has absorbed all of it.
        adds: A number for each channel that an Add behind the node (upward) or in front of it (downward) adds.
    """

    constants: Mapping[int, Array] = field(default_factory=dict)
    attributes: Mapping[str, int | float] = field(default_factory=dict)
    passes: ChannelAffine | None = None
    adds: Array | None = None

    def __post_init__(self) -> None:
        for name, kind, example in (("constants", int, "{1: weight}"), ("attributes", str, "{'alpha': 0.5}")):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise TypeError(f"{name} is a mapping, such as {example}, and not {type(given).__name__}")
            for key in given:
                if not isinstance(key, kind | (np.integer if kind is int else str)) or isinstance(key, bool):
                    what = "the number of an input: 0, 1, …" if kind is int else "the name of an attribute"
                    raise TypeError(f"{key!r} in {name} is not {what}")
        if any(slot < 0 for slot in self.constants):
            raise ValueError(f"{min(self.constants)} in constants is not the number of an input: 0, 1, …")


AffineFunction: TypeAlias = Callable[[OperatorNode, ChannelAffine], AffineStep]


@dataclass(frozen=True, slots=True, eq=False)
class AffineRule:
    """How an affine of each channel passes an operator, or is absorbed by it.

    Attributes:
        up: Asked for an affine that output 0 shall have: the step after which the node computes ``scale · y + shift``
            in place of ``y``.
        down: Asked for an affine that input 0 no longer has: the step after which the node, reading ``x`` in place of
            ``scale · x + shift``, computes what it did (or, with ``passes``, what that affine makes into it).
        axis: The axis of the channels, in input 0 and in output 0; negative ones count from the end. None for any
            axis: element by element.
    """

    up: AffineFunction | None = None
    down: AffineFunction | None = None
    axis: int | None = 1


@dataclass(frozen=True, slots=True, eq=False)
class NodeForm:
    """A node in another version of its domain.

    Attributes:
        attributes: All of its attributes: numbers, texts, lists of them, arrays.
        inputs: What it reads: slots of the node as it was, arrays that become constants, None for one that is left
            out. None keeps the inputs.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[int | Array | None] | None = None


StepFunction: TypeAlias = Callable[[OperatorNode], NodeForm]


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """The versions of the domain in which an operator has one meaning, and how nodes reach them from older ones.

    Attributes:
        numbers: The versions, such as (2, 3).
        upgrade: Returns the form here of a node of the registration before this one.
        downgrade: Returns the form in the registration before this one of a node of these versions.
    """

    numbers: Sequence[int]
    upgrade: StepFunction | None = None
    downgrade: StepFunction | None = None


KernelFunction: TypeAlias = Callable[..., Any]
"""``kernel(*inputs, **attributes)``: arrays to an array, or to a tuple of one for each output."""
ShapeFunction: TypeAlias = Callable[..., Sequence[ValueType]]
"""``shape(*inputs, **attributes)``: the type of each output, from those of the inputs."""
