"""Operator traits: how the shape and type of the first output follow from the inputs. Sets of operators by trait.

They hold in the default domain and in every version. They say nothing about the numbers that an operator computes.
"""

from __future__ import annotations


def _named(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


KEEPS_SHAPE = _named(
    "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization Cast CastLike Ceil Celu Clip Cos Cosh CumSum",
    "DequantizeLinear Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity",
    "InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization",
    "MeanVarianceNormalization Mish Neg Not PRelu QuantizeLinear RMSNormalization Reciprocal Relu ReverseSequence",
    "Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh",
    "ThresholdedRelu Trilu",
)
"""The first output has the dims of the first input."""
KEEPS_TYPE = KEEPS_SHAPE - _named("Cast CastLike DequantizeLinear IsInf IsNaN QuantizeLinear")
"""The first output has the dims and the element type of the first input."""
KEEPS_CHANNELS = KEEPS_SHAPE | _named("AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool")
"""The first output has the sizes of axes 0 and 1 of the first input."""
KEEPS_RANK = KEEPS_CHANNELS | _named("Concat Pad Transpose")
RESHAPING = _named("Flatten Reshape Squeeze Unsqueeze")
"""Every element of the first input is an element of the output, in the same order."""
REARRANGING = RESHAPING | _named("Transpose")
"""Every element of the first input is an element of the output, elsewhere."""
MOVING = REARRANGING | _named("Concat Expand Gather Pad Slice Split Tile")
"""Every element of the output is one of the first input, or of others that are put beside it."""
COUNTED = _named("ConstantOfShape GlobalAveragePool GlobalLpPool GlobalMaxPool Range")
"""Inference finds no negative size of the output, unless the input has one."""
WINDOWED = _named("AveragePool Conv ConvTranspose LpPool MaxPool")
"""A window of ``kernel_shape`` or of a weight's last axes moves over all axes but two."""
BROADCASTING = _named(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min",
    "Mod Mul Or PRelu Pow Sub Sum Where Xor",
)
"""Element by element over operands that are broadcast to one shape."""
ARITHMETIC = _named("Add Div Mul Neg Sub")
"""Affines of the one operand that is no constant; but for what divides by it."""
COMPARING = _named("Equal Greater GreaterOrEqual Less LessOrEqual")
"""Comparisons of two numbers; -0.0 and 0.0 are equal."""
COMBINING = _named("Add Max Mean Min Sub Sum")
"""Operators whose operands are broadcast to one shape, all on one scale."""
WEIGHTED = _named("Conv ConvTranspose Gemm MatMul")
"""Sums of products with a weight, its input 1 (or, where that is the constant one, 0)."""
FACTOR = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "RNN", "GRU", "LSTM"), 1),
    **dict.fromkeys(("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"), 0),
    "QLinearConv": 3,
}
"""Sums of products, and the input whose dims say how many there are for an element of the other."""
OTHER_PRODUCTS = _named("Attention DFT DeformConv Einsum LinearAttention STFT")
"""Sums of products whose number no one input says."""
STATES = {
    **dict.fromkeys(("RNN", "GRU"), (5,)),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), (5, 6)),
}
"""Recurrent operators, and their inputs of one state for each direction, batch and hidden unit; left out, it is 0."""
DRAWING = _named("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike")
"""Operators that draw random numbers."""
NORMALISING = _named(
    "GroupNormalization InstanceNormalization LayerNormalization LpNormalization MeanVarianceNormalization",
    "RMSNormalization",
)
"""Operators that normalise by statistics of their input."""
LIKE = {"DynamicQuantizeLSTM": "LSTM"}
"""Operators of com.microsoft, and those of the default domain that make results of the same types and shapes."""
CHOOSING = _named("Compress Gather GatherElements GatherND Slice")
"""The output has those elements of the first input that the other inputs say."""
REDUCING = _named(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
READS_VALUES = REDUCING | _named(
    "AffineGrid CenterCropPad Col2Im ConstantOfShape DFT Expand OneHot Pad Range Reshape Resize Slice Split Squeeze",
    "Tile TopK Unsqueeze Upsample",
)
"""The dims of the output follow from the values of an input."""
BLIND_TO_ZERO_SIGN = COMPARING | {
    *("Abs", "Cos", "Cosh", "Exp", "LogSoftmax", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
    *("Shape", "Sigmoid", "Size", "Softmax"),
}
"""Operators that make the same of -0.0 and of 0.0."""
ROUNDING_ONCE = frozenset(
    {
        *(
            "Abs",
            "Add",
            "And",
            "Cast",
            "Ceil",
            "Clip",
            "Concat",
            "ConstantOfShape",
            "Div",
            "Equal",
            "Expand",
            "Flatten",
        ),
        *(
            "Floor",
            "Gather",
            "Greater",
            "GreaterOrEqual",
            "Identity",
            "Less",
            "LessOrEqual",
            "Max",
            "Min",
            "Mod",
            "Mul",
            "Neg",
        ),
        *("Not", "Or", "Range", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Round", "Slice", "Split"),
        *("Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where", "Xor"),
    }
)
"""Operators that every runtime computes alike: they move or compare numbers, or round one exact result.

Roots and reciprocals are not among them: many runtimes approximate them."""
