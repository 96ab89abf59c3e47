"""What becomes of a node at every version step of every operator, up and down: what adapters registered, and the rest.

A step that nothing is registered for is compatible if the schemas prove it, and refused otherwise. Downwards, a node
whose step is compatible goes as it stands if it uses nothing newer, and an operator is refused below the version that
it begins with. The adapters of steps down are imported when one is asked for: most are for these.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Literal, NamedTuple

from bnfold.converting import adapters, registry
from bnfold.converting.adapters import (  # noqa: F401 - each file registers its steps up
    attributes,
    batchnorm,
    broadcast,
    dropout,
    inputs,
    normalization,
    resize,
    scan,
    softmax,
)
from bnfold.converting.compatible import objection
from bnfold.converting.node_conversion import Adapter
from bnfold.ir.schemas import schema_of, version_at, versions_of


class VersionStep(NamedTuple):
    """One step up: it has an adapter, or a reason why it cannot be made, or neither (compatible)."""

    version: int
    adapter: Adapter | None
    blocked: str | None


@cache
def downs() -> dict[registry.StepKey, registry.StepDown]:
    """Return the steps down that are registered."""
    for module in pkgutil.iter_modules(adapters.__path__):  # each file registers its steps
        import_module(f"{adapters.__name__}.{module.name}")
    return registry.DOWN


def sound_bodies() -> set[str]:
    """Return the operators whose function body stands for them if nothing else does."""
    downs()
    return registry.SOUND_BODIES


@cache
def steps(op_type: str, version: int, target: int) -> tuple[VersionStep, ...]:
    """Return the steps of ``op_type`` behind ``version`` on the way to ``target``."""
    return tuple(_step(op_type, later) for later in versions_of(op_type) if version < later <= target)


def _step(op_type: str, version: int) -> VersionStep:
    if (op_type, version) in registry.UP:
        return VersionStep(version, registry.UP[op_type, version], None)
    return VersionStep(version, None, unproven(op_type, version))


def unproven(op_type: str, version: int) -> str | None:
    """Say why the step to ``version`` cannot pass for compatible unless it is registered; None if it can."""
    if op_type in registry.BY_MEANING:
        return f"version {version} is newer than this bnfold"
    older = [candidate for candidate in versions_of(op_type) if candidate < version]
    return objection(op_type, older[-1], version)


def is_compatible(op_type: str, version: int, target: int) -> bool:
    """Whether a node of ``version`` is one of ``target``'s version as it stands."""
    return all(step.adapter is None and step.blocked is None for step in steps(op_type, version, target))


def has_to_adapt(op_type: str, version: int) -> bool:
    """Whether the step down from ``version`` may change a node that has the older version's form and types."""
    registered = downs().get((op_type, version))
    return not (is_compatible(op_type, version - 1, version) if registered is None else registered.by_form)


def way_down(op_type: str, version: int) -> Literal["unchanged", "rewritten", "decomposed", "blocked"]:
    """Return how a node of ``version`` goes to the version before, or is written where there is none."""
    begins = version == versions_of(op_type)[0]
    if begins:
        return "decomposed" if (op_type, version) in downs() or op_type in sound_bodies() else "blocked"
    if (op_type, version) in downs():
        return "rewritten"
    if is_compatible(op_type, version - 1, version):
        return "unchanged"
    return "rewritten" if op_type in registry.BY_MEANING else "blocked"


@cache
def has_meaning(op_type: str, opset: int) -> bool:
    """Whether an operator is in force at ``opset``, or begins later: it was not withdrawn before."""
    version = version_at(op_type, opset)
    return version is None or not schema_of(op_type, version).deprecated


@cache
def living_version(op_type: str, opset: int) -> int | None:
    """Return the version of ``op_type`` in force at ``opset``.

    If the operator was withdrawn before, it is the last version with a meaning: some exporters wrote it all the same.
    """
    version = version_at(op_type, opset)
    if version is None or has_meaning(op_type, opset):
        return version
    return max((older for older in versions_of(op_type) if older < version), default=version)
