"""What the reference and verification know of operators: a record each, written from the operators' texts.

Rewriting has records of its own, and neither imports the other's: an operator that one of them takes for another kind
is then a difference that shows. The records hold in the default domain and in every version. They say nothing about
the numbers that an operator computes: the kernels do.
"""

from __future__ import annotations

from collections.abc import Mapping

_RECORDS = """
Abs                        dims pieces unsigned constant
Acos                       dims
Acosh                      dims
Add                        broadcast affine constant
AffineGrid                 sizes
And                        broadcast truth constant
Asin                       dims
Asinh                      dims
Atan                       dims
Atanh                      dims
AveragePool                channels window
BatchNormalization         dims
Bernoulli                  draw
BitShift                   broadcast
BitwiseAnd                 broadcast
BitwiseNot                 dims
BitwiseOr                  broadcast
BitwiseXor                 broadcast
Cast                       dims constant
CastLike                   dims
Ceil                       dims constant
Celu                       dims
CenterCropPad              sizes
Clip                       dims pieces constant
Col2Im                     sizes
Compress                   choose
Concat                     move constant
ConstantOfShape            sizes constant
Conv                       window product
ConvTranspose              window product
Cos                        dims unsigned constant
Cosh                       dims unsigned
CumProd                    dims
CumSum                     dims
DFT                        sizes
DequantizeLinear           dims constant
Div                        broadcast affine singular constant
Dropout                    dims
Elu                        dims pieces
Equal                      broadcast compare unsigned constant
Erf                        dims
Exp                        dims unsigned constant
Expand                     move sizes constant
Flatten                    move rearrange reshape constant
Floor                      dims constant
Gather                     move choose constant
GatherElements             choose constant
GatherND                   choose
Gelu                       dims
Gemm                       product constant
GlobalAveragePool          channels
GlobalLpPool               channels
GlobalMaxPool              channels pieces
Greater                    broadcast compare unsigned constant
GreaterOrEqual             broadcast compare unsigned constant
GroupNormalization         dims normalise
HardSigmoid                dims pieces
HardSwish                  dims pieces
Hardmax                    dims
Identity                   dims constant
InstanceNormalization      dims normalise
IsInf                      dims
IsNaN                      dims
LRN                        dims
LayerNormalization         dims normalise
LeakyRelu                  dims pieces
Less                       broadcast compare unsigned constant
LessOrEqual                broadcast compare unsigned constant
Log                        dims constant
LogSoftmax                 dims unsigned
LpNormalization            dims normalise
LpPool                     channels window
MatMul                     product constant
Max                        broadcast pieces constant
MaxPool                    channels window pieces
Mean                       broadcast constant
MeanVarianceNormalization  dims normalise
Min                        broadcast pieces constant
Mish                       dims
Mod                        broadcast constant
Mul                        broadcast affine constant
Multinomial                draw
Neg                        dims affine constant
Not                        dims truth constant
OneHot                     sizes
Or                         broadcast truth constant
PRelu                      dims broadcast pieces
Pad                        move sizes constant
Pow                        broadcast singular constant
QuantizeLinear             dims constant
RMSNormalization           dims normalise
RandomNormal               draw
RandomNormalLike           draw
RandomUniform              draw
RandomUniformLike          draw
Range                      sizes constant
Reciprocal                 dims singular constant
ReduceL1                   reduce sizes unsigned constant
ReduceL2                   reduce sizes unsigned constant
ReduceLogSum               reduce sizes constant
ReduceLogSumExp            reduce sizes constant
ReduceMax                  reduce sizes pieces constant
ReduceMean                 reduce sizes constant
ReduceMin                  reduce sizes pieces constant
ReduceProd                 reduce sizes constant
ReduceSum                  reduce sizes constant
ReduceSumSquare            reduce sizes unsigned constant
Relu                       dims pieces constant
Reshape                    move rearrange reshape sizes constant
Resize                     sizes
ReverseSequence            dims
Round                      dims constant
ScatterElements            dims constant
ScatterND                  dims constant
Selu                       dims pieces
SequenceConstruct          sequence
SequenceEmpty              sequence
SequenceErase              sequence
SequenceInsert             sequence
Shape                      unsigned constant
Shrink                     dims
Sigmoid                    dims unsigned constant
Sign                       dims
Sin                        dims constant
Sinh                       dims
Size                       unsigned constant
Slice                      move choose sizes constant
Softmax                    dims unsigned
Softplus                   dims constant
Softsign                   dims
Split                      move sizes constant
SplitToSequence            sequence
Sqrt                       dims singular constant
Squeeze                    move rearrange reshape sizes constant
Sub                        broadcast affine constant
Sum                        broadcast constant
Swish                      dims
Tan                        dims
Tanh                       dims constant
ThresholdedRelu            dims
Tile                       move sizes constant
TopK                       sizes
Transpose                  move rearrange constant
Trilu                      dims constant
Unsqueeze                  move rearrange reshape sizes constant
Upsample                   sizes
Where                      broadcast constant
Xor                        broadcast truth constant
"""

OPERATORS: Mapping[str, frozenset[str]] = {
    name: frozenset(words) for name, *words in map(str.split, _RECORDS.strip().splitlines())
}
"""The words of each operator's record, which the sets below explain."""


def _with(*words: str) -> frozenset[str]:
    return frozenset(name for name, record in OPERATORS.items() if not record.isdisjoint(words))


KEEPS_SHAPE = _with("dims")
"""The first output has the dims of the first input."""
KEEPS_CHANNELS = _with("dims", "channels")
"""The first output has the sizes of axes 0 and 1 of the first input."""
RESHAPING = _with("reshape")
"""Every element of the first input is an element of the output, in the same order."""
REARRANGING = _with("rearrange")
"""Every element of the first input is an element of the output, elsewhere."""
MOVING = _with("move")
"""Every element of the output is one of the first input, or of others that are put beside it."""
CHOOSING = _with("choose")
"""The output has those elements of the first input that the other inputs say: places, masks, bounds."""
WINDOWED = _with("window")
"""A window of ``kernel_shape``, or of a weight's last axes, moves over all axes but two."""
BROADCASTING = _with("broadcast")
"""Element by element over operands that are broadcast to one shape."""
REDUCING = _with("reduce")
"""Axes are left out, or get the size 1."""
READS_VALUES = _with("sizes")
"""The numbers of some input decide the dims of the output."""
ARITHMETIC = _with("affine")
"""Affines of the one operand that is no constant; but for what divides by it."""
COMPARING = _with("compare")
"""Comparisons of two numbers; -0.0 and 0.0 are equal."""
COMBINING_TRUTHS = _with("truth")
"""Boolean operators."""
WEIGHTED = _with("product")
"""Sums of products of two inputs."""
NORMALISING = _with("normalise")
"""The input is divided by statistics of its own."""
SINGULAR = _with("singular")
"""Analytic, but another function at zero or below."""
HIDING = _with("pieces")
"""Continuous, and in pieces: on some of them, many inputs have one result."""
BLIND_TO_ZERO_SIGN = _with("unsigned")
"""The result is the same for -0.0 and 0.0."""
DRAWING = _with("draw")
"""Random numbers are drawn."""
MAKING_SEQUENCES = _with("sequence")
"""The output is a sequence of tensors."""
FOLLOWED = _with("constant")
"""Constants are computed with these; see `bnfold.reference.constants`."""
