"""Inference with parameters that only a run knows, or that are not finite: the operator's own formula, node by node."""

from __future__ import annotations

from bnfold import ir
from bnfold.decomposing.builder import Builder
from bnfold.decomposing.guard import widest
from bnfold.decomposing.spec import Spec
from bnfold.ir.tensor import Exact


def formula(spec: Spec, centre: bool, builder: Builder) -> dict[ir.Value, ir.Value]:
    """In the widest of all types, at least float32.

    ``s = scale/sqrt(var + epsilon)`` on vectors, then ``s·x + (bias − mean·s)``; with ``centre`` it is
    ``s·(x − mean) + bias``, which keeps NaN and infinity where the operator has them.
    """
    layout = spec.layout
    compute = widest(*spec.dtypes.values())
    scale, bias, mean, var = (parameter(builder, spec, name, compute) for name in ("scale", "bias", "mean", "var"))
    epsilon = builder.attribute("epsilon", spec.epsilon, compute)
    deviation = builder.add("Sqrt", [builder.add("Add", [var, epsilon], "var_epsilon")], "deviation")
    s = builder.add("Div", [scale, deviation], "s")
    x = builder.cast(spec.x, spec.dtypes["x"], compute)
    if centre:
        centred = builder.add("Sub", [x, layout.spread(builder, mean)], "centred")
        product, shift = builder.add("Mul", [centred, layout.spread(builder, s)], "mul"), bias
    else:
        shift = builder.add("Sub", [bias, builder.add("Mul", [mean, s], "mean_s")], "t")
        product = builder.add("Mul", [x, layout.spread(builder, s)], "mul")
    y = builder.add("Add", [product, layout.spread(builder, shift)], "add")
    output = spec.node.output(0)
    return {} if output is None else {output: builder.cast(y, compute, spec.dtypes["x"])}


def parameter(builder: Builder, spec: Spec, name: str, compute: int) -> ir.Value:
    """A parameter in the type to compute in, of shape (C,), or as it is where it belongs to single activations."""
    value, have = spec.inputs[name], spec.dtypes[name]
    tensor = ir.constant(value)
    is_vector = spec.layout.activations is not None
    if tensor is not None and (have != compute or (len(tensor.dims) != 1 and not is_vector)):
        flat = tensor.float64() if is_vector else tensor.float64().reshape(-1)
        return builder.graph.add_constant(f"{builder.node.label}_{name}", Exact(compute, flat))
    dims = builder.shape(value)
    if dims is not None and len(dims) != 1 and not is_vector:
        value = builder.add("Reshape", [value, builder.ints([-1], "vector")], name)
    return builder.cast(value, have, compute)
