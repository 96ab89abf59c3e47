"""A product or a convolution, and the Add of a constant behind it, as one node."""

from __future__ import annotations

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import RESHAPING
from bnfold.edits.edit import NewNode, Operand
from bnfold.ir.tensor import TP, Array
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import integers
from bnfold.simplifying.parameters import numbers, replacement
from bnfold.simplifying.plan import Simplification, only_above, replace

_TYPES = (TP.FLOAT, TP.DOUBLE, TP.FLOAT16)


def find_addition(node: ir.Node, known: Proven) -> Simplification | None:
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


def _gemm(node: ir.Node, first: ir.Node, bias: ir.Value | None, known: Proven) -> Simplification | None:
    x, weight = first.input(0), first.input(1)
    columns, held = known.dims(weight), analysis.constant(bias)
    if columns is None or len(columns) != 2 or held is None or held.dims not in ((columns[1],), (1, columns[1])):
        return None
    if known.dtype(x) not in _TYPES or not known.dtype(weight) == held.dtype == known.dtype(x):
        return None
    dims = known.dims(x)
    if dims is not None and len(dims) == 2:
        return replace(rewrites.MATMUL_ADD, node, "Gemm", [x, weight, bias], {})
    return _gemm_before_unsqueeze(node, first, bias, known) if weight is not None and len(held.dims) == 1 else None


def _gemm_before_unsqueeze(
    node: ir.Node, first: ir.Node, bias: ir.Value | None, known: Proven
) -> Simplification | None:
    """Plan a Gemm of the matrix that an Unsqueeze in front of the MatMul reads, and the Unsqueeze behind it."""
    unsqueeze, weight = only_above(first), first.input(1)
    source = unsqueeze.input(0) if unsqueeze is not None and unsqueeze.is_op("Unsqueeze") else None
    dims = known.dims(source)
    if unsqueeze is None or source is None or weight is None or bias is None or dims is None or len(dims) != 2:
        return None
    axes = numbers(unsqueeze, "axes", known)
    if unsqueeze.graph is not node.graph or not axes or source.graph is not node.graph:
        return None
    places = [axis + 2 + len(axes) if axis < 0 else axis for axis in axes]
    if max(places) > len(axes):  # the last axis is summed over, and stays the last
        return None
    gemm = NewNode("Gemm", [source, weight, bias], {})
    return replacement(rewrites.MATMUL_ADD, node, "Unsqueeze", gemm, {"axes": integers(axes)})


def find_product_of_reshaped(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan one MatMul in place of a row that reshapes, multiplies by a matrix, and reshapes back."""
    product = only_above(node)
    first = only_above(product) if product is not None and product.is_op("MatMul") else None
    if product is None or first is None or not first.is_op(*RESHAPING) or known.calls(first) or known.calls(product):
        return None
    source, weight = first.input(0), product.input(1)
    dims, columns, made = known.dims(source), known.dims(weight), known.dims(node.output(0))
    if dims is None or made is None or columns is None or len(columns) != 2 or not dims or source is None:
        return None
    is_one_graph = first.graph is product.graph is node.graph is source.graph
    keeps_rows = (*dims[:-1], columns[1]) == made and dims[-1] == columns[0]
    if not is_one_graph or not keeps_rows or None in (*dims, *made):
        return None
    return replace(rewrites.MATMUL_RESHAPED.of(first.op_type), node, "MatMul", [source, weight], {})


def _convolution(node: ir.Node, first: ir.Node, bias: ir.Value | None, known: Proven) -> Simplification | None:
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
    if operand is None:
        return None
    inputs = [first.input(0), weight, operand]
    attrs = {name: first.attr(name) for name in first.attrs}
    return replace(rewrites.CONVOLUTION_ADD.of(first.op_type), node, first.op_type, inputs, attrs)


def _vector(bias: ir.Value | None, channels: int, known: Proven) -> Operand:
    """Return the elements of a bias along one axis: of a constant, or what a Reshape puts beside axes of size 1."""
    if (held := analysis.constant(bias)) is not None:
        array: Array = held.numpy().reshape(channels)
        return array
    reshape = bias.producer if bias is not None else None
    if bias is None or reshape is None or not reshape.is_op(*RESHAPING) or reshape.graph is not bias.graph:
        return None
    source = reshape.input(0)
    return source if known.dims(source) == (channels,) else None
