"""The sizes at which the original may run. They are found once and shared by all tests that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from itertools import tee

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.verification.changes.control_flow import in_one_form
from bnfold.verification.inputs.candidates import sizes_of
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.sized import sized
from bnfold.verification.request import Request


def sizes_of_original(request: Request) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """Return the shapes of its inputs as far as they are known, and the choices that these leave.

    Raises as `known_sizes`.
    """
    known, kept = request.once(_sizes)
    return known, copy(kept)


def _sizes(request: Request) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """Do as above; the choices are found on demand, and every copy begins with the first."""
    known, found = sizes_of(original_in_one_form(request), request.checks)
    (kept,) = tee(found, 1)
    return known, kept


def original_in_one_form(request: Request) -> ir.Model:
    """Return the original with its control flow in one form: inference follows it further, and takes less time."""
    return request.once(_in_one_form)


def _in_one_form(request: Request) -> ir.Model:
    return in_one_form(request.before, request.after)


def original_at(request: Request, choice: Choice) -> ir.Model:
    """Return the original at these sizes, its control flow as it is."""
    is_as_it_is = original_in_one_form(request) is request.before
    return choice.model if is_as_it_is else sized(request.before, choice.shapes)
