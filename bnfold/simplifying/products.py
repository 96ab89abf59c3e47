"""A product or a convolution, and the Add of a constant behind it, as one node."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.tensor import TP, Array
from bnfold.ir.traits import RESHAPING
from bnfold.report import rewrites
from bnfold.simplifying.plan import Operand, Plan, Respell, can_respell

_TYPES = (TP.FLOAT, TP.DOUBLE, TP.FLOAT16)


def find_addition(node: ir.Node, known: Proven) -> Plan | None:
    """Plan a Gemm in place of a MatMul and an Add, or the Add's constant as the bias of a convolution."""
    if node.graph.opset() < 7 or len(node.inputs) != 2:
        return None
    for made, bias in (node.inputs, node.inputs[::-1]):
        first = made.producer if made is not None else None
        if first is None or made is None or first.has_references or made.only_consumer is not node:
            continue
        if (weight := first.input(1)) is None or not (weight.holds_constant or weight.is_input):
            continue  # it may be a quantized one
        if first.is_op("MatMul") and (plan := _gemm(node, first, bias, known)) is not None:
            return plan
        if first.is_op("Conv", "ConvTranspose") and (plan := _convolution(node, first, bias, known)) is not None:
            return plan
    return None


def _gemm(node: ir.Node, first: ir.Node, bias: ir.Value | None, known: Proven) -> Plan | None:
    x, weight = first.input(0), first.input(1)
    dims, columns, held = known.dims(x), known.dims(weight), ir.constant(bias)
    if dims is None or len(dims) != 2 or columns is None or len(columns) != 2 or held is None:
        return None
    if held.dims not in ((columns[1],), (1, columns[1])):
        return None
    if known.dtype(x) not in _TYPES or not known.dtype(weight) == held.dtype == known.dtype(x):
        return None
    return Respell(rewrites.MATMUL_ADD, node, "Gemm", [x, weight, bias], {})


def _convolution(node: ir.Node, first: ir.Node, bias: ir.Value | None, known: Proven) -> Plan | None:
    """Plan the convolution in place of the Add; a bias that it has already would be rounded another time."""
    weight = first.input(1)
    kernel, added, dtype = known.dims(weight), known.dims(bias), known.dtype(weight)
    if kernel is None or len(kernel) < 3 or first.input(2) is not None or known.dtype(bias) != dtype or dtype is None:
        return None
    groups = first.attr("group", 1) if first.op_type == "ConvTranspose" else 1
    outputs = kernel[1] if first.op_type == "ConvTranspose" else kernel[0]
    block = (outputs * groups, *(1 for _ in kernel[2:])) if isinstance(outputs, int) else ()
    if not block or added not in (block, (1, *block)):
        return None
    operand = _vector(bias, block[0], known)
    if operand is None or not can_respell(node, [operand]):
        return None
    inputs = [first.input(0), weight, operand]
    attrs = {name: first.attr(name) for name in first.attrs}
    return Respell(rewrites.CONVOLUTION_ADD.of(first.op_type), node, first.op_type, inputs, attrs)


def _vector(bias: ir.Value | None, channels: int, known: Proven) -> Operand:
    """Return the elements of a bias along one axis: of a constant, or what a Reshape puts beside axes of size 1."""
    if (held := ir.constant(bias)) is not None:
        array: Array = held.numpy().reshape(channels)
        return array
    reshape = bias.producer if bias is not None else None
    if bias is None or reshape is None or not reshape.is_op(*RESHAPING) or reshape.graph is not bias.graph:
        return None
    source = reshape.input(0)
    return source if known.dims(source) == (channels,) else None
