"""What rewriting knows of operators: a record each, and the sets of operators that follow.

They hold in the default domain and in every version. Most say how the shape and type of the first output follow from
the inputs. Verification has records of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

_RECORDS = """
Abs                        type unsigned once
Acos                       type
Acosh                      type
Add                        broadcast affine combine once
AffineGrid                 sizes
And                        broadcast once
ArgMax                     places
ArgMin                     places
Asin                       type
Asinh                      type
Atan                       type
Atanh                      type
Attention                  products
AveragePool                channels window
BatchNormalization         type
Bernoulli                  draw
BitShift                   broadcast
BitwiseAnd                 broadcast
BitwiseOr                  broadcast
BitwiseXor                 broadcast
Cast                       dims once
CastLike                   dims
Ceil                       type once
Celu                       type
CenterCropPad              sizes
Clip                       type once
Col2Im                     sizes
Compress                   choose
Concat                     rank move once
ConstantOfShape            counted sizes once
Conv                       window weighted factor=1
ConvInteger                factor=1
ConvTranspose              window weighted factor=1
Cos                        type unsigned
Cosh                       type unsigned
CumSum                     type
DFT                        products sizes
DeformConv                 products
DequantizeLinear           dims
Div                        broadcast affine once
Dropout                    type
Einsum                     products
Elu                        type
Equal                      broadcast compare once
Erf                        type
Exp                        type unsigned
Expand                     move sizes once
Flatten                    reshape once
Floor                      type once
GRU                        factor=1
Gather                     move choose once
GatherElements             choose
GatherND                   choose
Gelu                       type
Gemm                       weighted factor=0
GlobalAveragePool          channels counted
GlobalLpPool               channels counted
GlobalMaxPool              channels counted
Greater                    broadcast compare once
GreaterOrEqual             broadcast compare once
GroupNormalization         type normalise
HardSigmoid                type
HardSwish                  type
Hardmax                    type
Identity                   type once
InstanceNormalization      type normalise
IsInf                      dims
IsNaN                      dims
LRN                        type
LSTM                       factor=1
LayerNormalization         type normalise
LeakyRelu                  type
Less                       broadcast compare once
LessOrEqual                broadcast compare once
LinearAttention            products
Log                        type
LogSoftmax                 type unsigned
LpNormalization            type normalise
LpPool                     channels window
MatMul                     weighted factor=0
MatMulInteger              factor=0
Max                        broadcast combine once
MaxPool                    channels window
Mean                       broadcast combine
MeanVarianceNormalization  type normalise
Min                        broadcast combine once
Mish                       type
Mod                        broadcast once
Mul                        broadcast affine once
Multinomial                draw
Neg                        type affine once
NonZero                    places
Not                        type once
OneHot                     sizes
Or                         broadcast once
PRelu                      type broadcast
Pad                        rank move sizes
Pow                        broadcast
QLinearConv                factor=3
QLinearMatMul              factor=0
QuantizeLinear             dims
RMSNormalization           type normalise
RNN                        factor=1
RandomNormal               draw
RandomNormalLike           draw
RandomUniform              draw
RandomUniformLike          draw
Range                      counted sizes once
Reciprocal                 type
ReduceL1                   reduce unsigned
ReduceL2                   reduce unsigned
ReduceLogSum               reduce
ReduceLogSumExp            reduce
ReduceMax                  reduce once
ReduceMean                 reduce
ReduceMin                  reduce once
ReduceProd                 reduce
ReduceSum                  reduce
ReduceSumSquare            reduce unsigned
Relu                       type once
Reshape                    reshape sizes once
Resize                     sizes
ReverseSequence            type
Round                      type once
STFT                       products
ScatterElements            type
ScatterND                  type
Selu                       type
Shape                      unsigned places
Shrink                     type
Sigmoid                    type unsigned
Sign                       type
Sin                        type
Sinh                       type
Size                       unsigned places
Slice                      move choose sizes once
Softmax                    type unsigned
Softplus                   type
Softsign                   type
Split                      move sizes once
Sqrt                       type
Squeeze                    reshape sizes once
Sub                        broadcast affine combine once
Sum                        broadcast combine
Tan                        type
Tanh                       type
ThresholdedRelu            type
Tile                       move sizes once
TopK                       sizes
Transpose                  rank rearrange once
Trilu                      type
Unsqueeze                  reshape sizes once
Upsample                   sizes
Where                      broadcast once
Xor                        broadcast once
"""

OPERATORS: Mapping[str, frozenset[str]] = {
    name: frozenset(words) for name, *words in map(str.split, _RECORDS.strip().splitlines())
}
"""The words of each operator's record, which the sets below explain."""


def _with(*words: str) -> frozenset[str]:
    return frozenset(name for name, record in OPERATORS.items() if not record.isdisjoint(words))


KEEPS_SHAPE = _with("type", "dims")
"""The first output has the dims of the first input."""
KEEPS_TYPE = _with("type")
"""The first output has the dims and the element type of the first input."""
KEEPS_CHANNELS = KEEPS_SHAPE | _with("channels")
"""The first output has the sizes of axes 0 and 1 of the first input."""
KEEPS_RANK = KEEPS_CHANNELS | _with("rank")
"""The first output has as many axes as the first input."""
RESHAPING = _with("reshape")
"""Every element of the first input is an element of the output, in the same order."""
REARRANGING = _with("reshape", "rearrange")
"""Every element of the first input is an element of the output, elsewhere."""
MOVING = _with("reshape", "rearrange", "move")
"""Every element of the output is one of the first input, or of others that are put beside it."""
COUNTED = _with("counted")
"""Inference finds no negative size of the output, unless the input has one."""
WINDOWED = _with("window")
"""A window of ``kernel_shape`` or of a weight's last axes moves over all axes but two."""
BROADCASTING = _with("broadcast")
"""Element by element over operands that are broadcast to one shape."""
ARITHMETIC = _with("affine")
"""Affines of the one operand that is no constant; but for what divides by it."""
COMPARING = _with("compare")
"""Comparisons of two numbers; -0.0 and 0.0 are equal."""
COMBINING = _with("combine")
"""Operators whose operands are broadcast to one shape, all on one scale."""
WEIGHTED = _with("weighted")
"""Sums of products with a weight, its input 1 (or, where that is the constant one, 0)."""
FACTOR = {name: slot for slot in (0, 1, 3) for name in _with(f"factor={slot}")}
"""Sums of products, and the input whose dims say how many there are for an element of the other."""
OTHER_PRODUCTS = _with("products")
"""Sums of products whose number no one input says."""
STATES = {
    **dict.fromkeys(("RNN", "GRU"), (5,)),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), (5, 6)),
}
"""Recurrent operators, and their inputs of one state for each direction, batch and hidden unit; left out, it is 0."""
DRAWING = _with("draw")
"""Operators that draw random numbers."""
NORMALISING = _with("normalise")
"""Operators that normalise by statistics of their input."""
LIKE = {"DynamicQuantizeLSTM": "LSTM"}
"""Operators of com.microsoft, and those of the default domain that make results of the same types and shapes."""
CHOOSING = _with("choose")
"""The output has those elements of the first input that the other inputs say."""
REDUCING = _with("reduce")
"""Axes are left out, or get the size 1."""
READS_VALUES = _with("reduce", "sizes")
"""The dims of the output follow from the values of an input."""
COUNTING = _with("places")
"""Integers that are places or sizes: none is negative."""
BLIND_TO_ZERO_SIGN = COMPARING | _with("unsigned")
"""Operators that make the same of -0.0 and of 0.0."""
ROUNDING_ONCE = _with("once")
"""Operators that every runtime computes alike: they move or compare numbers, or round one exact result.

Roots and reciprocals are not among them: many runtimes approximate them."""
