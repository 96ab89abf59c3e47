"""Every version step of every operator: compatible, adapted, or blocked with a reason.

A step is named after the version it leads to. What the schemas prove compatible is not listed; what they cannot prove,
or what changed its meaning behind an unchanged schema, is. A test walks all schemas of the installed onnx and fails for
a step that nothing here covers, and for a version of BatchNormalization or InstanceNormalization without a review.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

from bnfold.converting.adapters import (
    attributes,
    batchnorm,
    broadcast,
    dropout,
    inputs,
    normalization,
    resize,
    scan,
    softmax,
)
from bnfold.converting.compatible import objection
from bnfold.converting.node_conversion import Adapter
from bnfold.ir.schemas import schema_of, version_at, versions_of

VALUES_SINCE: dict[str, tuple[str, dict[bytes, int]]] = {
    "Pad": ("mode", {b"wrap": 19}),
    "Resize": ("coordinate_transformation_mode", {b"half_pixel_symmetric": 19}),
    "ScatterElements": ("reduction", {b"max": 18, b"min": 18}),
    "ScatterND": ("reduction", {b"max": 18, b"min": 18}),
}
"""Values that a text attribute got later than the attribute itself, and the opset in which they came."""

BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
CONSUMED = partial(attributes.drop, "consumed_inputs")
_AXES = partial(inputs.moved, "axes", "")
_SEQUENCE = partial(attributes.drop, "output_sequence")

ADAPTERS: dict[tuple[str, int], Adapter] = {
    **{
        (op_type, 6): CONSUMED
        for op_type in (
            *("Abs", "Add", "Ceil", "Div", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean"),
            *("Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"),
        )
    },
    ("Dropout", 6): CONSUMED,
    ("Selu", 6): attributes.selu_constants,
    **{("BatchNormalization", version): batchnorm.to_target for version in (6, 7, 9, 14)},
    ("InstanceNormalization", 6): normalization.instance,
    ("GroupNormalization", 21): normalization.group,
    **{(op_type, 7): broadcast.binary for op_type in BROADCASTING},
    ("PRelu", 7): broadcast.slope,
    ("Gemm", 7): attributes.gemm_broadcast,
    ("Cast", 6): attributes.cast_to,
    ("Clip", 6): attributes.clip_bounds,
    ("Clip", 11): inputs.clip_bounds,
    ("Concat", 4): partial(attributes.keep_default, {"axis": 1}),
    ("DFT", 20): inputs.dft_axis,
    ("Dropout", 7): dropout.test_mode,
    ("Dropout", 10): dropout.boolean_mask,
    ("Dropout", 12): dropout.ratio_input,
    ("Erf", 13): partial(attributes.only_types_of, "Erf", 13),
    ("GRU", 3): partial(attributes.respell, "direction", {"foward": "forward"}),
    ("GRU", 7): _SEQUENCE,
    ("LSTM", 7): _SEQUENCE,
    ("RNN", 7): _SEQUENCE,
    ("GlobalLpPool", 2): attributes.whole_power,
    ("LpPool", 2): attributes.whole_power,
    ("GridSample", 20): partial(attributes.respell, "mode", {"bilinear": "linear", "bicubic": "cubic"}),
    **{(op_type, 11): softmax.behind_all_axes for op_type in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(op_type, 13): softmax.flattened for op_type in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Pad", 2): attributes.pad_pads,
    ("Pad", 11): inputs.pad_values,
    ("QuantizeLinear", 19): attributes.float_input,
    **{
        (f"Reduce{what}", 18): _AXES
        for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
    ("ReduceSum", 13): _AXES,
    ("ReduceLogSum", 28): partial(attributes.only_types_of, "ReduceLogSum", 28),
    ("ReduceLogSumExp", 28): partial(attributes.only_types_of, "ReduceLogSumExp", 28),
    ("Reshape", 5): partial(inputs.moved, "shape", "has no shape"),
    ("Resize", 11): resize.coordinates,
    ("Resize", 13): resize.scales_or_sizes,
    ("RoiAlign", 16): partial(attributes.keep_default, {"coordinate_transformation_mode": "output_half_pixel"}),
    ("Scan", 9): scan.unbatched,
    ("Scatter", 11): partial(attributes.rename, "ScatterElements"),
    ("Slice", 10): inputs.slice_bounds,
    ("Split", 2): inputs.split_input,
    ("Split", 13): partial(inputs.moved, "split", ""),
    ("Split", 18): inputs.split_count,
    ("Squeeze", 13): _AXES,
    ("Unsqueeze", 13): partial(inputs.moved, "axes", "has no axes"),
    ("Tile", 6): inputs.tile_repeats,
    ("TopK", 10): partial(inputs.moved, "k", ""),
    ("Upsample", 7): resize.height_and_width,
    ("Upsample", 9): resize.scales_input,
    ("Upsample", 10): resize.upsample_to_resize,
}

REVIEWED: dict[tuple[str, int], str] = {
    ("BatchNormalization", 15): "scale and bias, mean and variance may have types of their own",
    ("InstanceNormalization", 22): "bfloat16",
    ("ConvTranspose", 11): "the text's split of an odd padding is corrected; runtimes compute both versions alike",
    ("OneHot", 11): "negative indices, which version 9 forbids, count from the end",
    ("Max", 8): "broadcasting, where version 6 demands equal shapes",
}
"""Steps that need a review, and its result: compatible."""

BY_HAND = frozenset({"BatchNormalization", "InstanceNormalization"})
"""Operators whose every version has to be in one of the lists above: their meaning is what bnfold is about."""


class VersionStep(NamedTuple):
    """One version step: it has an adapter, or a reason why it cannot be made, or neither (compatible)."""

    version: int
    adapter: Adapter | None
    blocked: str | None


@cache
def steps(op_type: str, version: int, target: int) -> tuple[VersionStep, ...]:
    """Return the steps of ``op_type`` behind ``version`` on the way to ``target``."""
    return tuple(_step(op_type, later) for later in versions_of(op_type) if version < later <= target)


def _step(op_type: str, version: int) -> VersionStep:
    if (op_type, version) in ADAPTERS:
        return VersionStep(version, ADAPTERS[op_type, version], None)
    return VersionStep(version, None, None if (op_type, version) in REVIEWED else unproven(op_type, version))


def unproven(op_type: str, version: int) -> str | None:
    """Say why the step to ``version`` cannot pass for compatible without a word in the lists above; None if it can."""
    if op_type in BY_HAND:
        return f"version {version} is newer than this bnfold"
    older = [candidate for candidate in versions_of(op_type) if candidate < version]
    return objection(op_type, older[-1], version)


def is_compatible(op_type: str, version: int, target: int) -> bool:
    """Whether a node of ``version`` is one of ``target``'s version as it stands."""
    return all(step.adapter is None and step.blocked is None for step in steps(op_type, version, target))


@cache
def living_version(op_type: str, opset: int) -> int | None:
    """Return the version of ``op_type`` in force at ``opset``.

    If the operator was withdrawn before, it is the last version with a meaning: some exporters wrote it all the same.
    """
    version = version_at(op_type, opset)
    if version is None or not schema_of(op_type, version).deprecated:
        return version
    return max((older for older in versions_of(op_type) if older < version), default=version)
