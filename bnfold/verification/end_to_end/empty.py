"""Models that declare a size of 0: some mean it, and some exporters write it for a dynamic size."""

from __future__ import annotations

from bnfold import reference
from bnfold.errors import BnfoldError
from bnfold.ir.value import shape_of
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.inputs.drawing import input_shapes, random_feeds
from bnfold.verification.inputs.shapes import sizings
from bnfold.verification.request import Request
from bnfold.verification.tolerance.compare import compare_values


def agree_as_declared(request: Request) -> bool:
    """Whether a size is declared as 0, and both models agree at that size."""
    model = request.before
    declared = {value.name: shape_of(value.type) for value in model.required_inputs()}
    if not any(0 in (shape or ()) for shape in declared.values()):
        return False
    outputs = [value.name for value in model.graph.outputs]
    evaluate = evaluator(request.policy, request.clock)
    try:
        open_ones = input_shapes(model, sizings()[0], request.checks.inputs)
        shapes = {name: _emptied(shape, declared[name]) for name, shape in open_ones.items()}
        feeds = random_feeds(model, shapes, request.checks.seed, 0)
        old, new = (evaluate(side, feeds, outputs, noise=reference.Noise()) for side in (model, request.after))
    except BnfoldError:
        return False
    return all(compare_values(old[name], new[name], (), None, by_channel=False).excess <= 1 for name in outputs)


def _emptied(shape: tuple[int, ...], declared: tuple[object, ...] | None) -> tuple[int, ...]:
    """Return the shape with the sizes of 0 that are declared; as it is where not even the rank is."""
    return tuple(0 if known == 0 else dim for dim, known in zip(shape, declared or shape, strict=True))
