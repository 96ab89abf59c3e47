"""What a model consists of, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bnfold import analysis, ir
from bnfold.analysis.constants import known_shape
from bnfold.analysis.traits import FACTOR, OTHER_PRODUCTS
from bnfold.errors import BnfoldError
from bnfold.ir.types import is_inferred

MANY_NODES = 5_000
"""Beyond this inferring the shapes that a count needs would take longer than the count is worth."""


@dataclass(frozen=True, slots=True)
class Products:
    """Multiply-adds: a number, times the dynamic sizes that all of it grows with (``batch``, say)."""

    count: int
    sizes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what reports hold."""
        return {"count": self.count, "times": list(self.sizes)}


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of one model.

    Attributes:
        operators: Nodes of every graph by operator, the most frequent first; foreign domains stand before the name.
        weights: Bytes of all stored tensors, whether initializers or Constant nodes hold them.
        inputs: Inputs of the graph, listed initializers among them.
        outputs: Outputs of the graph.
        opset: Version of the default domain.
        products: Multiply-adds of one run; None if they were not counted, or are unknown.
    """

    operators: Mapping[str, int] = field(default_factory=dict)
    weights: int = 0
    inputs: int = 0
    outputs: int = 0
    opset: int = 0
    products: Products | None = None

    @property
    def nodes(self) -> int:
        """Nodes of every graph."""
        return sum(self.operators.values())

    @property
    def without_constants(self) -> int:
        """Those of its nodes that compute something: no Constant."""
        return self.nodes - self.operators.get("Constant", 0)

    @property
    def batchnorms(self) -> int:
        """Those of its nodes that are BatchNormalizations."""
        return self.operators.get("BatchNormalization", 0)


_UNITS = ("bytes", "kB", "MB", "GB")


def size(count: float, digits: int = 1) -> str:
    """Return bytes in a unit that people read, gigabytes with so many digits."""
    return in_unit(count, count, digits)


def in_unit(count: float, largest: float, digits: int = 1) -> str:
    """Return bytes in the unit in which people read the ``largest`` of several sizes."""
    power = 0
    while largest >= 1000 and power < len(_UNITS) - 1:
        largest /= 1000
        power += 1
    places = 0 if power == 0 else digits if _UNITS[power] == "GB" else 1
    return f"{count / 1000**power:.{places}f} {_UNITS[power]}"


def count(model: ir.Model) -> Totals:
    """Return the totals of a model as it is now."""
    names = (f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.nodes())
    operators = dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
    return Totals(operators, weights(model), len(model.graph.inputs), len(model.graph.outputs), model.opset())


def weights(model: ir.Model) -> int:
    """Return bytes of all stored tensors, whether initializers or Constant nodes hold them."""
    held = [analysis.constant(node.output(0)) for node in model.nodes() if node.is_op("Constant")]
    return model.parameter_bytes() + sum(tensor.nbytes for tensor in held if tensor is not None)


def changed(before: Totals, after: Totals) -> dict[str, tuple[int, int]]:
    """Return operators whose count changed, with both counts, the largest change first."""
    names = dict.fromkeys((*before.operators, *after.operators))
    pairs = {name: (before.operators.get(name, 0), after.operators.get(name, 0)) for name in names}
    moved = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return dict(sorted(moved.items(), key=lambda item: -abs(item[1][0] - item[1][1])))


def multiply_adds(model: ir.Model) -> Products | None:
    """Return multiply-adds of convolutions, matrix products and recurrent operators in one run of the model.

    None if it is unknown: a shape is not known, parts grow with different dynamic sizes, the number of a body's runs
    is open, or an operator of another domain may hold any number.
    """
    if len(model.graph.nodes) > MANY_NODES or any(
        node.domain or node.op_type in OTHER_PRODUCTS for node in model.nodes()
    ):
        return None
    counted = [node for node in model.nodes() if node.op_type in FACTOR]
    if any(node.graph is not model.graph for node in counted):
        return None
    found = [_products(node) for node in counted]
    if None in found:
        analysis.infer_shapes(model)
        found = [_products(node) for node in counted]
    known = [products for products in found if products is not None]
    sizes = {products.sizes for products in known}
    if None in found or len(sizes) > 1:
        return None
    return Products(sum(products.count for products in known), *sizes)


def _products(node: ir.Node) -> Products | None:
    try:
        dims = _dims(node)
    except BnfoldError:  # an attribute whose value only a caller knows
        return None
    sizes = tuple(sorted(dim for dim in dims or () if isinstance(dim, str)))
    if dims is None or None in dims or any(map(is_inferred, sizes)):
        return None
    if 0 in dims:  # which is what exporters write for a size that they do not know
        return None
    return Products(math.prod(dim for dim in dims if isinstance(dim, int)), sizes)


def _dims(node: ir.Node) -> tuple[int | str | None, ...] | None:
    """Return the dims whose product is the number of multiply-adds; None where one of the shapes is not known."""
    operands = [known_shape(node.input(slot)) for slot in range(4)]
    weight, made = operands[FACTOR[node.op_type]], known_shape(node.output(0))
    if node.op_type == "ConvTranspose":
        made = operands[0]  # each element of the input is multiplied into a window
    elif node.op_type in ("RNN", "GRU", "LSTM"):
        made, recurrent = operands[0], operands[2]
        if weight is None or recurrent is None or made is None or len(weight) != 3 or len(recurrent) != 3:
            return None
        if not isinstance(weight[2], int) or not isinstance(recurrent[2], int):
            return None
        return (*made[:2], *weight[:2], weight[2] + recurrent[2])
    if not weight or made is None:
        return None
    if "Conv" in node.op_type:
        return (*made, *weight[1:])
    return (*made, weight[0] if node.op_type == "Gemm" and node.attr("transA", 0) else weight[-1])
