"""Dataclasses that are quick to define.

`dataclasses.dataclass` compiles three to nine methods for every class, which takes .5 ms; with the fifty classes of a
plain fold that was a seventh of the console command's time on a model of 14 MB. Here only the constructor is compiled.
What comes out is a dataclass to whoever looks at it: `fields`, `replace` and `asdict` work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, Never, TypeVar, dataclass_transform, overload

T = TypeVar("T")
Method = Callable[..., Any]


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Any] | None = None, /, *, eq: bool = True) -> Any:
    """As ``dataclass(frozen=True, slots=True, eq=eq)``: with ``eq``, objects of equal fields are equal."""
    return _frozen(cls, eq=eq) if cls is not None else lambda decorated: _frozen(decorated, eq=eq)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def mutable(cls: type[T], /) -> type[T]:
    """As ``dataclass(slots=True, eq=False)``: an object is equal only to itself."""
    return _define(cls, {"__repr__": _text}, "  self.{name} = {value}")


def _frozen(cls: type[Any], *, eq: bool) -> type[Any]:
    made = _define(cls, _METHODS, "  _put(self, {name!r}, {value})")  # past `_refuse`
    if eq:
        _set(made, _comparison(made, fields(made)))
    return made


def _define(cls: type[Any], methods: dict[str, Method], assignment: str) -> type[Any]:
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    _set(made, {"__init__": _constructor(made, fields(made), assignment), **methods})
    return made


def _set(made: type[Any], methods: dict[str, Method]) -> None:
    for name, method in methods.items():
        setattr(made, name, method)


def _constructor(made: type[Any], members: tuple[Field[Any], ...], assignment: str) -> Method:
    known: dict[str, Any] = {"_put": object.__setattr__, "_absent": _ABSENT}
    head, body = ["self"], []
    for member in members:
        if not member.init:
            continue
        name = value = member.name
        if member.default is not MISSING:
            known[f"_{name}"] = member.default
            head.append(f"{name}=_{name}")
        elif member.default_factory is not MISSING:
            known[f"_{name}"] = member.default_factory
            head.append(f"{name}=_absent")
            value = f"_{name}() if {name} is _absent else {name}"
        else:
            head.append(name)
        body.append(assignment.format(name=name, value=value))
    lines = [f"def define({', '.join(known)}):", f" def __init__({', '.join(head)}):", *body, " return __init__"]
    found: dict[str, Any] = {}
    # As `dataclasses` does; the class's module is where annotations are looked up.
    exec("\n".join(lines), vars(sys.modules[made.__module__]), found)
    constructor: Method = found["define"](**known)
    constructor.__qualname__ = f"{made.__qualname__}.__init__"
    constructor.__annotations__ = {**{member.name: member.type for member in members if member.init}, "return": None}
    return constructor


def _comparison(made: type[Any], members: tuple[Field[Any], ...]) -> dict[str, Method]:
    values = attrgetter(*(member.name for member in members))

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if type(other) is made else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(values(self))}


def _text(self: Any) -> str:
    shown = ", ".join(f"{member.name}={getattr(self, member.name)!r}" for member in fields(self))
    return f"{type(self).__qualname__}({shown})"


def _reduced(self: Any) -> tuple[type[Any], tuple[Any, ...]]:
    """For `pickle` and `copy`, whose own way sets the fields one by one."""
    return type(self), tuple(getattr(self, name) for name in self.__match_args__)


def _refuse(self: object, name: str, _: object = None) -> Never:
    raise FrozenInstanceError(f"a {type(self).__name__} is frozen: {name!r} stays what it is")


_METHODS: dict[str, Method] = {
    "__repr__": _text,
    "__reduce__": _reduced,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}


class _Absent:
    """In a signature: a default that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()
