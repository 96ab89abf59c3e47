"""MatMul and Add as one Gemm."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.tensor import TP
from bnfold.simplifying.known import Known
from bnfold.simplifying.plan import Plan, Respell

_TYPES = (TP.FLOAT, TP.DOUBLE, TP.FLOAT16)


def find_product(node: ir.Node, known: Known) -> Plan | None:
    """Plan a Gemm in place of an Add to a product of matrices that nothing else reads."""
    if node.graph.opset() < 7 or len(node.inputs) != 2:
        return None
    for product, bias in (node.inputs, node.inputs[::-1]):
        first = product.producer if product is not None else None
        if first is None or product is None or not first.is_op("MatMul") or product.only_consumer is not node:
            continue
        x, weight = first.input(0), first.input(1)
        dims, columns, held = known.dims(x), known.dims(weight), ir.constant(bias)
        if dims is None or len(dims) != 2 or columns is None or len(columns) != 2 or held is None:
            continue
        if held.dims not in ((columns[1],), (1, columns[1])) or ir.constant(weight) is None:
            continue
        if known.dtype(x) in _TYPES and known.dtype(weight) == known.dtype(bias) == known.dtype(x):
            return Respell("MatMul and Add as Gemm", node, "Gemm", [x, weight, bias], {})
    return None
