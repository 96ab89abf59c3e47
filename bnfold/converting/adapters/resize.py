"""Upsample 1, 7, 9 and Resize 10 to Resize 11.

Before 11 the coordinate is ``x / scale``. The nearest neighbour is the one below where an axis grows and the one above
where it shrinks (onnx's own test data and onnxruntime's kernel agree); Resize-11 has one choice for all axes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bnfold import ir
from bnfold.converting.adapters.attributes import respell
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion


def height_and_width(conversion: NodeConversion) -> None:
    """Convert Upsample 1 → 7: two scales become four."""
    height, width = conversion.take("height_scale"), conversion.take("width_scale")
    if height is None or width is None:
        if conversion.node.has_attr("scales"):
            return
        raise Inexpressible("has no height_scale or no width_scale")
    conversion.node.set_attr("scales", [1.0, 1.0, float(height), float(width)])
    plain_mode(conversion)


def scales_input(conversion: NodeConversion) -> None:
    """Convert Upsample 7 → 9: ``scales`` is an input."""
    scales = conversion.take("scales")
    if scales is not None:
        conversion.node.set_inputs([conversion.input(0), _scales(conversion, scales)])
    elif conversion.node.input(1) is None:
        raise Inexpressible("has no scales")
    plain_mode(conversion)


def upsample_to_resize(conversion: NodeConversion) -> None:
    """Convert Upsample 9 → Resize: no axis of an Upsample shrinks."""
    if conversion.node.has_attr("scales"):
        scales_input(conversion)
    plain_mode(conversion)
    conversion.node.op_type = "Resize"
    if conversion.target >= 11:
        _at_asymmetric_points(conversion, conversion.input(0), conversion.input(1), "floor")
        conversion.finished = True  # the later versions of Resize only add to this form


def coordinates(conversion: NodeConversion) -> None:
    """Convert Resize 10 → 11: what was fixed then is written out.

    Axes that grow and axes that shrink need one Resize each.
    """
    if len(conversion.node.inputs) > 2:
        return  # written in the later form already
    data, scales = conversion.input(0), conversion.input(1)
    grow, shrink = (
        _directions(conversion, scales) if conversion.node.attr("mode", "nearest") == "nearest" else (scales, None)
    )
    if grow is not None and shrink is not None:
        points = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        data = conversion.add("Resize", [data, _roi(conversion), grow], "grown", mode="nearest", **points)
    _at_asymmetric_points(conversion, data, shrink or grow or scales, "ceil" if shrink else "floor")


def _at_asymmetric_points(conversion: NodeConversion, data: ir.Value, scales: ir.Value, neighbour: str) -> None:
    conversion.node.set_inputs([data, _roi(conversion), scales])
    conversion.node.set_attr("coordinate_transformation_mode", "asymmetric")
    if conversion.node.attr("mode", "nearest") == "nearest":
        conversion.node.set_attr("nearest_mode", neighbour)


def _directions(conversion: NodeConversion, scales: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the scales of the growing and of the shrinking axes, 1 elsewhere.

    None where there are none of the kind.
    """
    tensor = ir.constant(scales)
    if tensor is None:
        one = conversion.constant(np.array(1.0, np.float32), "one")
        return conversion.add("Max", [scales, one], "grow"), conversion.add("Min", [scales, one], "shrink")
    values = tensor.numpy().astype(np.float32)
    grow = _scales(conversion, np.maximum(values, 1)) if (values > 1).any() else None
    shrink = _scales(conversion, np.minimum(values, 1)) if (values < 1).any() else None
    return grow, shrink


def _scales(conversion: NodeConversion, values: object) -> ir.Value:
    return conversion.constant(np.asarray(values, np.float32), "scales")


def _roi(conversion: NodeConversion) -> ir.Value | None:
    """Give a Resize its roi: version 11 demands the input that only tf_crop_and_resize reads.

    From 13 on it may be left out.
    """
    return None if conversion.target >= 13 else conversion.constant(np.zeros(0, np.float32), "roi")


plain_mode = partial(respell, "mode", {"bilinear": "linear", "trilinear": "linear"})
"""Linear interpolation was also called after the number of axes."""


def empty_inputs(conversion: NodeConversion) -> None:
    """Convert Resize 13 → 11: it demands the roi that nothing reads, and empty scales beside sizes."""
    node = conversion.node
    for slot in (1, 2):
        if node.input(slot) is None:
            node.set_input(slot, conversion.constant(np.zeros(0, np.float32), "none"))


def every_axis(conversion: NodeConversion) -> None:
    """Convert Resize 18 → 13: ``axes`` go, and there are scales or sizes for every axis."""
    node, axes = conversion.node, conversion.take("axes")
    if not axes:
        return
    shape, rank = conversion.shape(conversion.input(0)) or (), conversion.rank(conversion.input(0))
    places = [axis % rank for axis in axes]
    if node.input(1) is not None and node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Inexpressible("crops along axes of its own")
    if (scales := node.input(2)) is not None and (tensor := ir.constant(scales)) is not None and tensor.size:
        full = np.ones(rank, np.float32)
        full[places] = tensor.numpy()
        node.set_input(2, _scales(conversion, full))
        return
    sizes = None if node.input(3) is None else ir.constant(node.input(3))
    others = [size for place, size in enumerate(shape) if place not in places]
    if sizes is None or not all(isinstance(size, int) for size in others):
        raise Inexpressible("resizes some axes by what is not constant, or others of an open size")
    wanted = [size if isinstance(size, int) else 0 for size in shape]
    for place, size in zip(places, sizes.numpy().tolist(), strict=True):
        wanted[place] = size
    node.set_input(3, conversion.ints(wanted, "sizes"))
