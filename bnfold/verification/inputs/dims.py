"""Which dims of what an operator reads and makes are one size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bnfold import ir, reference
from bnfold.reference.operators import BROADCASTING, KEEPS_SHAPE

KnownDim = int | str
Letter = int | str
Term = tuple[ir.Value | None, Sequence[Letter]]
"""A value and a letter for each of its dims, as in Einsum: equal letters are equal dims, and a number is a size."""

DimsOf = Callable[[ir.Value | None], list[KnownDim] | None]


def terms(node: ir.Node, shape_of: DimsOf) -> list[Term]:
    """Return what is known of the shapes around a node, if anything. Damaged nodes may raise."""
    rule = _RULES.get(node.op_type) if not node.domain else None
    return list(rule(node, shape_of)) if rule is not None else []


def _axes(rank: int, what: str = "axis") -> list[Letter]:
    return [f"{what} {axis}" for axis in range(rank)]


def _rank(shape_of: DimsOf, *values: ir.Value | None) -> int:
    """Return the rank of the first value whose rank is known, else 0."""
    return next((len(shape) for value in values if (shape := shape_of(value)) is not None), 0)


def _alike(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    if rank := _rank(shape_of, node.input(0), node.output(0)):
        yield node.input(0), _axes(rank)
        yield node.output(0), _axes(rank)


def _quantized(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    yield from _alike(node, shape_of)
    rank, scale = _rank(shape_of, node.input(0), node.output(0)), shape_of(node.input(1))
    if rank and scale is not None and len(scale) == 1 and scale != [1]:
        yield node.input(1), [_axes(rank)[int(node.attr("axis", 1))]]


def _per_channel(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    yield from _alike(node, shape_of)
    has_groups = node.is_op("GroupNormalization") and node.graph.opset("") < 21
    rank = _rank(shape_of, node.input(0), node.output(0))
    if rank > 1 and node.attr("spatial", 1) and not has_groups:
        yield from ((value, ["axis 1"]) for value in node.inputs[1:])
    of_each = len(shape_of(node.input(1)) or ()) if not node.attr("spatial", 1) else 0
    if of_each > 1 and rank in (0, of_each + 1):  # one parameter an activation
        yield from ((value, _axes(of_each + 1)) for value in (node.input(0), node.output(0)))
        yield from ((value, _axes(of_each + 1)[1:]) for value in node.inputs[1:])


def _spread(shapes: Sequence[Sequence[KnownDim]], rank: int) -> list[list[Letter]]:
    """Return letters of shapes that are broadcast.

    Counted from the right sizes are equal or 1, and what may be 1 is equal.
    """
    letters = _axes(rank)
    sizes = [{shape[place] for shape in shapes if -len(shape) <= place} for place in range(-rank, 0)]
    return [
        [
            letters[place] if shape[place] != 1 or sizes[place] == {1} else f"slot {slot} {place}"
            for place in range(-len(shape), 0)
        ]
        for slot, shape in enumerate(shapes)
    ]


def _broadcast(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    values = [value for value in node.inputs if value is not None]
    known = [shape_of(value) for value in values]
    told = [shape for shape in known if shape is not None]
    if len(told) < len(values) and shape_of(node.output(0)) is None:
        return  # a number beside a value of unknown rank says nothing of it
    rank = max(map(len, told)) if len(told) == len(values) else _rank(shape_of, node.output(0))
    spread = _spread([_placed(node, slot, shape, rank) for slot, shape in enumerate(known)], rank)
    for value, shape, letters in zip(values, known, spread, strict=True):
        yield value, letters if shape is None else letters[: len(shape)]
    yield node.output(0), _axes(rank)


def _placed(node: ir.Node, slot: int, shape: list[KnownDim] | None, rank: int) -> list[KnownDim]:
    """Return the shape of an operand, with ones behind it where it stands at a named axis, as before opset 7."""
    if shape is None:
        return [f"slot {slot}"] * rank
    is_slope = node.is_op("PRelu") and node.graph.opset("") < 7 and len(shape) == 1 < rank
    if slot != 1 or not (is_slope or node.attr("broadcast", 0)):
        return shape
    behind = rank - len(shape) - (1 if is_slope else int(node.attr("axis", rank - len(shape))))
    if behind < 0:
        raise ValueError("its second operand does not fit behind the axis")
    return [*shape, *[1] * behind]


def _expand(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    """Yield the result; a dim of the data that is open may be 1 or what is wanted (`widest`)."""
    own, held = shape_of(node.input(0)), reference.constant(node.input(1))
    if own is None or held is None:
        return
    target = held.numpy().tolist()
    rank = max(len(own), len(target))
    letters = [*_axes(rank - len(target)), *target]
    yield (
        node.input(0),
        [
            letter if wanted == 1 else f"own {letter}"
            for letter, wanted in zip(_axes(rank)[rank - len(own) :], _last(len(own), target), strict=True)
        ],
    )
    yield node.output(0), [size if size != 1 else letter for size, letter in zip(letters, _axes(rank), strict=True)]


def widest(node: ir.Node, rank: int) -> list[int | None]:
    """Return the largest dims of data of that rank that an Expand takes; None where any size will do."""
    held = reference.constant(node.input(1)) if node.is_op("Expand") else None
    target = held.numpy().tolist() if held is not None else []
    return [size if size > 1 else None for size in _last(rank, target)]


def _last(rank: int, target: Sequence[int]) -> list[int]:
    return [*[1] * rank, *target][len(target) :]


def _convolution(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    weight = node.input(3 if node.is_op("QLinearConv") else 1)
    kernel, group = shape_of(weight), int(node.attr("group", 1))
    if kernel is None or len(kernel) < 3 or group < 1:
        return
    many: Letter = kernel[1] * group if isinstance(kernel[1], int) else ("second" if group == 1 else "many")
    read, made = ("first", many) if node.is_op("ConvTranspose") else (many, "first")
    yield weight, ["first", "second", *_axes(len(kernel) - 2, "kernel")]
    yield node.input(0), ["batch", read, *_axes(len(kernel) - 2)]
    yield node.output(0), ["batch", made, *_made(node, kernel[2:])]


def _pool(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    rank = _rank(shape_of, node.input(0), node.output(0)) - 2
    if rank > 0:
        yield node.input(0), ["batch", "channels", *_axes(rank)]
        sides = [1] * rank if node.op_type.startswith("Global") else _made(node, node.attr("kernel_shape"))
        yield node.output(0), ["batch", "channels", *sides]


def _made(node: ir.Node, kernel: Sequence[KnownDim]) -> list[Letter]:
    """Return the sides that windows make: those they read where one element is for each, which padding may see to."""
    rank = len(kernel)
    ones, mode = [1] * rank, node.attr("auto_pad", "NOTSET")
    pads = node.attr("pads") or [0] * 2 * rank
    added = [0] * rank if mode == "VALID" else [pads[axis] + pads[axis + rank] for axis in range(rank)]
    steps = zip(kernel, node.attr("strides") or ones, node.attr("dilations") or ones, added, strict=True)
    return [
        f"axis {axis}"
        if stride == 1
        and not node.is_op("ConvTranspose")
        and (mode.startswith("SAME") or (isinstance(size, int) and padding == (size - 1) * dilation))
        else f"made {axis}"
        for axis, (size, stride, dilation, padding) in enumerate(steps)
    ]


def _gemm(node: ir.Node, _: DimsOf) -> Iterator[Term]:
    yield node.input(0), "km" if node.attr("transA", 0) else "mk"
    yield node.input(1), "nk" if node.attr("transB", 0) else "kn"
    yield node.output(0), "mn"


def _matmul(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    one, other, made = node.input(0), node.input(3 if node.is_op("QLinearMatMul") else 1), node.output(0)
    left, right = shape_of(one), shape_of(other)
    if left is None and len(right or ()) == 2 and (rank := _rank(shape_of, made)):
        left = [f"left {axis}" for axis in range(rank)]
    if left is None or right is None:
        return
    rank = max(len(left), len(right)) - 2
    first, second = _spread([left[:-2], right[:-2]], rank)
    yield one, [*first, "m", "k"] if len(left) > 1 else ["k"]
    yield other, [*second, "k", "n"] if len(right) > 1 else ["k"]
    yield made, [*_axes(rank), *(["m"] if len(left) > 1 else []), *(["n"] if len(right) > 1 else [])]


def _recurrent(node: ir.Node, _: DimsOf) -> Iterator[Term]:
    is_batch_first, hidden = node.attr("layout", 0), node.attr("hidden_size")
    directions = 2 if node.attr("direction", "forward") == "bidirectional" else 1
    many = {"LSTM": 4, "GRU": 3, "RNN": 1}[node.op_type]
    h, g, twice, third = ("h", "g", "B", "P") if hidden is None else [hidden * n for n in (1, many, 2 * many, 3)]
    yield node.input(0), "bsi" if is_batch_first else "sbi"
    yield node.input(1), [directions, g, "i"]
    yield node.input(2), [directions, g, h]
    yield node.input(3), [directions, twice]
    yield node.input(4), "b"
    yield node.input(7), [directions, third]
    for value in (*node.inputs[5:7], *node.outputs[1:]):
        yield value, ["b", directions, h] if is_batch_first else [directions, "b", h]
    yield node.output(0), ["b", "s", directions, h] if is_batch_first else ["s", directions, "b", h]


def _parts(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    """Yield the letters of parts: all of a Concat or a Split are alike beside the axis."""
    whole, parts, axis = node.output(0), node.inputs, node.attr("axis", 1)
    sizes: Sequence[Letter] = _axes(len(parts), "part")
    if node.is_op("Split"):
        whole, parts, axis, held = node.input(0), node.outputs, node.attr("axis", 0), reference.constant(node.input(1))
        sizes = held.numpy().tolist() if held is not None else node.attr("split", _axes(len(parts), "part"))
    if rank := _rank(shape_of, whole, *parts):
        before, behind = _axes(axis % rank), _axes(rank)[axis % rank + 1 :]
        for value, size in zip((whole, *parts), ("whole", *sizes), strict=True):
            yield value, [*before, size, *behind]


def _transpose(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    letters = _axes(_rank(shape_of, node.input(0), node.output(0)))
    yield node.input(0), letters
    yield node.output(0), [letters[axis] for axis in node.attr("perm", [*reversed(range(len(letters)))])]


def _reshape(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    held = reference.constant(node.input(1))
    target = held.numpy().tolist() if held is not None else node.attr("shape")
    if target is not None and not node.attr("allowzero", 0):
        data = _axes(_rank(shape_of, node.input(0)))
        yield node.input(0), data
        yield node.output(0), [size or data[axis] if size >= 0 else "rest" for axis, size in enumerate(target)]


def _einsum(node: ir.Node, _: DimsOf) -> Iterator[Term]:
    read, _arrow, made = node.attr("equation", "").replace(" ", "").partition("->")
    if made and "." not in read:
        yield from zip((*node.inputs, node.output(0)), (*read.split(","), made), strict=True)


def _loss(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    sides = _axes(_rank(shape_of, node.input(0)) - 2)
    yield node.input(0), ["batch", "classes", *sides]
    yield node.input(1), ["batch", *sides]
    yield node.input(2), ["classes"]


def _regions(node: ir.Node, _: DimsOf) -> Iterator[Term]:
    yield node.input(0), ["batch", "channels", "height", "width"]
    yield node.input(1), ["regions", 4 if node.is_op("RoiAlign") else 5]
    yield node.input(2), ["regions"]
    yield node.output(0), ["regions", "channels", "rows", "columns"]


def _elements(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    """Yield letters: places are of the rank of what they are places in; a GatherElements makes one element of each."""
    rank = _rank(shape_of, node.input(0), node.input(1))
    yield node.input(0), _axes(rank)
    for value in (node.input(1), node.input(2), None if node.input(2) else node.output(0)):
        yield value, _axes(rank, "place")
    if node.input(2):
        yield node.output(0), _axes(rank)


def _scattered(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    """Yield the letters of a scatter: an update is what lies behind a place."""
    rank, places = _rank(shape_of, node.input(0), node.output(0)), shape_of(node.input(1))
    yield node.input(0), _axes(rank)
    yield node.output(0), _axes(rank)
    if rank and places and isinstance(places[-1], int):
        yield node.input(1), [*_axes(len(places) - 1, "place"), places[-1]]
        yield node.input(2), [*_axes(len(places) - 1, "place"), *_axes(rank)[places[-1] :]]


def _grid(node: ir.Node, shape_of: DimsOf) -> Iterator[Term]:
    if (rank := _rank(shape_of, node.input(0), node.input(1)) - 2) > 0:
        yield node.input(0), ["batch", "channels", *_axes(rank, "read")]
        yield node.input(1), ["batch", *_axes(rank, "made"), rank]
        yield node.output(0), ["batch", "channels", *_axes(rank, "made")]


_RULES: Mapping[str, Callable[[ir.Node, DimsOf], Iterator[Term]]] = {
    **dict.fromkeys(KEEPS_SHAPE, _alike),
    **dict.fromkeys(BROADCASTING | {"LayerNormalization", "RMSNormalization"}, _broadcast),
    **dict.fromkeys(["BatchNormalization", "InstanceNormalization", "GroupNormalization"], _per_channel),
    **dict.fromkeys(["QuantizeLinear", "DequantizeLinear"], _quantized),
    **dict.fromkeys(["Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"], _convolution),
    **dict.fromkeys(["MaxPool", "AveragePool", "LpPool"], _pool),
    **dict.fromkeys(["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"], _pool),
    **dict.fromkeys(["MatMul", "MatMulInteger", "QLinearMatMul"], _matmul),
    **dict.fromkeys(["LSTM", "GRU", "RNN"], _recurrent),
    **dict.fromkeys(["Concat", "Split"], _parts),
    **dict.fromkeys(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], _loss),
    **dict.fromkeys(["RoiAlign", "MaxRoiPool"], _regions),
    **dict.fromkeys(["GatherElements", "ScatterElements", "Scatter"], _elements),
    "ScatterND": _scattered,
    "Gemm": _gemm,
    "Expand": _expand,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Einsum": _einsum,
    "GridSample": _grid,
}
