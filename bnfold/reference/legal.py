"""What operator texts allow of every node: the element types of its inputs and the values of its attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from bnfold.reference.precision import DOUBLE, Datum, computed_type, is_float
from bnfold.reference.registry import Call, Mismatch, require

LegalTypes = Mapping[str, frozenset[np.dtype[Any] | type[list[Any]]]]
"""What a type variable may stand for, or a parameter of one type may be; float64 stands for every float."""

_RESIZE_COORDINATES = "half_pixel pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn tf_crop_and_resize"
VALUES: dict[tuple[str, str], dict[int, str]] = {
    ("", "align_corners"): {1: "0 1"},
    ("", "auto_pad"): {0: "NOTSET SAME_UPPER SAME_LOWER VALID"},
    ("", "ceil_mode"): {1: "0 1"},
    ("", "count_include_pad"): {1: "0 1"},
    ("", "exclusive"): {1: "0 1"},
    ("", "keepdims"): {1: "0 1"},
    ("", "reverse"): {1: "0 1"},
    ("", "select_last_index"): {1: "0 1"},
    ("", "spatial"): {1: "0 1"},
    ("", "training_mode"): {1: "0 1"},
    ("BitShift", "direction"): {1: "LEFT RIGHT"},
    ("DepthToSpace", "mode"): {1: "DCR CRD"},
    ("GRU", "direction"): {1: "foward forward reverse bidirectional", 3: "forward reverse bidirectional"},
    ("Gelu", "approximate"): {1: "none tanh"},
    ("GridSample", "mode"): {1: "bilinear nearest bicubic", 20: "linear nearest cubic"},
    ("GridSample", "padding_mode"): {1: "zeros border reflection"},
    ("LSTM", "direction"): {1: "forward reverse bidirectional"},
    ("LpNormalization", "p"): {1: "1 2"},
    ("NegativeLogLikelihoodLoss", "reduction"): {1: "none mean sum"},
    ("Pad", "mode"): {1: "constant reflect edge", 19: "constant reflect edge wrap"},
    ("RNN", "direction"): {1: "forward reverse bidirectional"},
    ("Resize", "coordinate_transformation_mode"): {
        11: _RESIZE_COORDINATES,
        19: f"{_RESIZE_COORDINATES} half_pixel_symmetric",
    },
    ("Resize", "keep_aspect_ratio_policy"): {18: "stretch not_larger not_smaller"},
    ("Resize", "mode"): {10: "nearest linear", 11: "nearest linear cubic"},
    ("Resize", "nearest_mode"): {11: "round_prefer_floor round_prefer_ceil floor ceil"},
    ("RoiAlign", "coordinate_transformation_mode"): {16: "half_pixel output_half_pixel"},
    ("RoiAlign", "mode"): {1: "avg max"},
    ("ScatterElements", "reduction"): {16: "none add mul", 18: "none add mul max min"},
    ("ScatterND", "reduction"): {16: "none add mul", 18: "none add mul max min"},
    ("SoftmaxCrossEntropyLoss", "reduction"): {1: "none mean sum"},
    ("SpaceToDepth", "mode"): {28: "DCR CRD"},
    ("TensorScatter", "mode"): {1: "linear circular"},
    ("Upsample", "mode"): {1: "nearest linear bilinear trilinear"},
}
"""By operator (empty: all that have it) and attribute: the legal values from a version on, until the next one named.

Exporters wrote bilinear and trilinear for what Upsample calls linear, and runtimes take tf_half_pixel_for_nn at later
versions of Resize, too.
"""


MEANINGLESS = frozenset({"consumed_inputs"})
"""What version 1 of many operators asks for, and what means nothing to any; real files leave it out."""

_INDICES = ("tensor(int64)", "tensor(int32)")
"""Types of numbers that name places or sizes."""

_TENSOR = re.compile(r"(?:optional\()?tensor\((\w+)\)+")


def check_attributes(call: Call, version: int, needed: frozenset[str]) -> None:
    """Refuse a node without an attribute that it needs, or with a value that the text of its version does not know.

    Pad-1 takes the later ``pads`` for ``paddings``.
    """
    missing = needed - call.attrs.keys() - MEANINGLESS
    if "pads" in call.attrs:
        missing -= {"paddings"}
    require(not missing, f"a required attribute is missing: {', '.join(missing)}")
    for name, value in call.attrs.items():
        known = VALUES.get((call.op, name)) or VALUES.get(("", name))
        if known is not None:
            text = next((text for first, text in reversed(known.items()) if version >= first), "")
            require(str(value) in text.split(), f"{name} {value!r} is not in the operator text")


def types(schema: onnx.defs.OpSchema) -> LegalTypes:
    """Return the tensor types of every type variable of a schema, and of every parameter of a single type.

    ``list`` is among them if the operator takes sequences.
    Types that only a later version admits mean the same there, and exporters wrote them early (Equal of floats).
    So does the width of integers that are no data, such as the axes of a Squeeze, and exporters wrote int32.
    """
    newest = onnx.defs.get_schema(schema.name, schema.domain)
    named: dict[str, list[str]] = {}
    for constraint in (*newest.type_constraints, *schema.type_constraints):
        named[constraint.type_param_str] = [*named.get(constraint.type_param_str, ()), *constraint.allowed_type_strs]
    named |= {parameter.type_str: [parameter.type_str] for parameter in schema.inputs if "(" in parameter.type_str}
    named |= {name: [*_INDICES] for name, texts in named.items() if len({*texts}) == 1 and texts[0] in _INDICES}
    found = {name: [_TENSOR.fullmatch(text) for text in texts] for name, texts in named.items()}
    also = [list] if any("seq(" in text for texts in named.values() for text in texts) else []
    return {
        name: frozenset([*(_dtype(match[1]) for match in matches if match), *also]) for name, matches in found.items()
    }


def _dtype(name: str) -> np.dtype[Any]:
    return computed_type(onnx.TensorProto.DataType.Value(name.upper()), "float64")


def check_types(allowed: LegalTypes, names: Sequence[str], inputs: Sequence[Datum]) -> None:
    """Refuse arrays of types that the schema does not allow, and different ones where it asks for the same.

    A sequence is refused by operators of arrays alone.
    """
    bound: dict[str, np.dtype[Any]] = {}
    for index, value in enumerate(inputs if names else ()):
        name = names[min(index, len(names) - 1)]
        if isinstance(value, list) and list not in allowed[name]:
            raise Mismatch("it is given a sequence in place of an array")
        if isinstance(value, np.ndarray):
            dtype = DOUBLE if is_float(value) else value.dtype
            beside = bound.setdefault(name, dtype)
            # To spell a type takes longer than all else here.
            if beside != dtype or not (dtype.kind == "U" or dtype in allowed[name]):
                raise Mismatch(f"input {index} of type {dtype}{f' beside {beside}' if beside != dtype else ''}")
