"""Sizes of inner values, and integers that follow from them, as runs of the original make them.

A run on outlines (`reference.trace_shapes`) computes these, but no activations. So a recording costs about as much as
inferring shapes, whatever the sizes are. Bodies and functions are recorded too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from itertools import chain, islice, tee
from typing import NamedTuple

from bnfold import ir, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.value import Known
from bnfold.verification.comparing.sizes import original_in_one_form, sizes_of_original
from bnfold.verification.inputs.bounds import size_changes
from bnfold.verification.inputs.choices import ChosenShapes, further_choices, inferred_sizes, turns_for
from bnfold.verification.inputs.shapes import Sizing, sizings
from bnfold.verification.inputs.sized import MANY_NODES
from bnfold.verification.request import Request

_SECONDS = 10.0
"""For one recording, on the clock."""


class Recording(NamedTuple):
    """The sizes of all values in one run of the original.

    ``inputs`` are the sizes of the model's inputs. If not ``are_declared``, callers cannot feed these sizes, and a
    difference has to be confirmed at others.
    """

    inputs: ChosenShapes
    trace: reference.Trace
    are_declared: bool
    is_last: bool = False
    """Whether bodies are taken as in their last run."""

    def shapes(self, fed: Mapping[str, ir.Value]) -> ChosenShapes | None:
        """Return the shapes of values of the original; None if one is unknown."""
        found: ChosenShapes = {}
        for name, value in fed.items():
            shape = self.trace.shape(value, last=self.is_last)
            if shape is None and (value.is_initializer or value.is_input):
                shape = _static(value)
            if shape is None:
                return None
            found[name] = shape
        return found

    def integers(self, fed: Mapping[str, ir.Value]) -> dict[str, Array]:
        """Return the integers and truths among these values that follow from sizes."""
        numbers = {name: self.trace.numbers(value, last=self.is_last) for name, value in fed.items()}
        return {name: array for name, array in numbers.items() if array is not None and array.dtype.kind in "biu"}

    def is_certain(self, fed: Mapping[str, ir.Value]) -> bool:
        """Whether a run of the original on inputs that callers may feed has these sizes."""
        return self.are_declared and not self.trace.refusal and self.trace.assumed.isdisjoint(fed.values())


def _static(value: ir.Value) -> tuple[int, ...] | None:
    sizes = tuple(dim for dim in value.shape or () if isinstance(dim, int))
    return sizes if value.shape is not None and len(sizes) == len(value.shape) else None


class Recordings:
    """The recordings of a model, made on demand: the usual ones, and others at which operators on sizes differ."""

    def __init__(self, request: Request) -> None:
        self._request, self._model = request, request.before
        self._declared = {value.name: value.shape for value in request.before.required_inputs()}
        self._rewritten = {graph.path: graph for graph in request.after.graphs()}
        (self._kept,) = tee(chain(self._record_usual(), islice(self._record_others(), _MOST_OTHERS)), 1)

    def __iter__(self) -> Iterator[Recording]:
        """Yield the usual recordings, and those at other sizes, at which operators on sizes differ."""
        return copy(self._kept)

    def _record_usual(self) -> Iterator[Recording]:
        try:
            known, choices = sizes_of_original(self._request)
        except (BadInput, Unsupported):
            yield from self._without_some_inputs()
            return
        given = self._request.checks.inputs
        opened = {name: shape if name in given else _opened(shape) for name, shape in known.items()}
        if opened != known:
            sizing, *_ = sizings(self._model.nodes())
            shapes = {name: sizing.concrete(shape) for name, shape in opened.items()}
            yield from self._recorded(shapes, opened, are_declared=False)
        for choice in islice(choices, _MOST_CHOICES):
            yield from self._recorded(choice.shapes, known, are_declared=True)

    def _record_others(self) -> Iterator[Recording]:
        try:
            known, choices = sizes_of_original(self._request)
        except (BadInput, Unsupported):
            return
        main = next(choices, None)
        if main is None:
            return
        model = original_in_one_form(self._request)
        changed = size_changes(self._request.before, self._request.after)
        inferred = inferred_sizes({**self._declared, **self._request.checks.inputs}, known)
        for group in further_choices(model, known, main, inferred, changed, turns_for(model)):
            if (choice := next(group, None)) is not None:
                yield from self._recorded(choice.shapes, known, are_declared=True)

    def _without_some_inputs(self) -> Iterator[Recording]:
        """Yield a recording of a model with inputs of unknown rank: of what does not depend on them."""
        given = {
            value.name: self._request.checks.inputs.get(value.name, value.shape)
            for value in self._model.required_inputs()
        }
        known: dict[str, Known] = {
            name: [dim or None for dim in shape] for name, shape in given.items() if shape is not None
        }
        sizing, *_ = sizings(self._model.nodes())
        shapes = {name: sizing.concrete(shape) for name, shape in known.items()}
        yield from self._recorded(shapes, known, are_declared=False)

    def _recorded(self, shapes: ChosenShapes, known: Mapping[str, Known], *, are_declared: bool) -> Iterator[Recording]:
        if len(self._model.graph.nodes) > MANY_NODES:
            return
        both = ((dims, shapes[name]) for name, dims in known.items())
        pairs = (pair for dims, made in both for pair in zip(dims, made, strict=True))
        sizing, *_ = sizings()
        sizes = {dim: size for dim, size in pairs if isinstance(dim, str)}
        stated = partial(self._stated, Sizing(sizing.batch, sizing.spatial, sizing.other, sizes))
        seconds = min(_SECONDS, self._request.clock.left)
        trace = reference.trace_shapes(self._model, shapes, stated, policy=self._request.policy, limit_seconds=seconds)
        yield Recording(shapes, trace, are_declared)
        if any(trace.first[value] is not trace.last[value] for value in trace.first):
            yield Recording(shapes, trace, are_declared, is_last=True)

    def _stated(self, sizing: Sizing, value: ir.Value) -> reference.Stated | None:
        """Return the shape that a model states of a value that cannot be computed, dynamic sizes as ``sizing`` says.

        What the rewritten model states alone is a hint.
        """
        graph = self._rewritten.get(value.graph.path)
        other = graph.values.get(value.name) if graph is not None else None
        hint = other.shape if other is not None else None
        shape = value.shape if value.shape is not None else hint
        if shape is None:
            return None
        hints = hint if hint is not None and len(hint) == len(shape) else shape
        dims = [dim if isinstance(dim, int) else told for dim, told in zip(shape, hints, strict=True)]
        return reference.Stated(sizing.concrete([dim or None for dim in dims]), _static(value) is None)


_MOST_CHOICES = 3
"""Of sizes of the model's inputs, until the original runs."""

_MOST_OTHERS = 8
"""Recordings at other sizes."""

_LARGE = 128
"""Sides of images that are longer are recorded shorter first, although they are declared; so are batches of several."""


def _opened(shape: Known) -> Known:
    """Return the shape with a batch of several images and their long sides as dynamic sizes.

    Equal sides stay equal.
    """
    most = (1, math.inf, *[_LARGE] * len(shape))
    return [
        f"{dim}" if len(shape) > 3 and isinstance(dim, int) and dim > limit else dim
        for dim, limit in zip(shape, most, strict=False)
    ]
