"""What is so of an operator whoever asks: how its first output relates to its inputs. Sets of operators by trait.

Only of shapes and types, of the default domain and in every version: what an operator computes is not told here.
"""

from __future__ import annotations

KEEPS_SHAPE = frozenset(
    {"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "Cast", "CastLike", "Ceil", "Celu"}
    | {"Clip", "Cos", "Cosh", "DequantizeLinear", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "GroupNormalization"}
    | {"HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "LRN", "LayerNormalization"}
    | {"LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "Mish", "Neg", "PRelu"}
    | {"QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax"}
    | {"Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu"}
)
"""The first output has the dims of the first input."""
KEEPS_TYPE = KEEPS_SHAPE - {"Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"}
"""Its element type as well."""
KEEPS_CHANNELS = KEEPS_SHAPE | {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"}
"""Its axes 0 and 1 at least."""
KEEPS_RANK = KEEPS_CHANNELS | {"Concat", "Pad"}
REARRANGING = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Every element of the first input is an element of the output, elsewhere."""
WINDOWED = frozenset({"AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"})
"""A window of ``kernel_shape`` or of a weight's last axes moves over all axes but two."""
BROADCASTING = frozenset({"Add", "Div", "Mul", "Sub"})
"""Element by element over operands that are broadcast to one shape."""
ARITHMETIC = BROADCASTING | {"Neg"}
"""Affines of the one operand that is no constant; but for what divides by it."""
REDUCING = frozenset(
    f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
READS_VALUES = REDUCING | frozenset(
    {"AffineGrid", "CenterCropPad", "Col2Im", "ConstantOfShape", "DFT", "Expand", "OneHot", "Pad", "Range", "Reshape"}
    | {"Resize", "Slice", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample"}
)
"""The dims of the output follow from the values of an input."""
