"""The table of registered operators."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bnfold.registered.types import AffineRule, KernelFunction, ShapeFunction, Versions


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredOperator:
    """What was said of an operator, in some versions of its domain (all of them if ``versions`` is None), and by whom.

    ``module`` is the name of the module whose functions say it.
    """

    domain: str
    op_type: str
    kernel: KernelFunction | None
    shape: ShapeFunction | None
    affine: AffineRule | None
    versions: Versions | None
    module: str

    @property
    def name(self) -> str:
        """The operator with its domain, as in messages."""
        return f"{self.domain}::{self.op_type}"

    @property
    def first_version(self) -> int:
        """The lowest version; 0 if it holds for all of them."""
        return min(self.versions.numbers) if self.versions is not None else 0

    def require_arguments(self, inputs: int, attributes: Collection[str]) -> None:
        """Raise ValueError if the kernel or the shape function takes no node of so many inputs and these attributes."""
        for name, function in (("kernel", self.kernel), ("shape function", self.shape)):
            if function is None:
                continue
            try:
                signature = inspect.signature(function)
            except ValueError:  # it is not written in Python
                continue
            try:
                signature.bind(*[None] * inputs, **dict.fromkeys(attributes))
            except TypeError as error:
                raise ValueError(f"the {name} does not take what the rule sets: {error}") from error

    def holds_at(self, version: int) -> bool:
        """Whether it says what the operator means in this version of the domain."""
        return self.versions is None or version in self.versions.numbers


LIBRARIES: dict[str, None] = {}
"""The files of operators that onnxruntime is given, in the order in which they were registered."""

_TABLE: dict[tuple[str, str], tuple[RegisteredOperator, ...]] = {}


def enter(operator: RegisteredOperator) -> None:
    """Add an operator, in the order of versions."""
    others = registrations(operator.domain, operator.op_type)
    ordered = sorted((*others, operator), key=lambda each: each.first_version)
    _TABLE[operator.domain, operator.op_type] = tuple(ordered)


def remove(domain: str, op_type: str) -> bool:
    """Remove what was said of an operator; return whether anything was."""
    return _TABLE.pop((domain, op_type), None) is not None


def registrations(domain: str, op_type: str) -> tuple[RegisteredOperator, ...]:
    """Return what was said of an operator, by rising versions."""
    return _TABLE.get((domain, op_type), ())


def find_operator(domain: str, op_type: str, version: int) -> RegisteredOperator | None:
    """Return what was said of an operator in a version of its domain; None if nothing was."""
    return next((each for each in registrations(domain, op_type) if each.holds_at(version)), None)


def all_operators() -> list[RegisteredOperator]:
    """Return all registrations."""
    return [operator for each in _TABLE.values() for operator in each]


@contextmanager
def all_or_none() -> Iterator[None]:
    """Take back what is entered in the block if it raises."""
    before, libraries = dict(_TABLE), dict(LIBRARIES)
    try:
        yield
    except BaseException:
        _TABLE.clear()
        _TABLE.update(before)
        LIBRARIES.clear()
        LIBRARIES.update(libraries)
        raise
