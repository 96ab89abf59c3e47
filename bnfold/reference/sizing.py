"""How the sizes of an operator's results follow from the sizes of what it reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.dispatch import definition
from bnfold.reference.operators import BROADCASTING, KEEPS_SHAPE, REDUCING

SymbolicSize = int | str
"""A number, or a name: sizes of one name are equal in every run."""
Sizes = tuple[SymbolicSize, ...]
Shape = Sizes | None
"""The sizes of a tensor; None if not even the rank is known."""


class DoNotFit(ValueError):
    """The sizes that a node reads fit together in no run."""


class KnownShape(Protocol):
    """What is known of the values that a node reads."""

    def dims(self, value: ir.Value | None) -> Shape:
        """Return the sizes of a value."""

    def items(self, value: ir.Value | None) -> Array | None:
        """Return the integers of a small value, some of them names of sizes."""

    def fresh(self) -> str:
        """Return a new name for an unknown size."""


class _Node:
    """A node, what it reads, and its attributes with their defaults."""

    def __init__(self, node: ir.Node, known: KnownShape) -> None:
        self.node, self.known = node, known
        self.opset = node.graph.opset(node.domain)
        schema = definition(node.domain, node.op_type, self.opset)
        self._defaults = {} if schema is None else schema.defaults

    def dims(self, slot: int) -> Sizes:
        """Return the sizes of an input. Raises ValueError if its rank is unknown."""
        dims = self.known.dims(self.node.input(slot))
        if dims is None:
            raise ValueError("of no known rank")
        return dims

    def items(self, slot: int) -> list[SymbolicSize | None] | None:
        """Return the integers of an input, flat."""
        items = self.known.items(self.node.input(slot))
        return None if items is None else items.reshape(-1).tolist()

    def sizes(self, slot: int) -> Sizes | None:
        """Return the sizes that an input states, with new names for unknown ones."""
        items = self.items(slot)
        return None if items is None else tuple(self.known.fresh() if item is None else item for item in items)

    def has(self, slot: int) -> bool:
        """Whether there is an input."""
        return self.node.input(slot) is not None

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or its default."""
        return self.node.attr(name, self._defaults.get(name, default))

    def ints(self, name: str, slot: int) -> list[int] | None:
        """Return numbers that an attribute states, or an input in later versions; None if they are computed."""
        if self.node.has_attr(name):
            return [int(number) for number in self.attr(name)]
        items = self.items(slot)
        return [item for item in items if isinstance(item, int)] if items is not None and _all_ints(items) else None

    def fresh(self, how_many: int) -> Sizes:
        """Return new names."""
        return tuple(self.known.fresh() for _ in range(how_many))


SizingRule = Callable[[_Node], Sequence[Shape]]
_RULES: dict[str, SizingRule] = {}


def results(node: ir.Node, known: KnownShape) -> Sequence[Shape]:
    """Return the shapes of a node's outputs.

    Raises DoNotFit if no run takes the sizes that it reads, another ValueError, IndexError, TypeError or BnfoldError if
    none follow.
    """
    name = node.op_type if not node.domain else f"{node.domain}:{node.op_type}"
    rule = _RULES.get(name)
    read = _Node(node, known)
    if rule is not None:
        return rule(read)
    if node.has_trait(BROADCASTING):
        return [_broadcast(read)]
    if node.has_trait(KEEPS_SHAPE):
        return [read.dims(0)]
    if node.has_trait(REDUCING):
        return [_reduced(read)]
    return []


def _rule(*names: str) -> Callable[[SizingRule], SizingRule]:
    def register(rule: SizingRule) -> SizingRule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _all_ints(sizes: Iterable[SymbolicSize | None]) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise ValueError("no such axis")
    return axis % rank if rank else 0


def _product(node: _Node, sizes: Sequence[SymbolicSize]) -> SymbolicSize:
    """Return the size of several axes in one."""
    names, number = [size for size in sizes if isinstance(size, str)], _number(sizes)
    if not names or number == 0:
        return number
    return names[0] if len(names) == 1 and number == 1 else node.known.fresh()


def _number(sizes: Iterable[SymbolicSize]) -> int:
    return math.prod(size for size in sizes if isinstance(size, int))


def _together(node: _Node, shapes: Sequence[Sizes]) -> Sizes:
    """Return the shape that shapes are broadcast to."""
    rank = max(map(len, shapes), default=0)
    rows = [(*(1,) * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(_one_size(node, sizes) for sizes in zip(*rows, strict=True))


def _one_size(node: _Node, sizes: Sequence[SymbolicSize]) -> SymbolicSize:
    numbers = {size for size in sizes if isinstance(size, int) and size != 1}
    names = {size for size in sizes if isinstance(size, str)}
    if len(numbers) > 1:
        raise DoNotFit("sizes that do not fit")
    if numbers:
        return numbers.pop()
    if len(names) > 1:
        return node.known.fresh()  # either may be 1
    return names.pop() if names else 1


def _same(sizes: Sequence[SymbolicSize]) -> SymbolicSize:
    """Return the size that these are, which every run needs to be equal."""
    numbers = {size for size in sizes if isinstance(size, int)}
    if len(numbers) > 1:
        raise DoNotFit("sizes that do not fit")
    return numbers.pop() if numbers else sizes[0]


def _broadcast(node: _Node) -> Shape:
    shapes = [node.dims(slot) for slot, value in enumerate(node.node.inputs) if value is not None]
    if node.node.has_attr("broadcast") or node.opset < 7:
        return shapes[0] if len(shapes[0]) >= max(map(len, shapes)) else None  # onto the first one, in old versions
    return _together(node, shapes)


def _reduced(node: _Node) -> Shape:
    dims = node.dims(0)
    axes = node.ints("axes", 1)
    if axes is None and node.has(1):
        return tuple(node.fresh(len(dims))) if node.attr("keepdims", 1) else None
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            return dims
        axes = [*range(len(dims))]
    gone = {_axis(axis, len(dims)) for axis in axes}
    if node.attr("keepdims", 1):
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)


@_rule("ArgMax", "ArgMin")
def _arg(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axis = _axis(node.attr("axis", 0), len(dims))
    return [(*dims[:axis], *([1] if node.attr("keepdims", 1) else []), *dims[axis + 1 :])]


@_rule("Cast", "CastLike", "Identity", "BatchNormalization", "LRN", "Affine", "ImageScaler")
def _kept(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    channels = dims[1:2] if len(dims) > 1 else None
    return [dims, *[channels] * (len(node.node.outputs) - 1)]


@_rule("Dropout")
def _twice(node: _Node) -> Sequence[Shape]:
    return [node.dims(0)] * 2


@_rule("DynamicQuantizeLinear")
def _quantized(node: _Node) -> Sequence[Shape]:
    return [node.dims(0), (), ()]


@_rule("LayerNormalization")
def _normalized(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axis = _axis(node.attr("axis", -1), len(dims))
    return [dims, *[(*dims[:axis], *[1] * (len(dims) - axis))] * 2]


@_rule("Shape")
def _shape(node: _Node) -> Sequence[Shape]:
    dims = node.known.dims(node.node.input(0))
    return [node.fresh(1) if dims is None else (len(dims[slice(node.attr("start", 0), node.attr("end"))]),)]


@_rule("Size")
def _size(_: _Node) -> Sequence[Shape]:
    return [()]


# -- moving


@_rule("Transpose")
def _transposed(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    order = node.attr("perm") or [*reversed(range(len(dims)))]
    if sorted(order) != [*range(len(dims))]:
        raise ValueError("no order of axes")
    return [tuple(dims[axis] for axis in order)]


@_rule("Flatten")
def _flattened(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axis = node.attr("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return [(_product(node, dims[:axis]), _product(node, dims[axis:]))]


@_rule("Reshape")
def _reshaped(node: _Node) -> Sequence[Shape]:
    target: list[SymbolicSize | None] | None = [*node.attr("shape")] if node.node.has_attr("shape") else node.items(1)
    if target is None:
        return [None]
    dims = node.known.dims(node.node.input(0))
    sizes: list[SymbolicSize] = []
    for axis, size in enumerate(target):
        is_copied = size == 0 and not node.attr("allowzero", 0)
        if isinstance(size, int) and size < -1:
            raise ValueError("no such size")
        if size is None or (is_copied and dims is None):
            sizes.append(node.known.fresh())
        else:
            sizes.append(dims[axis] if is_copied and dims is not None else size)
    if -1 in sizes:
        place = sizes.index(-1)
        others = [*sizes[:place], *sizes[place + 1 :]]
        sizes[place] = node.known.fresh() if None in target else _left_over(node, dims, others)
    if dims is not None and _all_ints((*dims, *sizes)) and _number(dims) != _number(sizes):
        raise DoNotFit("other elements than there are")
    return [tuple(sizes)]


def _left_over(node: _Node, dims: Shape, others: Sequence[SymbolicSize]) -> SymbolicSize:
    """Return what the other sizes of a Reshape leave."""
    if dims is None or 0 in others:
        return node.known.fresh()
    names = Counter(size for size in dims if isinstance(size, str))
    used = Counter(size for size in others if isinstance(size, str))
    whole, rest = divmod(_number(dims), _number(others))
    if rest and not names and not used:
        raise DoNotFit("other elements than there are")
    if not used <= names or rest:
        return node.known.fresh()
    left = [*(names - used).elements()]
    return whole if not left else left[0] if len(left) == 1 and whole == 1 else node.known.fresh()


@_rule("Squeeze")
def _squeezed(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axes = node.ints("axes", 1)
    if axes is None:
        if node.has(1) or not _all_ints(dims):
            return [None]
        axes = [axis for axis, dim in enumerate(dims) if dim == 1]
    gone = {_axis(axis, len(dims)) for axis in axes}
    return [tuple(dim for axis, dim in enumerate(dims) if axis not in gone)]


@_rule("Unsqueeze")
def _unsqueezed(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axes = node.ints("axes", 1)
    if axes is None:
        return [None]
    rank = len(dims) + len(axes)
    new, rest = {_axis(axis, rank) for axis in axes}, iter(dims)
    if len(new) < len(axes):
        raise ValueError("an axis stands twice")
    return [tuple(1 if axis in new else next(rest) for axis in range(rank))]


@_rule("Concat")
def _joined(node: _Node) -> Sequence[Shape]:
    shapes = [node.dims(slot) for slot in range(len(node.node.inputs))]
    axis = _axis(node.attr("axis", 1), len(shapes[0]))
    columns = [*zip(*shapes, strict=True)]
    total = columns[axis]
    long = total[0] if len(total) == 1 else _added(node, total)
    return [tuple(long if place == axis else _same(sizes) for place, sizes in enumerate(columns))]


def _added(node: _Node, sizes: Sequence[SymbolicSize]) -> SymbolicSize:
    numbers = [size for size in sizes if isinstance(size, int)]
    return sum(numbers) if len(numbers) == len(sizes) else node.known.fresh()


@_rule("Split")
def _parts(node: _Node) -> Sequence[Shape]:
    dims, many = node.dims(0), len(node.node.outputs)
    axis = _axis(node.attr("axis", 0), len(dims))
    sizes: Sequence[SymbolicSize] | None = node.ints("split", 1)
    if sizes is None:
        size, many = dims[axis], node.attr("num_outputs", many)
        if node.has(1) or not isinstance(size, int):
            sizes = node.fresh(many)
        else:
            each = -(-size // many)
            sizes = [min(each, size - each * place) for place in range(many)]
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]


_END = 2**31 - 1
"""An end from here on stands for the last element; backward, some take it for the first one."""


@_rule("Slice")
def _sliced(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    starts, ends = node.ints("starts", 1), node.ints("ends", 2)
    axes, steps = node.ints("axes", 3), node.ints("steps", 4)
    if (axes is None and node.has(3)) or (starts is None and axes is None and not _is_counted(node, len(dims))):
        return [node.fresh(len(dims))]
    if axes is None:
        axes = [*range(len(starts if starts is not None else dims))]
    sizes = [*dims]
    for place, axis in enumerate(_axis(axis, len(dims)) for axis in axes):
        bounds = [None if each is None else each[place] for each in (starts, ends)]
        step = 1 if not node.has(4) else None if steps is None else steps[place]
        sizes[axis] = _slice_size(node, dims[axis], bounds[0], bounds[1], step)
    return [tuple(sizes)]


def _is_counted(node: _Node, rank: int) -> bool:
    """Whether starts that are computed are known to be as many as there are axes."""
    return node.known.dims(node.node.input(1)) == (rank,)


def _slice_size(node: _Node, size: SymbolicSize, start: int | None, end: int | None, step: int | None) -> SymbolicSize:
    if start is None or end is None or not step:
        return node.known.fresh()
    if isinstance(size, str):
        return size if start == 0 and end >= _END and step == 1 else node.known.fresh()
    if step < 0 and end >= _END:
        return node.known.fresh()
    if step > 0:
        return len(range(*slice(start, end, step).indices(size)))
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    return len(range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step))


@_rule("Gather")
def _gathered(node: _Node) -> Sequence[Shape]:
    dims, places = node.dims(0), node.dims(1)
    axis = _axis(node.attr("axis", 0), len(dims))
    return [(*dims[:axis], *places, *dims[axis + 1 :])]


@_rule("GatherElements")
def _gathered_elements(node: _Node) -> Sequence[Shape]:
    return [node.dims(1)]


@_rule("GatherND")
def _gathered_blocks(node: _Node) -> Sequence[Shape]:
    dims, places, batch = node.dims(0), node.dims(1), node.attr("batch_dims", 0)
    depth = places[-1]
    return [(*places[:-1], *dims[batch + depth :]) if isinstance(depth, int) else None]


@_rule("Expand")
def _expanded(node: _Node) -> Sequence[Shape]:
    target = node.sizes(1)
    return [None if target is None else _together(node, [node.dims(0), target])]


@_rule("Tile")
def _tiled(node: _Node) -> Sequence[Shape]:
    dims, times = node.dims(0), node.sizes(1)
    if times is None or len(node.node.inputs) > 2:
        return [node.fresh(len(dims))]
    return [tuple(_product(node, pair) for pair in zip(dims, times, strict=True))]


@_rule("Pad")
def _padded(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    pads = node.ints("paddings" if node.node.has_attr("paddings") else "pads", 1)
    axes = node.ints("axes", 3) if node.has(3) else [*range(len(dims))]
    if pads is None or axes is None:
        return [node.fresh(len(dims))]
    sizes = [*dims]
    for place, axis in enumerate(axes):
        sizes[axis] = _sum(node, dims[axis], pads[place] + pads[place + len(axes)])
    return [tuple(sizes)]


def _sum(node: _Node, size: SymbolicSize, more: int) -> SymbolicSize:
    if not more:
        return size
    return size + more if isinstance(size, int) else node.known.fresh()


@_rule("DepthToSpace", "SpaceToDepth")
def _blocks(node: _Node) -> Sequence[Shape]:
    batch, *sizes = node.dims(0)
    block = node.attr("blocksize")
    if not _all_ints(sizes):
        return [(batch, *node.fresh(len(sizes)))]
    channels, *space = (size for size in sizes if isinstance(size, int))
    if node.node.is_op("DepthToSpace"):
        return [(batch, channels // block**2, *(size * block for size in space))]
    return [(batch, channels * block**2, *(size // block for size in space))]


# -- making


@_rule("ConstantOfShape")
def _filled(node: _Node) -> Sequence[Shape]:
    return [node.sizes(0)]


@_rule("Range", "NonZero")
def _counted(node: _Node) -> Sequence[Shape]:
    return [node.fresh(1)] if node.node.is_op("Range") else [(len(node.dims(0)), *node.fresh(1))]


@_rule("RandomNormal", "RandomUniform")
def _drawn(node: _Node) -> Sequence[Shape]:
    return [tuple(node.attr("shape"))]


@_rule("RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli")
def _like(node: _Node) -> Sequence[Shape]:
    return [node.dims(0)]


@_rule("OneHot")
def _one_hot(node: _Node) -> Sequence[Shape]:
    dims, depth = node.dims(0), node.sizes(1)
    axis = node.attr("axis", -1)
    axis += len(dims) + 1 if axis < 0 else 0
    size = depth[0] if depth is not None else node.known.fresh()
    return [(*dims[:axis], size, *dims[axis:])]


@_rule("TopK")
def _largest(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axis = _axis(node.attr("axis", -1), len(dims))
    items = (node.attr("k"),) if node.node.has_attr("k") else node.sizes(1)
    size = items[0] if items is not None else node.known.fresh()
    return [(*dims[:axis], size, *dims[axis + 1 :])] * 2


# -- products


@_rule("MatMul", "MatMulInteger")
def _matmul(node: _Node) -> Sequence[Shape]:
    return [_multiplied(node, node.dims(0), node.dims(1))]


@_rule("com.microsoft:FusedMatMul")
def _fused_matmul(node: _Node) -> Sequence[Shape]:
    if node.attr("transBatchA") or node.attr("transBatchB"):
        raise ValueError("it turns stacks")
    turned = zip((node.dims(0), node.dims(1)), (node.attr("transA"), node.attr("transB")), strict=True)
    return [_multiplied(node, *(_turned(dims) if turn else dims for dims, turn in turned))]


def _turned(dims: Sizes) -> Sizes:
    """Return the sizes of a matrix that is transposed. Raises ValueError for a vector."""
    *batch, rows, columns = dims
    return (*batch, columns, rows)


@_rule("QLinearMatMul")
def _quantized_matmul(node: _Node) -> Sequence[Shape]:
    return [_multiplied(node, node.dims(0), node.dims(3))]


def _multiplied(node: _Node, one: Sizes, other: Sizes) -> Sizes:
    if not one or not other:
        raise ValueError("no matrices")
    batch = _together(node, [one[:-2], other[:-2]])
    return (*batch, *one[-2:-1], *(other[-1:] if len(other) > 1 else ()))


@_rule("Gemm")
def _gemm(node: _Node) -> Sequence[Shape]:
    one, other = (node.known.dims(value) or node.fresh(2) for value in node.node.inputs[:2])
    return [(one[1 if node.attr("transA", 0) else 0], other[0 if node.attr("transB", 0) else 1])]


@_rule("Einsum")
def _einsum(node: _Node) -> Sequence[Shape]:
    text = (node.attr("equation") or "").replace(" ", "")
    terms, arrow, made = text.partition("->")
    if not arrow or "." in text:
        return []
    sizes: dict[str, list[SymbolicSize]] = {}
    for slot, letters in enumerate(terms.split(",")):
        for letter, size in zip(letters, node.dims(slot), strict=True):
            sizes.setdefault(letter, []).append(size)
    return [tuple(_one_size(node, sizes[letter]) for letter in made)]


# -- windows


@_rule("Conv", "ConvInteger", "com.microsoft:FusedConv")
def _conv(node: _Node) -> Sequence[Shape]:
    return [_convolved(node, node.known.dims(node.node.input(0)), node.dims(1))]


@_rule("QLinearConv")
def _quantized_conv(node: _Node) -> Sequence[Shape]:
    return [_convolved(node, node.known.dims(node.node.input(0)), node.dims(3))]


def _convolved(node: _Node, dims: Shape, weight: Sizes) -> Sizes:
    """Return the sizes of a convolution; its weight says how many axes there are."""
    if dims is None:
        dims = node.fresh(len(weight))
    if len(dims) != len(weight):
        raise ValueError("no weight of its rank")
    return (dims[0], weight[0], *_windows(node, dims[2:], weight[2:]))


@_rule("MaxPool", "AveragePool", "LpPool")
def _pooled(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    return [(*dims[:2], *_windows(node, dims[2:], node.attr("kernel_shape")))] * len(node.node.outputs)


def _windows(node: _Node, sizes: Sizes, taps: Sequence[SymbolicSize]) -> Sizes:
    """Return how many windows there are along each axis; a new name where runtimes count differently."""
    many, mode = len(sizes), node.attr("auto_pad", "NOTSET")
    strides, dilations = (node.attr(name) or [1] * many for name in ("strides", "dilations"))
    pads = node.attr("pads") or [0] * 2 * many
    is_clear, up = mode in ("NOTSET", "") or not node.node.has_attr("pads"), bool(node.attr("ceil_mode", 0))
    found: list[SymbolicSize] = []
    rows = zip(sizes, taps, strides, dilations, pads[:many], pads[many:], strict=True)
    for size, tap, stride, dilation, first, last in rows:
        if mode.startswith("SAME"):
            is_plain = is_clear and dilation == 1 and (stride == 1 or not up)
            number = -(-size // stride) if isinstance(size, int) else size if stride == 1 else None
        else:
            is_plain = is_clear and isinstance(tap, int) and (not up or mode in ("NOTSET", ""))
            more = first + last - dilation * (tap - 1) if isinstance(tap, int) else 0
            number = _steps(size, more, stride, size + first if up and isinstance(size, int) else None)
        found.append(number if is_plain and number is not None else node.known.fresh())
    return tuple(found)


def _steps(size: SymbolicSize, more: int, stride: int, end: int | None) -> SymbolicSize | None:
    """Return the number of steps; with an ``end`` rounded up, unless the last window begins behind it."""
    if isinstance(size, str):
        return size if stride == 1 and not more else None
    if size + more < 1:
        raise DoNotFit("no window fits")
    steps = (size + more - 1) // stride if end is None else -(-(size + more - 1) // stride)
    return steps + 1 if end is None or steps * stride < end else None


@_rule("ConvTranspose")
def _conv_transposed(node: _Node) -> Sequence[Shape]:
    dims, weight, many = node.dims(0), node.dims(1), len(node.dims(0)) - 2
    channels = weight[1] * node.attr("group", 1) if isinstance(weight[1], int) else node.known.fresh()
    strides, dilations = (node.attr(name) or [1] * many for name in ("strides", "dilations"))
    pads, extra = node.attr("pads") or [0] * 2 * many, node.attr("output_padding") or [0] * many
    sizes: list[SymbolicSize] = []
    rows = zip(dims[2:], weight[2:], strides, dilations, extra, pads[:many], pads[many:], strict=True)
    is_clear = node.attr("auto_pad", "NOTSET") in ("NOTSET", "") and not node.node.has_attr("output_shape")
    for size, tap, stride, dilation, more, first, last in rows:
        if is_clear and isinstance(size, int) and isinstance(tap, int):
            sizes.append(stride * (size - 1) + more + dilation * (tap - 1) + 1 - first - last)
        else:
            grown = stride != 1 or not isinstance(tap, int) or more + dilation * (tap - 1) != first + last
            sizes.append(size if is_clear and not grown else node.known.fresh())
    return [(dims[0], channels, *sizes)]


@_rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _pooled_to_one(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    return [(*dims[:2], *[1] * (len(dims) - 2))]


_EDGE = 2.0**-20
"""Relative; a product this near to an integer may be on its other side in float32."""


@_rule("Resize", "Upsample")
def _resized(node: _Node) -> Sequence[Shape]:
    dims = node.dims(0)
    axes = [_axis(axis, len(dims)) for axis in node.attr("axes") or range(len(dims))]
    sizes: list[SymbolicSize] = [*dims]
    is_late = node.node.is_op("Resize") and node.opset >= 11
    asked = node.sizes(3) if is_late and node.has(3) else None
    stretched = node.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    crops = node.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    factors = _factors(node, 2 if is_late else 1)
    for place, axis in enumerate(axes):
        if asked is not None and stretched and not crops:
            sizes[axis] = asked[place]
        elif factors is not None and not crops:
            sizes[axis] = _scaled(node, dims[axis], factors[place])
        else:
            sizes[axis] = node.known.fresh()
    return [tuple(sizes)]


def _factors(node: _Node, slot: int) -> list[float] | None:
    from bnfold.reference.constants import constant

    if node.node.has_attr("scales"):
        return [float(factor) for factor in node.attr("scales")]
    held = constant(node.node.input(slot))
    return None if held is None or not held.size else [float(factor) for factor in held.float64().reshape(-1)]


def _scaled(node: _Node, size: SymbolicSize, factor: float) -> SymbolicSize:
    if factor == 1:
        return size
    if isinstance(size, str):
        return node.known.fresh()
    product = size * float(np.float32(factor))
    distance = abs(product - round(product))
    return math.floor(product) if not 0 < distance <= product * _EDGE else node.known.fresh()


# -- signals


@_rule("STFT")
def _transformed(node: _Node) -> Sequence[Shape]:
    signal, step = node.dims(0), node.items(1)
    lengths = node.items(3) if node.has(3) else [*node.dims(2)] if node.has(2) else None
    if step is None or lengths is None or signal[2:] == (2,):
        raise ValueError("of no known length")
    (length,), (step_size,) = lengths, step
    if not (isinstance(length, int) and isinstance(step_size, int)):
        return [(signal[0], node.known.fresh(), node.known.fresh(), 2)]
    if isinstance(signal[1], int) and signal[1] < length:
        raise DoNotFit("shorter than a frame")
    frames = (signal[1] - length) // step_size + 1 if isinstance(signal[1], int) else node.known.fresh()
    return [(signal[0], frames, length // 2 + 1 if node.attr("onesided", 1) else length, 2)]


# -- recurrent


@_rule("RNN", "GRU", "LSTM", "com.microsoft:DynamicQuantizeLSTM")
def _recurrent(node: _Node) -> Sequence[Shape]:
    steps, batch, _ = node.dims(0)
    ways = 2 if node.attr("direction", "forward") == "bidirectional" else 1
    hidden: SymbolicSize | None = node.attr("hidden_size")
    if hidden is None:
        hidden = node.dims(2)[2] if not node.node.domain else node.known.fresh()
    if node.attr("layout", 0):
        batch, steps = steps, batch
        return [(batch, steps, ways, hidden), *[(batch, ways, hidden)] * 2]
    return [(steps, ways, batch, hidden), *[(ways, batch, hidden)] * 2]
