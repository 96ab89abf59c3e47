"""Models that declare a size of 0: some mean it, and some exporters write it for a dynamic size."""

from __future__ import annotations

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.inputs.drawing import input_shapes, random_feeds
from bnfold.verification.inputs.shapes import sizings
from bnfold.verification.request import Request
from bnfold.verification.tolerance.compare import compare_values


def agree_as_declared(request: Request) -> bool:
    """Whether a size is declared as 0, and both models agree at that size."""
    model = request.before
    empty = {value.name: _empty_axes(value) for value in model.required_inputs()}
    if not any(empty.values()):
        return False
    outputs = [value.name for value in model.graph.outputs]
    evaluate = evaluator(request.policy, request.clock)
    try:
        open_ones = input_shapes(model, sizings()[0], request.checks.inputs)
        shapes = {
            name: tuple(0 if axis in empty[name] else dim for axis, dim in enumerate(shape))
            for name, shape in open_ones.items()
        }
        feeds = random_feeds(model, shapes, request.checks.seed, 0)
        old, new = (evaluate(side, feeds, outputs, noise=reference.Noise()) for side in (model, request.after))
    except BnfoldError:
        return False
    return all(compare_values(old[name], new[name], (), None, by_channel=False).excess <= 1 for name in outputs)


def _empty_axes(value: ir.Value) -> set[int]:
    """Return the axes whose size is declared as 0, which `ir.Value.shape` does not tell from an unknown one."""
    dims = value.type.tensor_type.shape.dim if value.type is not None else ()
    return {axis for axis, dim in enumerate(dims) if dim.HasField("dim_value") and not dim.dim_value}
