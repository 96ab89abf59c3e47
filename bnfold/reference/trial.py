"""Whether a model can run at the sizes of its inputs: every kernel runs on the shapes alone, for any numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from bnfold import ir
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.messages import function_key
from bnfold.reference import control
from bnfold.reference.attributes import Bindings
from bnfold.reference.evaluate import Environment, Evaluation, OutOfTime
from bnfold.reference.operators import DRAWING
from bnfold.reference.outlines import UnknownNumbers, forget_numbers, has_outline, outline
from bnfold.reference.precision import Datum, computed_type
from bnfold.reference.prepared import Prepared
from bnfold.reference.registry import Misfit, Noise
from bnfold.reference.work import Work
from bnfold.settings import Policy

_FEW = 1 << 12
"""Elements of an array up to which its numbers may matter: they may say sizes."""

_STAND_INS = (0, 1, 2)
"""Numbers that a node is run on which refuses an outline."""

_COUNTING = ("NonMaxSuppression", "StringSplit")
"""Operators without a kernel of our own. How many elements they make depends on numbers."""


class _Unknown:
    """A value whose sizes are unknown, too."""


UNKNOWN = _Unknown()


class Refusal(NamedTuple):
    """The first node that cannot run, the shapes (or few numbers) of its inputs by their names, and why."""

    node: ir.Node
    inputs: tuple[tuple[str, str], ...]
    reason: str


class ShapeTrial(NamedTuple):
    """What refuses the sizes, if anything; and why some nodes could not be tried."""

    refusal: Refusal | None = None
    untried: str = ""


def try_shapes(
    model: ir.Model,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    policy: Policy | None = None,
    limit_seconds: float | None = None,
    later: bool = False,
) -> ShapeTrial:
    """Run the model on inputs of these ``shapes``, whose numbers are unknown, as are those of large weights.

    A refusal holds for all numbers. A node whose sizes depend on numbers cannot be tried, and neither can what follows
    from it. The same goes for inputs that ``shapes`` does not name. ``later`` is that of `evaluate`.
    """
    walk = _Trial(
        main=model.graph,
        functions={function_key(function.proto): function for function in model.functions},
        precision="float64",
        policy=policy or Policy(),
        observer=None,
        limit=limit_seconds,
        jitter=None,
        later=later,
        noise=Noise(),
        altered={},
        prepared=Prepared(),
        work=Work(),
    )
    environment: Environment = {value: _fed(value, shapes.get(value.name)) for value in model.required_inputs()}
    try:
        with np.errstate(all="ignore"):
            walk.run(model.graph, environment, model.graph.outputs, {})
    except OutOfTime:
        return ShapeTrial(untried="trying the sizes takes too long")
    except RecursionError:
        return ShapeTrial(untried="functions or graphs are nested too deeply")
    except BnfoldError as error:
        return ShapeTrial(walk.refusal, "" if walk.refusal is not None else str(error))
    return ShapeTrial(untried=walk.untried)


def _fed(value: ir.Value, shape: tuple[int, ...] | None) -> Datum:
    if shape is None or math.prod(shape) > _MOST_ELEMENTS:
        return UNKNOWN
    return outline(shape, np.float64 if value.dtype is None else computed_type(value.dtype, "float64"))


_MOST_ELEMENTS = 1 << 48
"""numpy counts no more bytes than an address has."""


class _Trial(Evaluation):
    """A run of a model on outlines."""

    refusal: Refusal | None = None
    untried: str = ""

    def weight(self, value: ir.Value) -> Datum:
        """Return an outline of a large weight, which is not read."""
        tensor = value.tensor
        if tensor is None or tensor.size <= _FEW or min(tensor.dims) < 0:
            return super().weight(value)
        return outline(tensor.dims, computed_type(tensor.dtype, "float64"))

    def input(self, node: ir.Node, slot: int, environment: Environment) -> Datum:
        """Return what a node reads."""
        value = node.input(slot)
        return None if value is None else self.read(value, environment)

    def results(
        self, node: ir.Node, inputs: list[Datum], environment: Environment, bindings: Bindings
    ) -> Sequence[Datum]:
        """Return the results, as far as they follow from the inputs."""
        unknown = [UNKNOWN] * len(node.outputs)
        if any(value is UNKNOWN for value in inputs):
            return unknown
        try:
            return self._tried(node, inputs, environment, bindings)
        except Misfit as misfit:
            if self.refusal is not None or not self._depends_on_numbers(node, inputs, bindings):
                self.refusal = self.refusal or Refusal(node, _described(node, inputs), misfit.reason)
                raise
            reason = f"whether node {node.label!r} ({node.op_type}) runs depends on numbers"
        except OutOfTime:
            raise
        except UnknownNumbers:
            reason = f"the sizes that node {node.label!r} ({node.op_type}) makes depend on numbers"
        except Unsupported as error:
            reason = str(error)
        self.untried = self.untried or reason
        return unknown

    def run_body(
        self, environment: Environment, bindings: Bindings, body: ir.Graph, inputs: Sequence[Datum], share: float
    ) -> list[Datum]:
        """Return the results of a body if all of them are known; else nothing is known of its node."""
        results = super().run_body(environment, bindings, body, inputs, share)
        if body.parent is not None and not body.parent.is_op("If") and any(value is UNKNOWN for value in results):
            raise UnknownNumbers
        return results

    def _tried(
        self, node: ir.Node, inputs: list[Datum], environment: Environment, bindings: Bindings
    ) -> Sequence[Datum]:
        if node.is_op(*_COUNTING) and any(map(has_outline, inputs)):
            raise UnknownNumbers
        if node.is_op("If") and has_outline(inputs[0]):
            return self._either(node, environment, bindings)
        return self._forgotten(node, inputs, super().results(node, inputs, environment, bindings))

    def _either(self, node: ir.Node, environment: Environment, bindings: Bindings) -> Sequence[Datum]:
        """Return what both branches have in common; a branch that cannot run is one that is not taken."""
        made: list[Sequence[Datum]] = []
        first: Refusal | None = None
        for flag in (True, False):
            try:
                made.append(super().results(node, [np.asarray(flag)], environment, bindings))
            except Misfit:
                if first is not None:
                    self.refusal = first
                    raise
                first, self.refusal = self.refusal, None
        return [_common(values) for values in zip(*made, strict=True)]

    def _forgotten(self, node: ir.Node, inputs: Sequence[Datum], results: Sequence[Datum]) -> Sequence[Datum]:
        """Forget the numbers of results that follow from unknown ones, and those of large results."""
        if node.is_op("Shape", "Size", "SequenceLength", "OptionalHasElement") or self._has_body(node):
            return results
        if node.is_op(*DRAWING) or any(map(has_outline, inputs)):
            return [forget_numbers(value) for value in results]
        return [forget_numbers(value) if np.size(value) > _FEW else value for value in results]

    def _has_body(self, node: ir.Node) -> bool:
        return control.handles(node) or function_key(node.proto) in self.functions

    def _depends_on_numbers(self, node: ir.Node, inputs: Sequence[Datum], bindings: Bindings) -> bool:
        """Whether a node that refuses outlines takes numbers in their place."""
        if self._has_body(node) or not any(map(has_outline, inputs)):
            return False
        for number in _STAND_INS:
            with suppress(Misfit):
                super().results(node, [_filled(value, number) for value in inputs], {}, bindings)
                return True
        return False


def _filled(value: Datum, number: int) -> Datum:
    if isinstance(value, list):
        return [_filled(item, number) for item in value]
    return np.full(value.shape, number, value.dtype) if has_outline(value) else value


def _common(values: Sequence[Datum]) -> Datum:
    """Return an outline of values that have one shape and type; else nothing is known."""
    first, *others = values
    if all(
        isinstance(first, np.ndarray) and isinstance(other, np.ndarray) and _form(other) == _form(first)
        for other in others
    ):
        return forget_numbers(first)
    return UNKNOWN


def _form(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return array.shape, array.dtype


def _described(node: ir.Node, inputs: Sequence[Datum]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (value.name, _written(datum)) for value, datum in zip(node.inputs, inputs, strict=True) if value is not None
    )


_MOST_WRITTEN = 8


def _written(datum: Datum) -> str:
    if not isinstance(datum, np.ndarray):
        return f"{len(datum)} elements" if isinstance(datum, list) else "nothing"
    if datum.ndim == 1 and datum.size <= _MOST_WRITTEN and datum.dtype.kind in "iu" and not has_outline(datum):
        return str(datum.tolist())
    return f"({', '.join(map(str, datum.shape))})"
