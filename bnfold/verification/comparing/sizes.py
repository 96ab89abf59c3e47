"""The sizes at which the original may run. They are found once and shared by all tests that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from itertools import tee

from bnfold.ir.shapes.unification import Known
from bnfold.verification.inputs.choices import Choice, choices
from bnfold.verification.inputs.drawing import known_shapes
from bnfold.verification.request import Request


def sizes_of_original(request: Request) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """Return the shapes of its inputs as far as they are known, and the choices that these leave.

    Raises as `known_shapes`.
    """
    known, kept = request.once(_sizes)
    return known, copy(kept)


def _sizes(request: Request) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """Do as above; the choices are found on demand, and every copy begins with the first."""
    known = known_shapes(request.before, request.checks.inputs)
    (kept,) = tee(choices(request.before, known), 1)
    return known, kept
