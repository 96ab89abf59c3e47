"""Mean and variance of a batch or an instance, from primitive operators, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from bnfold import ir
from bnfold.decomposing.builder import Builder


class Moments:
    """Statistics of ``data`` over ``axes``, which are kept as 1; the variance is the population's.

    The deviations are squared and averaged, not the squares: where the mean is large, ``E[x²] − E[x]²`` cancels.
    """

    def __init__(self, builder: Builder, data: ir.Value, axes: Sequence[int], epsilon: float | str, dtype: int) -> None:
        self._builder = builder
        self._data = data
        self._axes = axes
        self._epsilon = epsilon
        self._dtype = dtype

    @cached_property
    def mean(self) -> ir.Value:
        return self._builder.reduce_mean(self._data, self._axes, "mean", keepdims=1)

    @cached_property
    def centred(self) -> ir.Value:
        return self._builder.add("Sub", [self._data, self.mean], "centred")

    @cached_property
    def var(self) -> ir.Value:
        squares = self._builder.add("Mul", [self.centred, self.centred], "squares")
        return self._builder.reduce_mean(squares, self._axes, "var", keepdims=1)

    @cached_property
    def deviation(self) -> ir.Value:
        """``sqrt(var + epsilon)``."""
        epsilon = self._builder.attribute("epsilon", self._epsilon, self._dtype)
        return self._builder.add("Sqrt", [self._builder.add("Add", [self.var, epsilon], "var_epsilon")], "deviation")

    def normalised(self, scale: ir.Value, bias: ir.Value) -> ir.Value:
        """``(data − mean)/deviation·scale + bias``; the division is on statistics, not on the activation."""
        s = self._builder.add("Div", [scale, self.deviation], "s")
        product = self._builder.add("Mul", [self.centred, s], "mul")
        return self._builder.add("Add", [product, bias], "add")
