"""Einsum in terms of Transpose, Reshape and MatMul: one or two operands, without a repeated index."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down


@down("Einsum", 12)
def einsum(conversion: NodeConversion) -> None:
    """Decompose Einsum: the operands become matrices by batch, and their product is put in order."""
    operands, result = _terms(conversion)
    values = [conversion.input(index) for index in range(len(operands))]
    sizes = _sizes(conversion, operands, values)
    values = [_summed(conversion, *pair, operands, result) for pair in zip(operands, values, strict=True)]
    kept = [_kept(index, operands, result) for index in range(len(operands))]
    if len(operands) == 1:
        _finish(conversion, values[0], kept[0], result, sizes, None)
        return
    batch = [index for index in kept[0] if index in kept[1] and index in result]
    inner = [index for index in kept[0] if index in kept[1] and index not in result]
    rows, columns = ([index for index in each if index not in batch and index not in inner] for each in kept)
    if len(inner) == len(columns) == 1 and (len(rows) == 1 or not batch):
        left = _ordered(conversion, values[0], kept[0], [*batch, *rows, *inner])
        right = _ordered(conversion, values[1], kept[1], [*batch, *inner, *columns])
        _in_order(conversion, "MatMul", [left, right], [*batch, *rows, *columns], result)
        return
    left = _matrices(conversion, values[0], kept[0], (batch, rows, inner), sizes)
    right = _matrices(conversion, values[1], kept[1], (batch, inner, columns), sizes)
    _finish(conversion, left, [*batch, *rows, *columns], result, sizes, right)


def _terms(conversion: NodeConversion) -> tuple[list[str], str]:
    """Return the indices of each operand and of the result. Raises Inexpressible for other forms."""
    equation = _without_ellipsis(conversion, str(conversion.node.attr("equation", "")).replace(" ", ""))
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    if "->" not in equation:
        result = "".join(sorted(index for index in set(terms) - {","} if terms.count(index) == 1))
    if len(operands) > 2 or "." in equation or len(operands) != len(conversion.node.inputs):
        raise Inexpressible(f"has the equation {equation!r}, of more than two operands")
    if any(len(set(term)) != len(term) for term in (*operands, result)) or not set(result) <= set(terms):
        raise Inexpressible(f"has the equation {equation!r}, which repeats an index of one operand")
    return operands, result


def _without_ellipsis(conversion: NodeConversion, equation: str) -> str:
    """Return the equation with the axes that an ellipsis stands for as indices of their own."""
    terms, arrow, _result = equation.partition("->")
    operands = terms.split(",")
    if "..." not in equation or len(operands) != len(conversion.node.inputs):
        return equation
    counts = {
        conversion.rank(conversion.input(index)) - len(term.replace("...", ""))
        for index, term in enumerate(operands)
        if "..." in term
    }
    free = [letter for letter in ascii_letters if letter not in equation]
    if len(counts) != 1 or not arrow or not 0 <= (count := counts.pop()) <= len(free):
        raise Inexpressible(f"has the equation {equation!r}, whose ellipsis stands for axes of several numbers")
    return equation.replace("...", "".join(free[:count]))


def _sizes(conversion: NodeConversion, operands: Sequence[str], values: Sequence[ir.Value]) -> dict[str, int | None]:
    """Return the size of each index; None where it is open."""
    sizes: dict[str, int | str | None] = {}
    for term, value in zip(operands, values, strict=True):
        shape = conversion.shape(value)
        if shape is None or len(shape) != len(term):
            raise Inexpressible(f"the rank of {value.name!r} is not known to be {len(term)}")
        for index, size in zip(term, shape, strict=True):
            if index in sizes and (size is None or size != sizes[index]):
                text = f"reads index {index!r} of sizes {sizes[index] or 'unknown'} and {size or 'unknown'}"
                raise Inexpressible(f"{text}, where 1 would be another meaning")
            sizes[index] = size
    return {index: size if isinstance(size, int) else None for index, size in sizes.items()}


def _kept(place: int, operands: Sequence[str], result: str) -> list[str]:
    others = set(result).union(*(term for index, term in enumerate(operands) if index != place))
    return [index for index in operands[place] if index in others]


def _summed(conversion: NodeConversion, term: str, value: ir.Value, operands: Sequence[str], result: str) -> ir.Value:
    """Reduce the indices that nothing else has."""
    axes = [place for place, index in enumerate(term) if index not in result and "".join(operands).count(index) == 1]
    return conversion.along("ReduceSum", value, axes, "summed", keepdims=0) if axes else value


def _matrices(
    conversion: NodeConversion,
    value: ir.Value,
    kept: Sequence[str],
    groups: Sequence[Sequence[str]],
    sizes: dict[str, int | None],
) -> ir.Value:
    """Bring a value into the form of batches of matrices: one axis each for the batch, the rows and the columns."""
    value = _ordered(conversion, value, kept, [index for group in groups for index in group])
    return conversion.add("Reshape", [value, _dims(conversion, [_product(group, sizes) for group in groups])], "matrix")


def _ordered(conversion: NodeConversion, value: ir.Value, kept: Sequence[str], wanted: Sequence[str]) -> ir.Value:
    if list(kept) == list(wanted):
        return value
    return conversion.add("Transpose", [value], "ordered", perm=[kept.index(index) for index in wanted])


def _in_order(
    conversion: NodeConversion, op_type: str, inputs: Sequence[ir.Value], made: Sequence[str], result: str
) -> None:
    """Let the node compute this, with its axes in the order of the result."""
    if list(made) == list(result):
        conversion.become(op_type, inputs)
        return
    product = conversion.add(op_type, inputs, "product")
    conversion.become("Transpose", [product], perm=[made.index(index) for index in result])


def _product(group: Sequence[str], sizes: dict[str, int | None]) -> int | None:
    count = 1
    for index in group:
        size = sizes[index]
        if size is None:
            return None
        count *= size
    return count


def _dims(conversion: NodeConversion, dims: Sequence[int | None]) -> ir.Value:
    """Return the shape for a Reshape; one size may be open, and then none may be 0."""
    if sum(dim is None for dim in dims) > 1 or 0 in dims:
        raise Inexpressible("has more than one open size, or none at all")
    return conversion.ints([-1 if dim is None else dim for dim in dims], "dims")


def _finish(
    conversion: NodeConversion,
    left: ir.Value,
    made: Sequence[str],
    result: str,
    sizes: dict[str, int | None],
    right: ir.Value | None,
) -> None:
    """Bring the product, if there are two operands, and its axes into the order of the result."""
    if right is None:
        _in_order(conversion, "Identity", [left], made, result)
        return
    shape = _dims(conversion, [sizes[index] for index in made])
    product = conversion.add("MatMul", [left, right], "product")
    _in_order(conversion, "Reshape", [product, shape], made, result)
