"""What each operator does with channels: it passes them on, combines them, makes or reads them with a weight.

An operator that is not here, or has another form, lets none of its inputs' channels go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.evaluators import INTEGERS
from bnfold.channels.activations import NARY, UNARY, product
from bnfold.channels.flow import (
    NOT_FOLLOWED,
    ChannelFlow,
    ChannelRule,
    ConstantOperand,
    Grouped,
    Ids,
    Keeps,
    NotFollowed,
    Track,
    WeightConsumer,
    WeightedLayer,
)
from bnfold.channels.zeros import Weight, integer_weight, weighted_sum
from bnfold.ir.elements import FLOATS, TP, Bools, Float64
from bnfold.ir.value import Dim, Dims
from bnfold.semantics.batchnorm import DEFAULT_EPSILON


def _integers(node: ir.Node, slot: int, attribute: str = "") -> list[int] | None:
    """Return constant integers of an attribute or an input; None without either. Computed ones raise NotFollowed."""
    if attribute and node.has_attr(attribute):
        return [int(number) for number in node.attr(attribute)]
    value = node.input(slot)
    if value is None:
        return None
    tensor = analysis.constant(value)
    if tensor is None or tensor.dtype not in INTEGERS:
        raise NotFollowed(NOT_FOLLOWED)
    return [int(number) for number in tensor.numpy().reshape(-1)]


def _axis(node: ir.Node, name: str, default: int, rank: int) -> int:
    axis = int(node.attr(name, default))
    if not -rank <= axis < rank:
        raise NotFollowed(NOT_FOLLOWED)
    return axis % rank


def _set_integers(node: ir.Node, slot: int, attribute: str, numbers: Sequence[int]) -> None:
    """Write integers where the node has them."""
    if attribute and node.has_attr(attribute):
        node.set_attr(attribute, list(numbers))
        return
    old = node.input(slot)
    kind, hint = np.int64, f"{node.label}_{node.op_type.lower()}"
    if old is not None and (tensor := analysis.constant(old)) is not None:
        kind, hint = tensor.numpy().dtype.type, old.name
    node.set_input(slot, node.graph.add_constant(hint, np.array(numbers, dtype=kind)))


# -- element by element


def _quantize(flow: ChannelFlow, node: ir.Node) -> None:
    """Follow a QuantizeLinear or DequantizeLinear with one scale, or one for each channel."""
    track = flow.track(node.input(0))
    scale, zero = (analysis.constant(node.input(slot)) for slot in (1, 2))
    if scale is None or (node.input(2) is not None and zero is None) or node.attr("block_size", 0):
        raise NotFollowed(NOT_FOLLOWED)
    step, centre = scale.float64(), zero.float64() if zero is not None else np.zeros(())
    if scale.size > 1:
        if track.axes != (_axis(node, "axis", 1, len(flow.dims(node.input(0)))),):
            raise NotFollowed(NOT_FOLLOWED)
        for slot, value in ((1, node.input(1)), (2, node.input(2))):
            if value is not None:
                flow.vector(node, slot, track.ids)
    else:
        step, centre = step.reshape(()), centre.reshape(())
    if node.is_op("DequantizeLinear"):
        constant = (track.constant - centre) * step
    else:
        constant = _rounded(track.constant / step, centre, flow.dtype(node.output(0)))
    flow.make(node.output(0), track._replace(constant=constant))


def _rounded(numbers: Float64, centre: Float64, dtype: int) -> Float64:
    """Return integers; NaN for a number half way between two, which some runtimes round otherwise."""
    is_near = np.abs(numbers - np.floor(numbers) - 0.5) < _HALF
    limits = _RANGES.get(dtype, (np.nan, np.nan))
    return np.where(is_near, np.nan, np.clip(np.rint(numbers) + centre, *limits))


_HALF = 1e-3
_RANGES: dict[int, tuple[float, float]] = {
    TP.INT8: (-128, 127), TP.UINT8: (0, 255), TP.INT16: (-(1 << 15), (1 << 15) - 1), TP.UINT16: (0, (1 << 16) - 1),
}  # fmt: skip


def _unary(flow: ChannelFlow, node: ir.Node) -> None:
    if any(value is not None for value in node.outputs[1:]) or (node.is_op("Dropout") and not _is_idle(node)):
        raise NotFollowed(NOT_FOLLOWED)
    track = flow.track(node.input(0))
    function = UNARY[node.op_type](node)
    with np.errstate(all="ignore"):
        constant = function(track.constant)
    if node.is_op("Cast") and not {flow.dtype(node.input(0)), flow.dtype(node.output(0))} <= FLOATS:
        constant = np.full_like(constant, np.nan)
    flow.make(node.output(0), track._replace(constant=constant))


def _is_idle(node: ir.Node) -> bool:
    """Whether a Dropout is not in training mode."""
    mode = analysis.constant(node.input(2)) if node.input(2) is not None else None
    return node.input(2) is None or (mode is not None and not mode.numpy().any())


def _clip(flow: ChannelFlow, node: ir.Node) -> None:
    track = flow.track(node.input(0))
    constant = track.constant
    for slot, name, cut in ((1, "min", np.fmax), (2, "max", np.fmin)):
        bound = node.input(slot)
        limit = float(node.attr(name)) if node.has_attr(name) else None
        if bound is not None:
            tensor = analysis.constant(bound)
            if bound in flow.tracks or (tensor is not None and tensor.size != 1):
                raise NotFollowed(NOT_FOLLOWED)
            limit = float(tensor.float64().reshape(())) if tensor is not None else math.nan
        if limit is not None:
            constant = np.where(np.isnan(constant) | np.isnan(limit), np.nan, cut(constant, limit))
    flow.make(node.output(0), track._replace(constant=constant))


def _nary(flow: ChannelFlow, node: ir.Node) -> None:
    """Combine operands, whose channels go together."""
    if any(value is None for value in node.inputs):
        raise NotFollowed(NOT_FOLLOWED)
    made = node.output(0)
    dims = flow.dims(made)
    tracks = _operand_tracks(flow, node, dims)
    first = next(iter(tracks.values()), None)
    if first is None or any(track.axes != first.axes for track in tracks.values()):
        raise NotFollowed(NOT_FOLLOWED)
    axes, ids = first.axes, first.ids
    constants: list[Float64] = []
    for slot, value in enumerate(node.inputs):
        if slot in tracks:
            flow.link(ids, tracks[slot].ids)
            constants.append(tracks[slot].constant)
        elif analysis.constant(value) is not None:
            constants.append(flow.spread(node, slot, axes, ids, len(dims)))
        else:
            own = (1,) * (len(dims) - len(flow.dims(value))) + flow.dims(value)
            if any(own[axis] != 1 for axis in axes):
                flow.blocked.append(ids.reshape(-1))  # other channels, and nothing is known of them
            constants.append(np.full(ids.shape, np.nan))
    with np.errstate(all="ignore"):
        constant = NARY[node.op_type](*constants)
    flow.make(made, Track(axes, ids, np.broadcast_to(constant, ids.shape)))
    for slot, track in tracks.items():
        others = [flow.dims(value) for other, value in enumerate(node.inputs) if other != slot]
        dtype = flow.dtype(node.inputs[slot])
        if dtype and track.is_constant and len(axes) == 1 and _broadcasts(node, slot) and _makes(others, dims):
            flow.operands.append(ConstantOperand(node, slot, track, len(dims), dtype))


def _operand_tracks(flow: ChannelFlow, node: ir.Node, dims: Dims) -> dict[int, Track]:
    """Return the channels of operands by slot, along the axes of the result, of ``dims``."""
    found: dict[int, Track] = {}
    for slot, value in enumerate(node.inputs):
        track = flow.tracks.get(value) if value is not None else None
        if track is None:
            continue
        shift = len(dims) - len(flow.dims(value))
        axes = tuple(axis + shift for axis in track.axes)
        if track.ids.size == 1:  # one number for all channels
            flow.block(value)
        elif any(dims[axis] != size for axis, size in zip(axes, track.ids.shape, strict=True)):
            raise NotFollowed(NOT_FOLLOWED)
        else:
            found[slot] = track._replace(axes=axes)
    return found


_VARIADIC, _VARIADIC_BROADCASTS = ("Max", "Mean", "Min", "Sum"), 8
"""Operators of any number of operands, and the opset since which these may have several shapes."""


def _broadcasts(node: ir.Node, slot: int) -> bool:
    """Whether an operand of a node may have a smaller shape than the result."""
    if node.is_op("PRelu"):
        return slot == 1
    return not node.is_op(*_VARIADIC) or node.graph.opset() >= _VARIADIC_BROADCASTS


def _makes(shapes: Sequence[Dims], dims: Dims) -> bool:
    """Whether operands of these shapes alone are broadcast to these dims."""
    return None not in dims and any(shape == dims for shape in shapes)


def _batchnorm(flow: ChannelFlow, node: ir.Node) -> None:
    if node.graph.opset() < 9 or any(value is not None for value in node.outputs[1:]) or node.attr("training_mode", 0):
        raise NotFollowed(NOT_FOLLOWED)
    track = _only_axis(flow, node, 1)
    scale, bias, mean, variance = (flow.vector(node, slot, track.ids) for slot in (1, 2, 3, 4))
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + float(node.attr("epsilon", DEFAULT_EPSILON)))
        constant = product(track.constant - mean, factor) + bias
    flow.make(node.output(0), track._replace(constant=constant))


def _instancenorm(flow: ChannelFlow, node: ir.Node) -> None:
    track = _only_axis(flow, node, 1)
    scale, bias = (flow.vector(node, slot, track.ids) for slot in (1, 2))
    flow.make(node.output(0), track._replace(constant=np.where(scale == 0, bias, np.nan)))


def _only_axis(flow: ChannelFlow, node: ir.Node, axis: int, slot: int = 0) -> Track:
    """Return the channels of an input along one axis. Raises NotFollowed if they lie elsewhere."""
    value = node.input(slot)
    track = flow.track(value)
    if track.axes == (axis,):
        return track
    size = flow.dims(value)[axis]
    if not isinstance(size, int):
        raise NotFollowed(NOT_FOLLOWED)
    return flow.collapsed(value, axis, size)


# -- windows and spatial operators


def _is_padded(node: ir.Node, window: Sequence[int]) -> bool:
    mode = node.attr("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID"):
        return any(size != 1 for size in window)
    return mode == "NOTSET" and any(node.attr("pads") or ())


def _pool(flow: ChannelFlow, node: ir.Node) -> None:
    if any(value is not None for value in node.outputs[1:]):
        raise NotFollowed(NOT_FOLLOWED)
    track = _only_axis(flow, node, 1)
    constant = track.constant
    if node.is_op("AveragePool"):
        window = node.attr("kernel_shape")
        counts = node.attr("count_include_pad", 0) and (_is_padded(node, window) or node.attr("ceil_mode", 0))
        constant = np.where((constant == 0) | (not counts), constant, np.nan)
    flow.make(node.output(0), track._replace(constant=constant))


def _resize(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    rank = len(flow.dims(value))
    track = flow.track(value)
    before, after = flow.dims(value), flow.dims(node.output(0))
    extrapolates = node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    is_old = node.is_op("Upsample") or node.graph.opset() < 11
    slot = None if is_old else 3
    scales = analysis.constant(node.input(1 if is_old else 2))
    named = node.attr("axes")
    places = [int(axis) % rank for axis in named] if named else list(range(rank))
    sizes = _integers(node, slot) if slot is not None and node.input(slot) is not None else None
    if sizes is None:
        numbers = (
            node.attr("scales")
            if node.has_attr("scales")
            else scales.float64().tolist()
            if scales is not None
            else None
        )
        if numbers is None or len(numbers) != len(places):
            raise NotFollowed(NOT_FOLLOWED)
        if any(number != 1 for axis, number in zip(places, numbers, strict=True) if axis in track.axes):
            raise NotFollowed(NOT_FOLLOWED)
    elif node.attr("keep_aspect_ratio_policy", "stretch") != "stretch" or len(sizes) != len(places):
        raise NotFollowed(NOT_FOLLOWED)
    if any(before[axis] != after[axis] for axis in track.axes):
        raise NotFollowed(NOT_FOLLOWED)
    # Beyond the borders another number may be put.
    flow.make(node.output(0), track._replace(constant=np.where(extrapolates, np.nan, track.constant)))
    if sizes is not None and any(axis in track.axes for axis in places):
        flow.edits.append(partial(_edit_counts, node, 3, "", track, places))


def _edit_counts(node: ir.Node, slot: int, attribute: str, track: Track, places: Sequence[int], keeps: Keeps) -> None:
    """Write new sizes along the axes of a track; ``places`` are the axes that the integers are about."""
    numbers = _integers(node, slot, attribute)
    assert numbers is not None, "they were read"
    left = kept_along(track, keeps)
    fresh = [left[track.axes.index(axis)].size if axis in track.axes and old > 0 else old
             for axis, old in zip(places, numbers, strict=True)]  # fmt: skip
    if fresh != numbers:
        _set_integers(node, slot, attribute, fresh)


def kept_along(track: Track, keeps: Keeps) -> list[Ids]:
    """Return the places that stay along each axis of a track, whose channels that stay form a grid."""
    mask = keeps(track.ids)
    axes = range(mask.ndim)
    return [np.flatnonzero(mask.any(tuple(other for other in axes if other != axis))) for axis in axes]


def _pad(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    rank, track = len(flow.dims(value)), flow.track(value)
    if node.graph.opset() < 2 or node.input(3) is not None:
        raise NotFollowed(NOT_FOLLOWED)
    pads = _integers(node, 1, "pads")
    if pads is None or len(pads) != 2 * rank or any(pads[axis] or pads[axis + rank] for axis in track.axes):
        raise NotFollowed(NOT_FOLLOWED)
    constant = track.constant
    if node.attr("mode", "constant") == "constant" and any(pads):
        fill = float(node.attr("value", 0.0))
        if node.input(2) is not None:
            tensor = analysis.constant(node.input(2))
            fill = float(tensor.float64().reshape(())) if tensor is not None else math.nan
        constant = np.where(constant == fill, constant, np.nan)
    flow.make(node.output(0), track._replace(constant=constant))


def _reduction(flow: ChannelFlow, node: ir.Node) -> None:
    """Pass the channels of a reduction over other axes; a mean or an extreme of one number is that number."""
    value = node.input(0)
    rank, track = len(flow.dims(value)), flow.track(value)
    axes = _integers(node, 1, "axes")
    if not axes:
        raise NotFollowed(NOT_FOLLOWED)
    gone = {axis % rank for axis in axes}
    if not gone.isdisjoint(track.axes):
        raise NotFollowed(NOT_FOLLOWED)
    keeps = node.attr("keepdims", 1)
    moved = tuple(axis if keeps else axis - sum(other < axis for other in gone) for axis in track.axes)
    keeps_numbers = node.is_op("ReduceMean", "ReduceMax", "ReduceMin")
    constant = np.where((track.constant == 0) | keeps_numbers, track.constant, np.nan)
    flow.make(node.output(0), Track(moved, track.ids, constant))


# -- what moves elements


def _concat(flow: ChannelFlow, node: ir.Node) -> None:
    made = node.output(0)
    dims = flow.dims(made)
    axis = _axis(node, "axis", 1, len(dims))
    tracks = [flow.tracks.get(value) if value is not None else None for value in node.inputs]
    axes = next((track.axes for track in tracks if track is not None), None)
    if axes is None:
        raise NotFollowed(NOT_FOLLOWED)
    if axis not in axes:
        _stack(flow, made, [track for track in tracks if track is not None and track.axes == axes], len(tracks))
        return
    if axes != (axis,):
        raise NotFollowed(NOT_FOLLOWED)
    parts: list[Track] = []
    for slot, (value, track) in enumerate(zip(node.inputs, tracks, strict=True)):
        size = flow.dims(value)[axis]
        if not isinstance(size, int) or (track is not None and track.axes != axes):
            raise NotFollowed(NOT_FOLLOWED)
        if track is None and analysis.constant(value) is not None:
            ids = flow.fresh((size,))
            parts.append(Track(axes, ids, flow.spread(node, slot, axes, ids, len(dims))))
        else:
            parts.append(flow.fixed(size) if track is None else track)
    ids, constant = np.concatenate([part.ids for part in parts]), np.concatenate([part.constant for part in parts])
    flow.make(made, Track(axes, ids, constant))
    flow.edits.append(partial(_edit_concat, node, parts))


def _stack(flow: ChannelFlow, made: ir.Value | None, tracks: Sequence[Track], count: int) -> None:
    """Put values beside each other along another axis than that of their channels, which go together."""
    if len(tracks) < count:
        raise NotFollowed(NOT_FOLLOWED)
    first = tracks[0]
    for track in tracks[1:]:
        flow.link(first.ids, track.ids)
    same = np.all([track.constant == first.constant for track in tracks], axis=0)
    flow.make(made, first._replace(constant=np.where(same, first.constant, np.nan)))


def _edit_concat(node: ir.Node, parts: Sequence[Track], keeps: Keeps) -> None:
    """Leave out operands that lose all their channels."""
    left = [value for value, part in zip(node.inputs, parts, strict=True) if keeps(part.ids).any()]
    if len(left) < len(node.inputs):
        node.set_inputs(left)


def _split(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    track = flow.track(value)
    dims = flow.dims(value)
    axis = _axis(node, "axis", 0, len(dims))
    if axis not in track.axes:
        for made in node.outputs:
            flow.make(made, track)
        return
    sizes = [flow.dims(made)[axis] for made in node.outputs]
    known = [size for size in sizes if isinstance(size, int)]
    if track.axes != (axis,) or len(known) != len(sizes) or sum(known) != track.ids.size:
        raise NotFollowed(NOT_FOLLOWED)
    if node.input(1) is not None:
        _integers(node, 1)
    ends = np.cumsum([0, *known]).tolist()
    parts = [Track(track.axes, track.ids[start:end], track.constant[start:end]) for start, end in pairwise(ends)]
    for made, part in zip(node.outputs, parts, strict=True):
        flow.make(made, part)
    flow.edits.append(partial(_edit_split, node, parts))


_SPLIT_INPUT, _SPLIT_COUNT = 13, 18
"""The opsets since which the sizes of a Split are an input, and since which their number is an attribute."""


def _edit_split(node: ir.Node, parts: Sequence[Track], keeps: Keeps) -> None:
    sizes = [int(keeps(part.ids).sum()) for part in parts]
    if sizes == [part.ids.size for part in parts]:
        return
    for slot in reversed(range(len(sizes))):
        if not sizes[slot]:
            node.drop_output(slot)
    sizes = [size for size in sizes if size]
    if node.graph.opset() < _SPLIT_INPUT:
        node.set_attr("split", sizes)
        return
    node.del_attr("num_outputs")
    _set_integers(node, 1, "", sizes)


def _slice(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    track, dims = flow.track(value), flow.dims(value)
    starts, ends = _integers(node, 1, "starts"), _integers(node, 2, "ends")
    if starts is None or ends is None:
        raise NotFollowed(NOT_FOLLOWED)
    axes = _integers(node, 3, "axes")
    steps = _integers(node, 4) if node.input(4) is not None else None
    places = [axis % len(dims) for axis in axes] if axes is not None else list(range(len(starts)))
    if len({*places}) < len(places):
        raise NotFollowed(NOT_FOLLOWED)
    ids, constant = track.ids, track.constant
    for index, axis in enumerate(places):
        if axis not in track.axes:
            continue
        place = track.axes.index(axis)
        size = track.ids.shape[place]
        start, end, _ = slice(starts[index], ends[index]).indices(size)
        if (steps is not None and steps[index] != 1) or start >= end:
            raise NotFollowed(NOT_FOLLOWED)
        cut = (*[slice(None)] * place, slice(start, end))
        ids, constant = ids[cut], constant[cut]
    flow.make(node.output(0), Track(track.axes, ids, constant))
    if any(axis in track.axes for axis in places):
        flow.edits.append(partial(_edit_slice, node, track, places))


def _edit_slice(node: ir.Node, track: Track, places: Sequence[int], keeps: Keeps) -> None:
    starts, ends = _integers(node, 1, "starts"), _integers(node, 2, "ends")
    assert starts is not None, "they were read"
    assert ends is not None, "they were read"
    if keeps(track.ids).all():
        return
    left, fresh = kept_along(track, keeps), ([*starts], [*ends])
    for index, axis in enumerate(places):
        if axis in track.axes:
            kept = left[track.axes.index(axis)]
            start, end, _ = slice(starts[index], ends[index]).indices(track.ids.shape[track.axes.index(axis)])
            fresh[0][index], fresh[1][index] = int((kept < start).sum()), int((kept < end).sum())
    if fresh[0] != starts:
        _set_integers(node, 1, "starts", fresh[0])
    if fresh[1] != ends:
        _set_integers(node, 2, "ends", fresh[1])


def _gather(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    track, dims = flow.track(value), flow.dims(value)
    axis = _axis(node, "axis", 0, len(dims))
    indices = analysis.constant(node.input(1))
    if indices is None or len(indices.dims) != 1:
        raise NotFollowed(NOT_FOLLOWED)
    if axis not in track.axes:
        flow.make(node.output(0), track)
        return
    if track.axes != (axis,):
        raise NotFollowed(NOT_FOLLOWED)
    places = indices.numpy().astype(np.int64)
    if places.size == 0 or (places < -track.ids.size).any():
        raise NotFollowed(NOT_FOLLOWED)
    places = np.where(places < 0, places + track.ids.size, places)
    part = Track(track.axes, track.ids[places], track.constant[places])
    flow.make(node.output(0), part)
    flow.edits.append(partial(_edit_gather, node, track, places))


def _edit_gather(node: ir.Node, track: Track, places: Ids, keeps: Keeps) -> None:
    mask = keeps(track.ids)
    numbers = np.cumsum(mask) - 1
    kept = places[mask[places]]
    if not mask.all():
        _set_integers(node, 1, "", numbers[kept].tolist())


def _transpose(flow: ChannelFlow, node: ir.Node) -> None:
    value = node.input(0)
    track, rank = flow.track(value), len(flow.dims(value))
    order = [int(axis) for axis in node.attr("perm") or range(rank - 1, -1, -1)]
    if sorted(order) != list(range(rank)):
        raise NotFollowed(NOT_FOLLOWED)
    new = [order.index(axis) for axis in track.axes]
    by_place = sorted(range(len(new)), key=new.__getitem__)
    ids, constant = track.ids.transpose(by_place), track.constant.transpose(by_place)
    flow.make(node.output(0), Track(tuple(sorted(new)), ids, constant))


def _reshape(flow: ChannelFlow, node: ir.Node) -> None:
    """Follow channels through a Reshape, Flatten, Squeeze or Unsqueeze, by the sizes in front of and behind it."""
    value, made = node.input(0), node.output(0)
    track, before, after = flow.track(value), flow.dims(value), flow.dims(made)
    if node.is_op("Reshape") and _integers(node, 1, "shape") is None:
        raise NotFollowed(NOT_FOLLOWED)
    found = _through(track, before, after)
    flow.make(made, found)
    if node.is_op("Reshape"):
        flow.edits.append(partial(_edit_target, node, track, found, after))


def _edit_target(node: ir.Node, source: Track, made: Track, dims: Dims, keeps: Keeps) -> None:
    """Write the sizes that a Reshape makes now: counts of channels, and those that it copies from such a count."""
    numbers = _integers(node, 1, "shape")
    assert numbers is not None, "they were read"
    if keeps(made.ids).all():
        return
    left = dict(zip(made.axes, kept_along(made, keeps), strict=True))
    is_copied = [size == 0 and axis in source.axes for axis, size in enumerate(numbers)]
    fresh = [
        left[axis].size if axis in left and size >= 0 else dims[axis] if is_copied[axis] else size
        for axis, size in enumerate(numbers)
    ]
    _set_integers(node, 1, "shape", [size for size in fresh if isinstance(size, int)])


def _through(track: Track, before: Dims, after: Dims) -> Track:
    """Return the channels behind a reshape. Raises NotFollowed where they are mixed with sizes that are not known."""
    axes: list[int] = []
    ids, constant = track.ids, track.constant
    done = 0
    for old, new in _blocks(before, after):
        own = [axis for axis in track.axes if axis in old]
        if not own:
            continue
        sizes, targets = _static(before[axis] for axis in old), _static(after[axis] for axis in new)
        # Blow up to all axes of the block, then give it the new ones.
        lead, tail = ids.shape[:done], ids.shape[done + len(own) :]
        shape = [size if axis in own else 1 for axis, size in zip(old, sizes, strict=True)]
        ones, full, reshaped = (*lead, *shape, *tail), (*lead, *sizes, *tail), (*lead, *targets, *tail)
        ids = np.broadcast_to(ids.reshape(ones), full).reshape(reshaped)
        constant = np.broadcast_to(constant.reshape(ones), full).reshape(reshaped)
        axes += new
        done += len(new)
    if not axes:
        raise NotFollowed(NOT_FOLLOWED)
    return _varying(Track(tuple(axes), ids, constant))


def _static(sizes: Iterable[Dim]) -> list[int]:
    """Return sizes that are numbers. Raises NotFollowed for others."""
    known = [*sizes]
    numbers = [size for size in known if isinstance(size, int)]
    if len(numbers) < len(known):
        raise NotFollowed(NOT_FOLLOWED)
    return numbers


def _varying(track: Track) -> Track:
    """Leave out axes along which all channels are the same."""
    axes, ids, constant = list(track.axes), track.ids, track.constant
    for place in reversed(range(len(axes))):
        if len(axes) == 1:
            break
        if (ids == ids.take([0], place)).all():
            first = constant.take([0], place)
            same = (constant == first) | (np.isnan(constant) & np.isnan(first))
            if same.all():
                ids, constant = ids.take([0], place).squeeze(place), first.squeeze(place)
                del axes[place]
    return Track(tuple(axes), ids, constant)


def _blocks(before: Dims, after: Dims) -> list[tuple[list[int], list[int]]]:
    """Return which axes of the one shape become which of the other. Raises NotFollowed where sizes do not tell."""
    blocks: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after) and before[i] == after[j] and before[i] is not None:
        blocks.append(([i], [j]))
        i, j = i + 1, j + 1
    tail: list[tuple[list[int], list[int]]] = []
    end, stop = len(before), len(after)
    while end > i and stop > j and before[end - 1] == after[stop - 1] and before[end - 1] is not None:
        end, stop = end - 1, stop - 1
        tail.insert(0, ([end], [stop]))
    if not all(isinstance(size, int) for size in (*before[i:end], *after[j:stop])):
        return [*blocks, (list(range(i, end)), list(range(j, stop))), *tail]
    while i < end or j < stop:
        sizes, targets = [*before[i : min(i + 1, end)]], [*after[j : min(j + 1, stop)]]
        while _product(sizes) != _product(targets) or not sizes or not targets:
            if i + len(sizes) >= end and j + len(targets) >= stop:
                break
            few = _product(sizes) < _product(targets)
            if (few and i + len(sizes) < end) or j + len(targets) >= stop:
                sizes.append(before[i + len(sizes)])
            else:
                targets.append(after[j + len(targets)])
        old, new = list(range(i, i + len(sizes))), list(range(j, j + len(targets)))
        i, j = i + len(sizes), j + len(targets)
        blocks.append((old, new))
    return [*blocks, *tail]


def _product(sizes: Sequence[Dim]) -> int:
    return math.prod(size for size in sizes if isinstance(size, int))


def _shape(flow: ChannelFlow, node: ir.Node) -> None:
    """Let the sizes of other axes be asked for."""
    value = node.input(0)
    track, rank = flow.track(value), len(flow.dims(value))
    start, end, _ = slice(int(node.attr("start", 0)), int(node.attr("end", rank))).indices(rank)
    told = list(range(start, end))
    made = node.output(0)
    if made is None or made.is_output:
        raise NotFollowed(NOT_FOLLOWED)
    for consumer, slot in made.uses:
        if consumer.is_op("Gather") and slot == 0 and consumer.graph is node.graph:
            indices = analysis.constant(consumer.input(1))
            asked = [] if indices is None else [told[int(each)] for each in indices.numpy().reshape(-1)]
            if indices is None or any(axis in track.axes for axis in asked):
                raise NotFollowed(NOT_FOLLOWED)
        elif not any(axis in track.axes for axis in told):
            continue
        else:
            raise NotFollowed(NOT_FOLLOWED)


def _depth_to_space(flow: ChannelFlow, node: ir.Node) -> None:
    track = _only_axis(flow, node, 1)
    squared = int(node.attr("blocksize")) ** 2
    if node.is_op("SpaceToDepth"):
        flow.make(node.output(0), Track((1,), np.tile(track.ids, squared), np.tile(track.constant, squared)))
        return
    order = (squared, -1) if node.attr("mode", "DCR") == "DCR" else (-1, squared)
    ids, constant = track.ids.reshape(order), track.constant.reshape(order)
    if order[0] == -1:
        ids, constant = ids.T, constant.T
    for line in ids[1:]:
        flow.link(ids[0], line)
    same = (constant == constant[0]).all(0)
    flow.make(node.output(0), Track((1,), ids[0], np.where(same, constant[0], np.nan)))


# -- weights


def _conv(flow: ChannelFlow, node: ir.Node) -> None:
    weight = flow.weight(node, 1)
    if len(weight.dims) < 3 or len(node.outputs) != 1:
        raise NotFollowed(NOT_FOLLOWED)
    padded = _is_padded(node, weight.dims[2:])
    _convolve(flow, node, weight, padded=padded)


def _convolve(flow: ChannelFlow, node: ir.Node, weight: Weight, *, padded: bool) -> None:
    group = int(node.attr("group", 1))
    filters, inner = weight.dims[:2]
    if group < 1 or filters % group or len(node.outputs) != 1:
        raise NotFollowed(NOT_FOLLOWED)
    read = flow.collapsed(node.input(0), 1, group * inner)
    made = flow.fresh((filters,))
    bias = flow.vector(node, 2, made) if node.input(2) is not None else np.zeros(filters)
    constant = np.where(flow.zero(node, 1, 0, weight), bias, np.nan)
    takes = (read.constant == 0) | (not padded)
    if group == 1:
        flow.parameter(node, 1, {0: made, 1: read.ids})
        zero = flow.zero(node, 1, 1, weight)
        consumer = WeightConsumer(node, read.ids, read.constant, _absorbed(node, 1, read.constant))
        flow.read(consumer, zero, takes)
        constant = _unless_constant(constant, bias, consumer, takes)
    elif inner == 1:
        flow.parameter(node, 1, {0: made})
        each = np.repeat(np.arange(group), filters // group)
        flow.link(made, read.ids[each])
        known = takes[each] & ~np.isnan(read.constant[each])
        if known.any():
            sums = weighted_sum(_numbers(node), 1, np.ones(1))
            constant = np.where(known & np.isnan(constant), product(read.constant[each], sums) + bias, constant)
        flow.edits.append(partial(_edit_group, node, read.ids))
    else:
        by_group, rows = read.ids.reshape(group, inner), made.reshape(group, -1)
        flow.grouped.append(Grouped(node, 1, rows, by_group))
        flow.even.append(by_group)
        zero = _zero_by_group(weight, group)
        absorb = partial(_absorbed_by_group, _numbers(node), group, read.constant)
        consumer = WeightConsumer(node, read.ids, read.constant, absorb)
        flow.read(consumer, zero, takes)
        constant = _unless_constant(constant, bias, consumer, takes)
    flow.layers.append(WeightedLayer(node, made.reshape(1 if inner == 1 else group, -1)))
    flow.make(node.output(0), Track((1,), made, constant))


def _qlinear_conv(flow: ChannelFlow, node: ir.Node) -> None:
    """Follow a convolution of integers; a channel at the zero point of its input is as good as 0."""
    weight = integer_weight(node)
    if weight is None or len(weight.dims) < 3 or len(node.outputs) != 1:
        raise NotFollowed(NOT_FOLLOWED)
    group, (filters, inner) = int(node.attr("group", 1)), weight.dims[:2]
    if group > 1 and (inner != 1 or filters % group):
        raise NotFollowed(NOT_FOLLOWED)
    factors = [analysis.constant(node.input(slot)) for slot in (1, 2, 4, 6, 7)]
    in_scale, in_zero, scale, out_scale, out_zero = (each.float64() for each in factors if each is not None)
    made, read = flow.fresh((filters,)), flow.collapsed(node.input(0), 1, group * inner)
    for slot in (4, 5):
        if math.prod(_static(flow.dims(node.input(slot)))) > 1:
            flow.vector(node, slot, made)
    bias = flow.vector(node, 8, made) if node.input(8) is not None else np.zeros(filters)
    numbers = bias * in_scale.reshape(()) * scale.reshape(-1) / out_scale.reshape(())
    constant = _rounded(numbers, out_zero.reshape(()), flow.dtype(node.output(0)))
    differences = ir.Exact(TP.DOUBLE, weight.above_centre(weight.tensor.numpy(), 0).astype(np.float64))
    if group == 1:
        above = read.constant - in_zero.reshape(())
        flow.parameter(node, 3, {0: made, 1: read.ids})
        takes = (above == 0) | (not _is_padded(node, weight.dims[2:]))
        absorb = partial(_sum, differences, 1, above)
        flow.read(WeightConsumer(node, read.ids, above, absorb), flow.zero(node, 3, 1, weight), takes)
    else:
        flow.parameter(node, 3, {0: made})
        flow.link(made, read.ids[np.repeat(np.arange(group), filters // group)])
        flow.edits.append(partial(_edit_group, node, read.ids))
    dead = flow.zero(node, 3, 0, weight)
    flow.layers.append(WeightedLayer(node, made.reshape(1, -1)))
    flow.make(node.output(0), Track((1,), made, np.where(dead, constant, np.nan)))


def _edit_group(node: ir.Node, read: Ids, keeps: Keeps) -> None:
    kept = int(keeps(read).sum())
    if kept != read.size:
        node.set_attr("group", kept)


def _absorbed(node: ir.Node, axis: int, constant: Float64) -> partial[Float64]:
    return partial(_sum, _numbers(node), axis, constant)


def _numbers(node: ir.Node) -> ir.Tensor:
    """Return the weight of a layer, dequantized if it is quantized."""
    tensor = analysis.constant(node.input(1))
    if tensor is None:
        raise NotFollowed(NOT_FOLLOWED)
    return tensor


def _sum(tensor: ir.Tensor, axis: int, constant: Float64, gone: Bools) -> Float64:
    return weighted_sum(tensor, axis, np.where(gone & ~np.isnan(constant), constant, 0.0))


def _zero_by_group(weight: Weight, group: int) -> Bools:
    """Return which input channels a convolution of several groups multiplies by 0."""
    values = weight.above_centre(weight.tensor.numpy(), 0)
    blocks = values.reshape(group, -1, *values.shape[1:])
    others = (1, *range(3, blocks.ndim))
    return np.asarray((blocks == 0).all(others).reshape(-1))


def _absorbed_by_group(weight: ir.Tensor, group: int, constant: Float64, gone: Bools) -> Float64:
    values = weight.float64()
    blocks = values.reshape(group, values.shape[0] // group, values.shape[1], -1).sum(-1)
    factors = np.where(gone & ~np.isnan(constant), constant, 0.0).reshape(group, -1)
    return np.asarray(np.einsum("gok,gk->go", blocks, factors).reshape(-1))


def _conv_transpose(flow: ChannelFlow, node: ir.Node) -> None:
    weight = flow.weight(node, 1)
    if len(weight.dims) < 3 or len(node.outputs) != 1:
        raise NotFollowed(NOT_FOLLOWED)
    group, (inner, per_group) = int(node.attr("group", 1)), weight.dims[:2]
    made = flow.fresh((group * per_group,))
    read = flow.collapsed(node.input(0), 1, inner)
    bias = flow.vector(node, 2, made) if node.input(2) is not None else np.zeros(made.size)
    takes = read.constant == 0
    if group == 1:
        flow.parameter(node, 1, {0: read.ids, 1: made})
        zero = flow.zero(node, 1, 0, weight)
        flow.read(WeightConsumer(node, read.ids, read.constant, _absorbed(node, 0, read.constant)), zero, takes)
        constant = np.where(flow.zero(node, 1, 1, weight) | takes.all(), bias, np.nan)
    elif inner == group:
        flow.parameter(node, 1, {0: read.ids})
        each = np.repeat(np.arange(group), per_group)
        flow.link(made, read.ids[each])
        dead = (weight.above_centre(weight.tensor.numpy(), 0) == 0).all(tuple(range(2, len(weight.dims)))).reshape(-1)
        constant = np.where(dead | takes[each], bias, np.nan)
        flow.edits.append(partial(_edit_group, node, read.ids))
    else:
        raise NotFollowed(NOT_FOLLOWED)
    flow.layers.append(WeightedLayer(node, made.reshape(1, -1)))
    flow.make(node.output(0), Track((1,), made, constant))


def _gemm(flow: ChannelFlow, node: ir.Node) -> None:
    weight = flow.weight(node, 1)
    if node.attr("transA", 0) or len(weight.dims) != 2 or analysis.constant(node.input(0)) is not None:
        raise NotFollowed(NOT_FOLLOWED)
    inner = 1 if node.attr("transB", 0) else 0
    made = flow.fresh((weight.dims[1 - inner],))
    read = flow.collapsed(node.input(0), 1, weight.dims[inner])
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    bias, takes = np.zeros(made.size), np.ones(read.ids.size, dtype=bool)
    addend = node.input(2)
    if addend is not None:
        dims = flow.dims(addend)
        if analysis.constant(addend) is None:
            takes = read.constant == 0
            bias = np.full(made.size, np.nan)
            if addend in flow.tracks or dims[-1:] != (1,):
                raise NotFollowed(NOT_FOLLOWED)
        else:
            bias = np.full(made.size, 1.0) * flow.spread(node, 2, (1,), made, 2)
            if math.prod(dims[:-1]) != 1:  # type: ignore[arg-type]
                takes = read.constant == 0
    flow.parameter(node, 1, {inner: read.ids, 1 - inner: made})
    zero = flow.zero(node, 1, inner, weight)
    absorb = partial(_times, alpha, _absorbed(node, inner, read.constant))
    consumer = WeightConsumer(node, read.ids, read.constant, absorb)
    flow.read(consumer, zero, takes)
    dead = flow.zero(node, 1, 1 - inner, weight) | np.full(made.size, alpha == 0)
    flow.layers.append(WeightedLayer(node, made.reshape(1, -1)))
    bias = product(np.full(made.size, beta), bias)
    constant = _unless_constant(np.where(dead, bias, np.nan), bias, consumer, takes)
    flow.make(node.output(0), Track((1,), made, constant))


def _unless_constant(constant: Float64, bias: Float64, consumer: WeightConsumer, takes: Bools) -> Float64:
    """Return the constants of what a weight makes, which are known if all that it reads is constant."""
    if not (takes & ~np.isnan(consumer.constant)).all():
        return constant
    return np.where(np.isnan(constant), consumer.absorb(np.ones(takes.shape, dtype=bool)) + bias, constant)


def _times(factor: float, absorb: partial[Float64], gone: Bools) -> Float64:
    return factor * absorb(gone)


def _matmul(flow: ChannelFlow, node: ir.Node) -> None:
    weight = flow.weight(node, 1)
    value, rank = node.input(0), len(flow.dims(node.output(0)))
    if len(weight.dims) != 2 or analysis.constant(value) is not None or rank < 2 or len(flow.dims(value)) != rank:
        raise NotFollowed(NOT_FOLLOWED)
    made = flow.fresh((weight.dims[1],))
    read = flow.collapsed(value, rank - 1, weight.dims[0])
    flow.parameter(node, 1, {0: read.ids, 1: made})
    takes = np.ones(read.ids.size, dtype=bool)
    zero = flow.zero(node, 1, 0, weight)
    consumer = WeightConsumer(node, read.ids, read.constant, _absorbed(node, 0, read.constant))
    flow.read(consumer, zero, takes)
    flow.layers.append(WeightedLayer(node, made.reshape(1, -1)))
    dead = flow.zero(node, 1, 1, weight)
    constant = _unless_constant(np.where(dead, 0.0, np.nan), np.zeros(made.size), consumer, takes)
    flow.make(node.output(0), Track((rank - 1,), made, constant))


RULES: dict[str, ChannelRule] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(NARY, _nary),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"), _pool),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _reduction),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _depth_to_space),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _quantize),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "BatchNormalization": _batchnorm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gather": _gather,
    "Gemm": _gemm,
    "InstanceNormalization": _instancenorm,
    "MatMul": _matmul,
    "Pad": _pad,
    "QLinearConv": _qlinear_conv,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}
"""By operator."""
