"""Which kernel computes which operator version, and what a kernel may know about its node.

A kernel is a pure function ``kernel(call, *inputs) -> array | tuple of arrays``; an omitted input is None. It is
registered for the exact schema versions whose text it was checked against: a version without a review has no
kernel, and evaluation stops with `CannotEvaluate` rather than trust it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bnfold import errors
from bnfold.ir.elements import MAX_RANK, Array
from bnfold.reference.precision import Precision, computed_type
from bnfold.settings import Policy

KernelResult = Any
"""What a kernel returns: one `Datum`, or a tuple of them for several outputs."""
Attribute = Any
"""An attribute's value: int, float, str, a list of these, an array, or an `ir.Graph`."""
Kernel = Callable[..., KernelResult]
EvaluateModel = Callable[..., dict[str, Array]]
"""What runs a whole model: `bnfold.reference.evaluate.evaluate`."""

NO_SCHEMA = 0
"""The version under which operators are registered that onnx once drafted but never gave (or has lost) a schema."""


class CannotEvaluate(errors.Unsupported):
    """No proven meaning for ``op`` at ``version``, or not in the form that the node ``node`` has.

    ``op`` carries its domain unless that is the default one; ``version`` is the opset where no schema is known.
    """

    def __init__(self, op: str, version: int, node: str, reason: str = "") -> None:
        self.op, self.version, self.node, self.reason = op, version, node, reason
        which = f"{op}-{version} (node {node!r})"
        missing = f"bnfold has no reference implementation of {which}"
        super().__init__(f"bnfold's reference implementation cannot compute {which}: {reason}" if reason else missing)


class Misfit(CannotEvaluate):
    """The node's inputs do not fit together or its attributes: the model itself cannot run on what it was fed."""


class TooShort(CannotEvaluate):
    """An input is too short for what the node makes of it: longer ones have a meaning."""


class Random(CannotEvaluate):
    """The operator draws random numbers, so there is nothing to compare."""


class KernelDeclined(Exception):
    """Raised by a kernel for a form of its operator that it cannot compute for certain; becomes `CannotEvaluate`."""


class Mismatch(KernelDeclined):
    """Raised by a kernel whose inputs do not fit together; becomes `Misfit`."""


class Shortness(KernelDeclined):
    """Raised by a kernel whose input is too short; becomes `TooShort`."""


class Randomness(KernelDeclined):
    """Raised by a kernel whose result is random; becomes `Random`."""


class Noise:
    """What random operators draw: the same whenever a value of the same name is drawn with the same seed attribute.

    With ``known`` only values of these names are drawn: their counterparts in another model are unknown.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self.drawn: dict[str, int] = {}
        self._known = known

    def of(self, name: str, seed: Attribute) -> np.random.Generator:
        """Return the generator for the next time that the value of this name is drawn."""
        if self._known is not None and name not in self._known:
            raise Randomness(f"it draws random numbers of its own, {name!r}")
        self.drawn[name] = self.drawn.get(name, 0) + 1
        return np.random.default_rng([zlib.crc32(f"{name} {seed}".encode()), self.drawn[name]])


_DEFAULT = Policy()


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What a kernel may know about its node besides the input arrays; the same one in each run of a node.

    ``named`` says of every declared output slot whether it has a name, ``read`` whether something reads it as well;
    ``precision`` decides what a float type of the file is computed in, see `dtype`; ``kind`` is the element type that
    the first input of an operator that compares or rounds has in the file, None if that is not known. A kernel puts in
    ``kept`` what follows from the attributes alone.
    """

    op: str
    version: int
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    defaults: Mapping[str, Attribute] = field(default_factory=dict)
    named: tuple[bool, ...] = (True,)
    read: tuple[bool, ...] = (True,)
    policy: Policy = _DEFAULT
    domain: str = ""
    opset: int = 0
    precision: Precision = "float64"
    noise: Callable[[], np.random.Generator] | None = None
    kind: int | None = None
    kept: dict[str, Any] = field(default_factory=dict)

    def attr(self, name: str, default: Attribute = None) -> Attribute:
        """Return the attribute as written, else the schema's default, else ``default``."""
        if name in self.attrs:
            return self.attrs[name]
        return self.defaults.get(name, default)

    def listed(self, name: str, tensor: Array | None) -> list[int] | None:
        """Return the integers of an input; where it is not there, of the attribute that versions before it had."""
        return self.attr(name) if tensor is None else int_list(tensor)

    def has(self, name: str) -> bool:
        """Whether the node spells the attribute out."""
        return name in self.attrs

    def dtype(self, code: int) -> np.dtype[Any]:
        """Return the numpy type in which an ONNX element type is computed.

        Float64 for every float type, unless as stored.
        """
        return computed_type(code, self.precision)

    def generator(self) -> np.random.Generator:
        """Return what a random operator draws from. No text says which generator its seed is for."""
        if self.noise is None:
            raise Randomness("it draws random numbers")
        return self.noise()


_KERNELS: dict[tuple[str, str, int], tuple[Kernel, int]] = {}
_DEFAULTS: dict[tuple[str, str], Mapping[str, Attribute]] = {}


def kernel(
    op: str, *versions: int, domain: str = "", defaults: Mapping[str, Attribute] | None = None
) -> Callable[[Kernel], Kernel]:
    """Register a function for schema versions of an operator that mean the same; it gets the newest of them.

    A function of versions that differ in meaning is registered for one after the other; for one twice is a mistake.
    An operator without a schema may have ``defaults`` of its attributes.
    """
    _DEFAULTS[domain, op] = defaults or {}

    def register(function: Kernel) -> Kernel:
        for version in versions:
            if (domain, op, version) in _KERNELS:
                raise ValueError(f"two kernels for {domain}:{op}-{version}")
            _KERNELS[domain, op, version] = function, max(versions)
        return function

    return register


def find_kernel(domain: str, op: str, version: int) -> tuple[Kernel, int] | None:
    """Return the kernel of exactly this version, or None; and the newest version that means the same."""
    return _KERNELS.get((domain, op, version))


def defaults_without_schema(domain: str, op: str) -> Mapping[str, Attribute]:
    """Return the attributes' defaults that were registered with the kernel of an operator without a schema."""
    return _DEFAULTS.get((domain, op), {})


def registered() -> frozenset[tuple[str, str, int]]:
    """Return (domain, operator, version) of every kernel of our own."""
    return frozenset(_KERNELS)


def require(condition: object, reason: str, error: type[KernelDeclined] = Mismatch) -> None:
    """Refuse the node unless the condition holds."""
    if not condition:
        raise error(reason)


def normal_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front; negative ones count from the end."""
    require(-rank <= axis < max(rank, 1), f"axis {axis} is outside rank {rank}")
    return axis + rank if axis < 0 else axis


def int_list(value: Array | list[int]) -> list[int]:
    """Return a list or tensor of one axis, as plain ints."""
    require(np.ndim(value) == 1, f"a list of integers in {np.ndim(value)} axes")
    return [int(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]


LARGEST = 1 << 28
"""Elements that one kernel makes: what is larger by far takes longer than anybody waits, and is a lie in most files."""


def dims_to_make(dims: Iterable[int]) -> tuple[int, ...]:
    """Return the dims of a result whose size some input says, as they are.

    Too many elements are declined before the work.
    """
    shape = tuple(dims)
    require(min(shape, default=0) >= 0, f"a result of dims {list(shape)}")
    require(len(shape) <= MAX_RANK, f"{len(shape)} axes are too many to evaluate", KernelDeclined)
    require(math.prod(shape) <= LARGEST, f"{math.prod(shape):,} elements are too many to evaluate", KernelDeclined)
    return shape
