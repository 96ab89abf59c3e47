"""Every version step of every operator: compatible, adapted, or blocked with a reason.

A step is named after the version it leads to. What the schemas prove compatible is not listed; what they cannot prove,
or what changed its meaning behind an unchanged schema, is. A test walks all schemas of the installed onnx and fails for
a step that nothing here covers, and for a version of BatchNormalization or InstanceNormalization without a review.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from bnfold.converting.adapters import (
    affine_grid,
    attention,
    attributes,
    batchnorm,
    broadcast,
    compositions,
    computed,
    constants,
    dropout,
    einsum,
    indexing,
    inputs,
    integers,
    norm_compositions,
    normalization,
    pooling,
    quantized,
    reshape,
    resize,
    scan,
    softmax,
    to_attributes,
)
from bnfold.converting.compatible import objection
from bnfold.converting.node_conversion import NodeConversion
from bnfold.ir.schemas import schema_of, version_at, versions_of

Adapter = Callable[[NodeConversion], None]

VALUES_SINCE: dict[str, tuple[str, dict[bytes, int]]] = {
    "Pad": ("mode", {b"wrap": 19}),
    "Resize": ("coordinate_transformation_mode", {b"half_pixel_symmetric": 19}),
    "ScatterElements": ("reduction", {b"max": 18, b"min": 18}),
    "ScatterND": ("reduction", {b"max": 18, b"min": 18}),
}
"""Values that a text attribute got later than the attribute itself, and the opset in which they came."""

_BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
_CONSUMED = partial(attributes.drop, "consumed_inputs")
_AXES = partial(inputs.moved, "axes", "")
_SELU = {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}
_SEQUENCE = partial(attributes.drop, "output_sequence")

ADAPTERS: dict[tuple[str, int], Adapter] = {
    **{
        (op_type, 6): _CONSUMED
        for op_type in (
            *("Abs", "Add", "Ceil", "Div", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean"),
            *("Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"),
        )
    },
    ("Dropout", 6): _CONSUMED,
    ("Selu", 6): attributes.selu_constants,
    **{("BatchNormalization", version): batchnorm.to_target for version in (6, 7, 9, 14)},
    ("InstanceNormalization", 6): normalization.instance,
    ("GroupNormalization", 21): normalization.group,
    **{(op_type, 7): broadcast.binary for op_type in _BROADCASTING},
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

DOWN: dict[tuple[str, int], Adapter] = {
    **{step: to_attributes.as_it_stands for step, adapter in ADAPTERS.items() if adapter is _CONSUMED},
    **{
        (f"Reduce{what}", 18): to_attributes.reduced_axes
        for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
    ("ReduceSum", 13): to_attributes.reduced_axes,
    **dict.fromkeys((("ReduceLogSum", 28), ("ReduceLogSumExp", 28), ("Erf", 13)), to_attributes.as_it_stands),
    ("LayerNormalization", 17): norm_compositions.layer,
    ("RMSNormalization", 23): norm_compositions.root_mean_square,
    ("GroupNormalization", 21): norm_compositions.group_of_channels,
    ("GroupNormalization", 18): norm_compositions.group_of_groups,
    ("Reshape", 14): reshape.no_zeros,
    ("Shape", 15): reshape.whole_shape,
    ("Split", 18): to_attributes.split_lengths,
    ("Split", 13): computed.given_lengths,
    ("Squeeze", 13): partial(to_attributes.ints, "axes"),
    ("Unsqueeze", 13): partial(to_attributes.ints, "axes"),
    **{(op_type, 13): softmax.along_one_axis for op_type in ("Softmax", "LogSoftmax", "Hardmax")},
    ("Gelu", 20): compositions.gelu,
    ("HardSwish", 14): compositions.hard_swish,
    ("Mish", 18): compositions.mish,
    ("Swish", 24): compositions.swish,
    ("Celu", 12): compositions.celu,
    ("GreaterOrEqual", 12): partial(compositions.or_equal, "Greater", "Less"),
    ("LessOrEqual", 12): partial(compositions.or_equal, "Less", "Greater"),
    ("CastLike", 15): compositions.cast_like,
    ("Trilu", 14): compositions.trilu,
    ("Resize", 18): resize.every_axis,
    ("Resize", 13): resize.empty_inputs,
    ("Pad", 18): to_attributes.padded_axes,
    ("Pad", 11): to_attributes.pads_and_value,
    ("Clip", 11): to_attributes.clip_limits,
    ("Dropout", 12): to_attributes.dropout_ratio,
    **{(op_type, 22): pooling.last_windows for op_type in ("AveragePool", "LpPool", "MaxPool")},
    ("GridSample", 20): attributes.flat_grid,
    ("RoiAlign", 16): attributes.output_half_pixel,
    ("Constant", 12): to_attributes.constant_value,
    ("Constant", 9): constants.stored,
    ("ConstantOfShape", 9): constants.spread,
    **{(op_type, 7): broadcast.stated_axis for op_type in _BROADCASTING},
    ("PRelu", 7): broadcast.channel_slope,
    ("Dropout", 7): dropout.inference,
    ("Cast", 6): attributes.type_by_name,
    ("Clip", 6): attributes.stated_limits,
    ("Selu", 6): partial(attributes.keep_default, _SELU),
    ("Reshape", 5): partial(to_attributes.ints, "shape"),
    ("Concat", 4): to_attributes.as_it_stands,
    ("Pad", 2): attributes.paddings,
    ("Split", 2): partial(attributes.keep_default, {"axis": 0}),
    ("Gemm", 7): broadcast.row_of_bias,
    ("Attention", 23): attention.plain,
    ("Attention", 24): attention.whole_mask,
    ("Einsum", 12): einsum.einsum,
    ("BitwiseNot", 18): integers.complement,
    ("DFT", 20): to_attributes.dft_axis,
    ("Max", 12): partial(integers.extreme, "Greater"),
    ("Min", 12): partial(integers.extreme, "Less"),
    ("Clip", 12): integers.clip,
    ("Pow", 12): integers.power,
    ("Equal", 11): integers.equal,
    ("Mod", 10): integers.modulo,
    ("Range", 11): integers.sequence,
    ("GatherND", 11): indexing.gather_nd,
    ("GatherElements", 11): indexing.gather_elements,
    ("ScatterND", 11): indexing.scatter_nd,
    ("DepthToSpace", 11): indexing.from_depth,
    **{("QuantizeLinear", version): quantized.quantize for version in (10, 13, 19, 21)},
    **{("DequantizeLinear", version): quantized.dequantize for version in (10, 13, 19, 21)},
    ("AffineGrid", 20): affine_grid.affine_grid,
    ("Dropout", 10): to_attributes.no_mask,
    ("Gemm", 11): to_attributes.zero_bias,
    ("MaxPool", 10): pooling.even_windows,
    ("AveragePool", 10): pooling.even_windows,
    ("Resize", 11): resize.fixed_points,
    ("Resize", 10): resize.to_upsample,
    ("Slice", 10): to_attributes.slice_bounds,
    ("TopK", 10): partial(to_attributes.count_of, "k"),
}
"""The step from a version of an operator to the one before it, if a node is not valid there as it stands.

If an operator begins with the version, the step decomposes it.
"""

SHOWN_BY_FORM = frozenset({
    *(step for step, adapter in DOWN.items() if adapter is to_attributes.as_it_stands),
    ("Clip", 12), ("Constant", 12), ("Gemm", 11), ("Max", 12), ("Min", 12), ("Reshape", 14), ("Shape", 15),
})  # fmt: skip
"""Steps whose adapter changes no node that has the older version's form and types."""

ONE_WAY = frozenset({
    *((op_type, 7) for op_type in (
        *("GRU", "LSTM", "RNN", "Upsample"),
    )),
    ("GRU", 3), ("GlobalLpPool", 2), ("LpPool", 2), ("Scan", 9), ("Tile", 6), ("Upsample", 9),
})  # fmt: skip
"""Steps that can be made upwards only; downwards, the node is refused."""

BEGIN = frozenset({
    ("Acos", 7), ("Acosh", 9), ("Asin", 7), ("Asinh", 9), ("Atan", 7), ("Atanh", 9), ("Bernoulli", 15),
    ("BitCast", 26), ("BitShift", 11), ("BitwiseAnd", 18), ("BitwiseOr", 18), ("BitwiseXor", 18), ("Col2Im", 18),
    ("Compress", 9), ("ConcatFromSequence", 11), ("ConvInteger", 10), ("Cos", 7), ("Cosh", 9),
    ("CumProd", 26), ("CumSum", 11), ("DFT", 17), ("DeformConv", 19), ("Det", 11),
    ("DynamicQuantizeLinear", 11), ("Erf", 9), ("Expand", 8), ("EyeLike", 9),
    ("GridSample", 16), ("ImageDecoder", 20), ("IsInf", 10), ("IsNaN", 9), ("MatMulInteger", 10),
    ("MaxUnpool", 9), ("MeanVarianceNormalization", 9), ("MelWeightMatrix", 17), ("Multinomial", 7),
    ("NonMaxSuppression", 10), ("NonZero", 9), ("OneHot", 9), ("Optional", 15), ("OptionalGetElement", 15),
    ("OptionalHasElement", 15), ("QLinearConv", 10), ("QLinearMatMul", 10),
    ("RegexFullMatch", 20), ("ReverseSequence", 10), ("RoiAlign", 10), ("Round", 11), ("STFT", 17),
    ("Scan", 8), ("Scatter", 9), ("ScatterElements", 11), ("SequenceAt", 11),
    ("SequenceConstruct", 11), ("SequenceEmpty", 11), ("SequenceErase", 11), ("SequenceInsert", 11),
    ("SequenceLength", 11), ("Shrink", 9), ("Sign", 9), ("Sin", 7), ("Sinh", 9), ("SplitToSequence", 11),
    ("StringConcat", 20), ("StringNormalizer", 10), ("StringSplit", 20), ("Tan", 7), ("TensorScatter", 24),
    ("TfIdfVectorizer", 9), ("ThresholdedRelu", 10), ("Unique", 11), ("Where", 9),
})  # fmt: skip
"""Operators that begin with a version and cannot be expressed before it."""

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


def has_to_adapt(op_type: str, version: int) -> bool:
    """Whether the step down from ``version`` may change a node that has the older version's form and types."""
    if (op_type, version) in DOWN:
        return (op_type, version) not in SHOWN_BY_FORM
    step = _step(op_type, version)
    return step.adapter is not None or step.blocked is not None


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
