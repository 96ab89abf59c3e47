"""What only a run knows: parameters that are computed or not finite, and the statistics of a batch or an instance.

Averages are taken in float32, or float64 where a type is: in 16 bits they would saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import prod

from bnfold import analysis, ir
from bnfold.decomposing.builder import TP, Builder
from bnfold.decomposing.layout import Layout
from bnfold.decomposing.spec import Spec
from bnfold.ir.tensor import FLOATS, Exact


def widest(*dtypes: int) -> int:
    """Return the type to compute in: the widest of several, and at least float32."""
    return TP.DOUBLE if TP.DOUBLE in dtypes else TP.FLOAT


def formula(spec: Spec, centre: bool, builder: Builder) -> dict[ir.Value, ir.Value]:
    """Compute the formula in the widest of all types, at least float32.

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
    """Return a parameter in the type to compute in, of shape (C,), or as it is if it is one of activations."""
    value, have = spec.inputs[name], spec.dtypes[name]
    tensor = analysis.constant(value)
    is_vector = spec.layout.activations is not None
    if tensor is not None and (have != compute or (len(tensor.dims) != 1 and not is_vector)):
        flat = tensor.float64() if is_vector else tensor.float64().reshape(-1)
        return builder.graph.add_constant(f"{builder.node.label}_{name}", Exact(compute, flat))
    dims = builder.shape(value)
    if dims is not None and len(dims) != 1 and not is_vector:
        value = builder.add("Reshape", [value, builder.ints([-1], "vector")], name)
    return builder.cast(value, have, compute)


def operand(builder: Builder, spec: Spec, name: str, compute: int) -> ir.Value:
    """Return a scale or bias such that it broadcasts against the activation."""
    value = spec.inputs[name]
    tensor = analysis.constant(value)
    if tensor is not None and tensor.dtype in FLOATS:
        return spec.layout.constant(builder, value, tensor.float64(), compute, name)
    return spec.layout.spread(builder, parameter(builder, spec, name, compute))


class Statistics:
    """Mean and variance of a batch or of each instance, over axes that are kept as 1; nodes are made when asked for.

    They are taken of the activation in the type to compute in. Where its own rank is not known, or has no axis to
    average over (``reshape``), it is brought to (N, C, the rest) and back.
    """

    def __init__(self, builder: Builder, spec: Spec, *, reshape: bool, of_batch: bool) -> None:
        self._builder = builder
        self._compute = widest(*spec.dtypes.values())
        self._data = builder.cast(spec.x, spec.dtypes["x"], self._compute)
        self._is_reshaped = reshape
        if reshape:
            shape = builder.three_axes(_channels(builder, spec))
            self._data = builder.add("Reshape", [self._data, shape], "rank3", allowzero=1)
            spec = replace(spec, layout=Layout(3))
        self._spec = spec
        self._axes = spec.layout.axes if of_batch else range(2, spec.layout.rank or 3)

    @cached_property
    def mean(self) -> ir.Value:
        return self._builder.reduce_mean(self._data, self._axes, "mean", keepdims=1)

    @cached_property
    def centred(self) -> ir.Value:
        return self._builder.add("Sub", [self._data, self.mean], "centred")

    @cached_property
    def var(self) -> ir.Value:
        """The population's, of squared deviations: where the mean is large, ``E[x²] − E[x]²`` cancels."""
        squares = self._builder.add("Mul", [self.centred, self.centred], "squares")
        return self._builder.reduce_mean(squares, self._axes, "var", keepdims=1)

    @cached_property
    def deviation(self) -> ir.Value:
        """``sqrt(var + epsilon)``."""
        epsilon = self._builder.attribute("epsilon", self._spec.epsilon, self._compute)
        return self._builder.add("Sqrt", [self._builder.add("Add", [self.var, epsilon], "var_epsilon")], "deviation")

    def output(self) -> ir.Value:
        """Return ``(x − mean)/deviation·scale + bias`` in the type and dims of x; only statistics are divided."""
        builder = self._builder
        scale, bias = (operand(builder, self._spec, name, self._compute) for name in ("scale", "bias"))
        s = builder.add("Div", [scale, self.deviation], "s")
        product = builder.add("Mul", [self.centred, s], "mul")
        y = builder.add("Add", [product, bias], "add")
        if self._is_reshaped:
            y = builder.add("Reshape", [y, builder.dims], "restored", allowzero=1)
        return builder.cast(y, self._compute, self._spec.dtypes["x"])

    def inverse(self) -> ir.Value:
        """Return what the fifth output may hold instead of the variance."""
        self._builder.repair("saved-var", "output 5 holds 1/sqrt(variance + epsilon), as asked")
        return self._builder.add("Reciprocal", [self.deviation], "inverse")

    def saved(self, statistic: ir.Value) -> ir.Value:
        """Return a statistic as an output in the type of x."""
        return self._builder.cast(self._vector(statistic, "mean"), self._compute, self._spec.dtypes["x"])

    def running(self, name: str, current: ir.Value) -> ir.Value:
        """Return ``input·momentum + current·(1 − momentum)``: the opposite sense of PyTorch's momentum."""
        builder, spec, momentum = self._builder, self._spec, self._spec.momentum
        old = builder.attribute("momentum", momentum, self._compute)
        if isinstance(momentum, str):
            new = builder.add("Sub", [builder.number(1.0, self._compute, "one"), old], "remainder")
        else:
            new = builder.number(1.0 - momentum, self._compute, "remainder")
        kept = builder.add("Mul", [parameter(builder, spec, name, self._compute), old], f"kept_{name}")
        added = builder.add("Mul", [self._vector(current, name), new], f"added_{name}")
        return builder.cast(builder.add("Add", [kept, added], f"running_{name}"), self._compute, spec.dtypes[name])

    def _vector(self, statistic: ir.Value, like: str) -> ir.Value:
        dims = self._builder.shape(self._spec.inputs[like])
        return self._spec.layout.collapse(self._builder, statistic, dims)


def _channels(builder: Builder, spec: Spec) -> ir.Value:
    """Return the number of channels as a (1,) of int64: there are as many scales."""
    dims = builder.shape(spec.inputs["scale"])
    static = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is not None and len(static) == len(dims) and 0 not in static:  # which some exporters write for unknown
        return builder.ints([prod(static)], "channels")
    return builder.add("Shape", [parameter(builder, spec, "scale", spec.dtypes["scale"])], "channels")


def training(spec: Spec, saved_var: str, builder: Builder) -> dict[ir.Value, ir.Value]:
    """Return what is used of a BatchNormalization in training mode.

    Y, running mean and variance, saved mean and variance.
    """
    found = Statistics(builder, spec, reshape=spec.layout.rank is None, of_batch=True)
    y, running_mean, running_var, mean, var = spec.form.outputs if spec.form is not None else (None,) * 5
    producers: tuple[tuple[ir.Value | None, Callable[[], ir.Value]], ...] = (
        (running_mean, lambda: found.running("mean", found.mean)),
        (running_var, lambda: found.running("var", found.var)),
        (mean, lambda: found.saved(found.mean)),
        (var, lambda: found.saved(found.var if saved_var == "variance" else found.inverse())),
        (y, found.output),
    )
    return {output: make() for output, make in producers if output is not None and not output.is_unread}


def instance(spec: Spec, builder: Builder) -> dict[ir.Value, ir.Value]:
    """Decompose InstanceNormalization: statistics over the axes behind the channels."""
    output = spec.node.output(0)
    found = Statistics(builder, spec, reshape=spec.layout.rank in (None, 2), of_batch=False)
    return {} if output is None else {output: found.output()}
