"""Where adapters register the version steps that they make; :mod:`bnfold.converting.steps` says what follows.

A step is named after the version above it: step 18 of Split leads up from version 13 to 18, and down from 18 to 13.
Operators that share a step are named in one text, with spaces between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from bnfold.converting.node_conversion import Adapter

StepKey: TypeAlias = tuple[str, int]
Register: TypeAlias = Callable[[Adapter], Adapter]


class StepDown(NamedTuple):
    """One step down that is registered.

    Attributes:
        adapter: What brings a node to the version before, or decomposes it if there is none. None if the version
            before takes all that the newer one takes, although the schemas do not prove it.
        by_form: Whether no node is changed that has the form and the types of the version before.
    """

    adapter: Adapter | None
    by_form: bool


UP: dict[StepKey, Adapter | None] = {}
"""Steps up; None stands for one that changes nothing."""
DOWN: dict[StepKey, StepDown] = {}
BY_MEANING: dict[str, Adapter] = {}
"""Operators that are read by meaning at every version, and what reads them."""
SOUND_BODIES: set[str] = set()
"""Operators whose function body stands for them if nothing else does."""
LATER_VALUES: dict[str, tuple[str, dict[bytes, int]]] = {}
"""By operator, a text attribute that got values later than it came, and the opset of each value."""


def up(op_types: str, *versions: int) -> Register:
    """Register what brings a node of the version before up to each of ``versions``."""

    def register(adapter: Adapter) -> Adapter:
        for key in _keys(op_types, versions):
            _enter(UP, key, adapter)
        return adapter

    return register


def up_unchanged(op_types: str, *versions: int) -> None:
    """Register that a node of the version before is one of ``versions`` as it stands, by the texts of both.

    Operators that are read by meaning need it, because the schemas are not believed for them.
    """
    for key in _keys(op_types, versions):
        _enter(UP, key, None)


def down(op_types: str, *versions: int, by_form: bool = False) -> Register:
    """Register what brings a node of each of ``versions`` to the one before, or decomposes it if there is none.

    Set ``by_form`` if it changes no node that has the form and the types of the version before: such a node then goes
    as it stands, and is not even looked at.
    """

    def register(adapter: Adapter) -> Adapter:
        for key in _keys(op_types, versions):
            _enter(DOWN, key, StepDown(adapter, by_form))
        return adapter

    return register


def down_unchanged(op_types: str, *versions: int) -> None:
    """Register that the version before takes all that each of ``versions`` takes, and means the same by it."""
    for key in _keys(op_types, versions):
        _enter(DOWN, key, StepDown(None, by_form=True))


def by_meaning(op_type: str) -> Register:
    """Register what reads an operator by meaning at every version: an attribute at the wrong opset counts all the same.

    Every version of it needs a step up, for what it means is what bnfold is about.
    """

    def register(adapter: Adapter) -> Adapter:
        _enter(BY_MEANING, op_type, adapter)
        return adapter

    return register


def sound_body(op_types: str) -> None:
    """Register that onnx's function body computes what the text says: no cancellation or overflow that it adds.

    It is the last resort on the way down, where no step is registered or the adapter of one cannot express the node.
    """
    SOUND_BODIES.update(op_types.split())


def new_values(op_types: str, attribute: str, **since: int) -> None:
    """Register values that a text attribute got later than the attribute itself came, and the opset of each."""
    for op_type in op_types.split():
        _enter(LATER_VALUES, op_type, (attribute, {value.encode(): opset for value, opset in since.items()}))


def _keys(op_types: str, versions: tuple[int, ...]) -> list[StepKey]:
    return [(op_type, version) for op_type in op_types.split() for version in versions]


def _enter(table: dict[Any, Any], key: object, value: object) -> None:
    assert key not in table, f"{key} is registered twice"
    table[key] = value
