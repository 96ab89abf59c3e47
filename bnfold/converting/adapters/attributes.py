"""Steps that only change how attributes are spelled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import Site
from bnfold.ir.elements import type_name
from bnfold.ir.schemas import schema_of


def drop(name: str, site: Site) -> None:
    """An attribute that never had a meaning, or whose only meaning is the operator's only behaviour by now."""
    site.node.del_attr(name)


def gemm_broadcast(site: Site) -> None:
    """Gemm 6 → 7: C always broadcasts. Some exporters relied on that before, and did not say so."""
    bias = site.node.input(2)
    shape = site.shape(bias) if bias is not None else None
    if not site.take("broadcast", 0) and shape is not None and len(shape) != 2:
        site.repair("later-form", "C does not broadcast before Gemm-7 unless broadcast is set: read as Gemm-7")


def keep_default(defaults: Mapping[str, float | str], site: Site) -> None:
    """Defaults that the next version changes: written out where the node relies on them."""
    for name, value in defaults.items():
        if not site.node.has_attr(name):
            site.node.set_attr(name, value)


def rename(op_type: str, site: Site) -> None:
    """The same operator under a new name."""
    site.node.op_type = op_type


def respell(name: str, spellings: Mapping[str, str], site: Site) -> None:
    """A string attribute some of whose values, the default not among them or renamed as well, are spelled otherwise."""
    value = site.node.attr(name)
    if value in spellings:
        site.node.set_attr(name, spellings[value])


def only_types_of(op_type: str, version: int, site: Site) -> None:
    """A step that withdraws element types which never made sense there; the others keep their meaning."""
    dtype = site.shared.types.dtype(site.input(0))
    if dtype is None:
        return
    name = type_name(dtype)
    if f"tensor({name})" not in schema_of(op_type, version).inputs[0].types:
        raise Inexpressible(f"version {version} does not take {name} tensors")


def selu_constants(site: Site) -> None:
    """Selu 1 → 6: more digits of the default constants."""
    drop("consumed_inputs", site)
    keep_default({"alpha": 1.673200011253357, "gamma": 1.0506999492645264}, site)


def whole_power(site: Site) -> None:
    """LpPool, GlobalLpPool 1 → 2: ``p`` becomes an integer."""
    power = site.take("p", 2.0)
    if power != int(power):
        raise Inexpressible(f"p={power} is not a whole number")
    site.node.set_attr("p", int(power))


def cast_to(site: Site) -> None:
    """Cast 1 → 6: ``to`` names the type by number."""
    to = site.take("to")
    if to is None:
        raise Inexpressible("does not say which type to cast to")
    if isinstance(to, str):
        if to.upper() not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 - a protobuf enum, not a dict
            raise Inexpressible(f"casts to an unknown type {to!r}")
        to = onnx.TensorProto.DataType.Value(to.upper())
    site.node.set_attr("to", to)


def clip_bounds(site: Site) -> None:
    """Clip 1 → 6: an absent bound was none; from 6 on it is the largest float, which would also clip infinities."""
    site.node.del_attr("consumed_inputs")
    if len(site.node.inputs) == 1:
        keep_default({"min": -np.inf, "max": np.inf}, site)


def pad_pads(site: Site) -> None:
    """Pad 1 → 2: ``paddings`` is called ``pads``."""
    pads = site.take("paddings") if site.node.has_attr("paddings") else site.take("pads")
    if pads is None:
        raise Inexpressible("has no paddings")
    site.node.set_attr("pads", pads)


def float_input(site: Site) -> None:
    """QuantizeLinear 13 → 19: x has the scale's type; an integer x is divided by a float in any case."""
    data = site.input(0)
    if site.shared.types.dtype(data) == onnx.TensorProto.INT32:
        site.node.set_input(0, site.add("Cast", [data], "float", to=onnx.TensorProto.FLOAT))
