"""The sizes at which the original may run: found once for all who run it, whichever comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import tee

from bnfold.verification.feeding.choices import Choice, choices
from bnfold.verification.feeding.dims import Known
from bnfold.verification.feeding.inputs import known_shapes
from bnfold.verification.request import Request


def sizes_of_original(request: Request) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """The shapes of its inputs as far as they are known, and the choices that these leave. Raises as `known_shapes`."""
    if "sizes" not in request.found:
        known = known_shapes(request.before, request.checks.inputs)
        request.found["sizes"] = known, choices(request.before, known)
    known, waiting = request.found["sizes"]
    kept, mine = tee(waiting)
    request.found["sizes"] = known, kept
    return known, mine
