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
from bnfold.converting.node_conversion import Site


def height_and_width(site: Site) -> None:
    """Upsample 1 → 7: two scales become four."""
    height, width = site.take("height_scale"), site.take("width_scale")
    if height is None or width is None:
        if site.node.has_attr("scales"):
            return
        raise Inexpressible("has no height_scale or no width_scale")
    site.node.set_attr("scales", [1.0, 1.0, float(height), float(width)])
    plain_mode(site)


def scales_input(site: Site) -> None:
    """Upsample 7 → 9: ``scales`` is an input."""
    scales = site.take("scales")
    if scales is not None:
        site.node.set_inputs([site.input(0), _scales(site, scales)])
    elif site.node.input(1) is None:
        raise Inexpressible("has no scales")
    plain_mode(site)


def upsample_to_resize(site: Site) -> None:
    """Upsample 9 → Resize: no axis of an Upsample shrinks."""
    if site.node.has_attr("scales"):
        scales_input(site)
    plain_mode(site)
    site.node.op_type = "Resize"
    if site.target >= 11:
        _at_asymmetric_points(site, site.input(0), site.input(1), "floor")
        site.finished = True  # the later versions of Resize only add to this form


def coordinates(site: Site) -> None:
    """Resize 10 → 11: what was fixed then is written out; axes that grow and axes that shrink need one Resize each."""
    if len(site.node.inputs) > 2:
        return  # written in the later form already
    data, scales = site.input(0), site.input(1)
    grow, shrink = _directions(site, scales) if site.node.attr("mode", "nearest") == "nearest" else (scales, None)
    if grow is not None and shrink is not None:
        points = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        data = site.add("Resize", [data, _roi(site), grow], "grown", mode="nearest", **points)
    _at_asymmetric_points(site, data, shrink or grow or scales, "ceil" if shrink else "floor")


def _at_asymmetric_points(site: Site, data: ir.Value, scales: ir.Value, neighbour: str) -> None:
    site.node.set_inputs([data, _roi(site), scales])
    site.node.set_attr("coordinate_transformation_mode", "asymmetric")
    if site.node.attr("mode", "nearest") == "nearest":
        site.node.set_attr("nearest_mode", neighbour)


def _directions(site: Site, scales: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
    """The scales of the growing and of the shrinking axes, 1 elsewhere; None where there are none of the kind."""
    tensor = ir.constant(scales)
    if tensor is None:
        one = site.constant(np.array(1.0, np.float32), "one")
        return site.add("Max", [scales, one], "grow"), site.add("Min", [scales, one], "shrink")
    values = tensor.numpy().astype(np.float32)
    grow = _scales(site, np.maximum(values, 1)) if (values > 1).any() else None
    shrink = _scales(site, np.minimum(values, 1)) if (values < 1).any() else None
    return grow, shrink


def _scales(site: Site, values: object) -> ir.Value:
    return site.constant(np.asarray(values, np.float32), "scales")


def _roi(site: Site) -> ir.Value | None:
    """Version 11 demands the input that only tf_crop_and_resize reads; from 13 on it may be left out."""
    return None if site.target >= 13 else site.constant(np.zeros(0, np.float32), "roi")


plain_mode = partial(respell, "mode", {"bilinear": "linear", "trilinear": "linear"})
"""Linear interpolation was also called after the number of axes."""
