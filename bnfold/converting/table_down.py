"""Every step down from a version of an operator to the one before: what an adapter does, and what is refused.

What is not listed goes as it stands if it uses nothing newer. Tests compare both tables with
all schemas of the installed onnx.
"""

from __future__ import annotations

from functools import partial

from bnfold.converting import table
from bnfold.converting.adapters import (
    affine_grid,
    attention,
    attributes,
    bitwise,
    branches,
    broadcast,
    columns,
    compositions,
    computed,
    constants,
    cumulative,
    dropout,
    einsum,
    grid_sample,
    indexing,
    integer_products,
    integers,
    loops,
    norm_compositions,
    optionals,
    pooling,
    quantized,
    quantized_products,
    reshape,
    resize,
    scattering,
    softmax,
    to_attributes,
)
from bnfold.converting.node_conversion import Adapter

_SELU = {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}

DOWN: dict[tuple[str, int], Adapter] = {
    **{step: to_attributes.as_it_stands for step, adapter in table.ADAPTERS.items() if adapter is table.CONSUMED},
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
    **{(op_type, 11): to_attributes.as_it_stands for op_type in ("Softmax", "LogSoftmax", "Hardmax")},
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
    ("LpPool", 18): pooling.without_dilations,
    ("GridSample", 20): grid_sample.on_plane,
    ("GridSample", 16): grid_sample.sampled,
    ("RoiAlign", 16): attributes.output_half_pixel,
    ("Constant", 12): to_attributes.constant_value,
    ("Constant", 11): constants.dense_value,
    ("Constant", 9): constants.stored,
    ("ConstantOfShape", 9): constants.spread,
    **{(op_type, 7): broadcast.stated_axis for op_type in table.BROADCASTING},
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
    ("BitwiseAnd", 18): bitwise.common_bits,
    ("BitwiseOr", 18): bitwise.united_bits,
    ("BitwiseXor", 18): bitwise.different_bits,
    **dict.fromkeys((("BitShift", 28), ("BitShift", 11)), bitwise.moved_bits),
    ("Col2Im", 18): columns.to_image,
    ("DFT", 20): to_attributes.dft_axis,
    ("Max", 12): partial(integers.extreme, "Greater"),
    ("Min", 12): partial(integers.extreme, "Less"),
    ("Clip", 12): integers.clip,
    ("Pow", 12): integers.power,
    ("Equal", 11): integers.equal,
    ("Mod", 28): integers.floored,
    ("Mod", 10): integers.modulo,
    ("Range", 11): integers.sequence,
    ("IsNaN", 9): integers.not_a_number,
    ("Expand", 8): reshape.repeated,
    **{(op_type, 8): reshape.of_one_shape for op_type in ("Max", "Mean", "Min", "Sum")},
    **{(op_type, 7): attributes.stated_sequence for op_type in ("GRU", "LSTM", "RNN")},
    ("OneHot", 11): indexing.one_hot,
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
    ("AveragePool", 19): pooling.dilated_average,
    **{(op_type, 12): indexing.last_place for op_type in ("ArgMax", "ArgMin")},
    ("OptionalHasElement", 18): optionals.has_element,
    ("OptionalGetElement", 18): optionals.element,
    **{(op_type, 14): integers.narrow for op_type in ("Add", "Sub", "Mul", "Div")},
    ("CumSum", 11): partial(cumulative.running, "Add", 0),
    ("CumProd", 26): partial(cumulative.running, "Mul", 1),
    ("Round", 11): compositions.rounded,
    ("IsInf", 20): compositions.of_float,
    ("IsInf", 10): compositions.is_infinite,
    ("ThresholdedRelu", 10): compositions.thresholded,
    ("ScatterElements", 11): indexing.scatter,
    ("Resize", 11): resize.fixed_points,
    ("Resize", 10): resize.to_upsample,
    ("Upsample", 9): resize.stated_scales,
    ("Slice", 10): to_attributes.slice_bounds,
    ("If", 11): branches.of_one_shape,
    ("TopK", 10): partial(to_attributes.count_of, "k"),
    ("Loop", 11): loops.with_state,
    **{("ScatterElements", version): scattering.elements for version in (16, 18)},
    **{("ScatterND", version): scattering.rows for version in (16, 18)},
    ("ConvInteger", 10): integer_products.convolution,
    ("MatMulInteger", 10): integer_products.product,
    ("QLinearConv", 10): quantized_products.convolution,
    ("QLinearMatMul", 10): quantized_products.product,
}
"""The step from a version of an operator to the one before it, if a node is not valid there as it stands.

If an operator begins with the version, the step decomposes it.
"""

SHOWN_BY_FORM = frozenset({
    *(step for step, adapter in DOWN.items() if adapter is to_attributes.as_it_stands),
    ("Add", 14), ("ArgMax", 12), ("ArgMin", 12), ("AveragePool", 19), ("Clip", 12), ("Constant", 11), ("Constant", 12),
    ("Div", 14), ("Gemm", 11), ("IsInf", 20), ("LpPool", 18), ("Max", 12), ("Min", 12), ("Mul", 14), ("Sub", 14),
    ("Loop", 11), ("Reshape", 14), ("ScatterElements", 16), ("ScatterND", 16), ("Shape", 15),
})  # fmt: skip
"""Steps whose adapter changes no node that has the older version's form and types."""

ONE_WAY = frozenset({
    ("GRU", 3), ("GlobalLpPool", 2), ("LpPool", 2), ("Scan", 9), ("Tile", 6), ("Upsample", 7),
})  # fmt: skip
"""Steps that can be made upwards only; downwards, the node is refused."""

BEGIN = frozenset({
    ("Acos", 7), ("Acosh", 9), ("Asin", 7), ("Asinh", 9), ("Atan", 7), ("Atanh", 9), ("Bernoulli", 15),
    ("BitCast", 26),
    ("Compress", 9), ("ConcatFromSequence", 11), ("Cos", 7), ("Cosh", 9),
    ("DFT", 17), ("DeformConv", 19), ("Det", 11),
    ("Erf", 9), ("EyeLike", 9),
    ("ImageDecoder", 20),
    ("MaxUnpool", 9), ("MeanVarianceNormalization", 9), ("MelWeightMatrix", 17), ("Multinomial", 7),
    ("NonMaxSuppression", 10), ("NonZero", 9), ("OneHot", 9), ("Optional", 15), ("OptionalGetElement", 15),
    ("OptionalHasElement", 15),
    ("RegexFullMatch", 20), ("ReverseSequence", 10), ("RoiAlign", 10), ("STFT", 17),
    ("Scan", 8), ("Scatter", 9), ("SequenceAt", 11),
    ("SequenceConstruct", 11), ("SequenceEmpty", 11), ("SequenceErase", 11), ("SequenceInsert", 11),
    ("SequenceLength", 11), ("Shrink", 9), ("Sign", 9), ("Sin", 7), ("Sinh", 9), ("SplitToSequence", 11),
    ("StringConcat", 20), ("StringNormalizer", 10), ("StringSplit", 20), ("Tan", 7), ("TensorScatter", 24),
    ("TfIdfVectorizer", 9), ("Unique", 11), ("Where", 9),
})  # fmt: skip
"""Operators that begin with a version and cannot be expressed before it."""


def has_to_adapt(op_type: str, version: int) -> bool:
    """Whether the step down from ``version`` may change a node that has the older version's form and types."""
    if (op_type, version) in DOWN:
        return (op_type, version) not in SHOWN_BY_FORM
    (step,) = table.steps(op_type, version - 1, version)
    return step.adapter is not None or step.blocked is not None
