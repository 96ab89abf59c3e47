"""How a scale and shift pass each operator, in words: the table of docs/folding.md, and `bnfold explain OPERATOR`.

A test compares the rows with that table, another one with the records in `bnfold.folding.ops`.
"""

from __future__ import annotations

from typing import NamedTuple

LIKEWISE = "likewise"
"""In place of the second text: the first one holds in both directions."""


class Passing(NamedTuple):
    """One row of the table: what it is called there, the operators it is about, and both directions in a few words."""

    title: str
    operators: tuple[str, ...]
    up: str
    down: str

    def texts(self) -> tuple[str, str]:
        """Return both texts, each on its own feet."""
        return self.up, self.up if self.down == LIKEWISE else self.down


def _row(title: str, operators: str, up: str, down: str = LIKEWISE) -> Passing:
    return Passing(title, tuple(operators.split()), up, down)


ROWS: tuple[Passing, ...] = (
    _row(
        "Conv, any rank and group",
        "Conv",
        "output channels of W, the bias",
        "input channels of W, the bias; under zero padding the scale, an Add of `t/s` stays",
    ),
    _row(
        "ConvTranspose, any group",
        "ConvTranspose",
        "output channels of W, the bias",
        "input channels of W; the shift through 1×1 kernels",  # noqa: RUF001 - it is one
    ),
    _row(
        "DeformConv",
        "DeformConv",
        "output channels of W, the bias",
        "input channels of W; an Add of `t/s` stays",
    ),
    _row(
        "LSTM, GRU, RNN",
        "LSTM GRU RNN",
        "not",
        "the input weights W, and the bias of their products",
    ),
    _row(
        "Gemm",
        "Gemm",
        "B's N axis and C, with alpha, beta, transposes and every shape of C",
        "B's K axis and C",
    ),
    _row(
        "MatMul, onnxruntime's FusedMatMul, an Einsum of two operands",
        "MatMul FusedMatMul Einsum",
        "a constant operand, right or left; the shift makes it a Gemm or stays as an Add",
        "a constant operand",
    ),
    _row(
        "onnxruntime's FusedConv",
        "FusedConv",
        "as a Conv, where no activation but Relu or LeakyRelu is in it; behind these, positive scales, and an Add "
        "stays",
        "as a Conv",
    ),
    _row(
        "BatchNormalization, InstanceNormalization, GroupNormalization-21, LayerNormalization",
        "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization",
        "their scale and bias",
        "BatchNormalization's parameters; InstanceNormalization lets shifts vanish",
    ),
    _row(
        "DequantizeLinear of a weight, stored as integers or behind a QuantizeLinear: one scale, by channel or by "
        "block",
        "DequantizeLinear QuantizeLinear",
        "its scale, one for all becomes one for each channel; the integers stay",
        "",
    ),
    _row(
        "QuantizeLinear and DequantizeLinear of an activation",
        "QuantizeLinear DequantizeLinear",
        "one positive factor into DequantizeLinear's scale",
        "one power of two into QuantizeLinear's",
    ),
    _row(
        "products of integers, as dynamic quantization leaves them",
        "",
        "the constant that their scales are multiplied with; an Add takes the shift",
        "",
    ),
    _row(
        "constant Mul, Add, Sub, Div, Neg",
        "Mul Add Sub Div Neg",
        "move along, or take it into their constants",
    ),
    _row(
        "Add, Sub, Sum",
        "Add Sub Sum",
        "every operand",
        "a shift; a scale, if the other operands carry it too or take its inverse",
    ),
    _row(
        "Max, Min, Mean of several values",
        "Max Min Mean",
        "every operand",
        "all operands need the same scale and shift",
    ),
    _row(
        "Where",
        "Where",
        "both operands, a constant one in its numbers",
        "both operands need the same scale and shift, or one is constant",
    ),
    _row(
        "Concat, Split",
        "Concat Split",
        "each operand its slice",
    ),
    _row(
        "Relu, LeakyRelu, PRelu, Abs",
        "Relu LeakyRelu PRelu Abs",
        "where all scales are positive; an Add stays for the shift",
    ),
    _row(
        "Clip",
        "Clip",
        "its bounds move, where they stay one number for all channels",
    ),
    _row(
        "Mish",
        "Mish",
        "not: no factor passes it",
    ),
    _row(
        "AveragePool, GlobalAveragePool, MaxPool, GlobalMaxPool, Reduce*",
        "AveragePool GlobalAveragePool MaxPool GlobalMaxPool ReduceMean ReduceSum ReduceMax ReduceMin",
        "along axes that are not mixed; extrema where all scales are positive",
    ),
    _row(
        "Pad, Resize, Upsample, GridSample",
        "Pad Resize Upsample GridSample",
        "where weights sum to one, or the border is copied; a scale also where it is zero",
    ),
    _row(
        "Identity, Dropout, Flatten, Reshape, Squeeze, Unsqueeze, Transpose, Slice, Gather, Tile, Expand, "
        "DepthToSpace, SpaceToDepth, ReverseSequence, an Einsum of one operand, widening Cast and CastLike",
        "Identity Dropout Flatten Reshape Squeeze Unsqueeze Transpose Slice Gather Tile Expand DepthToSpace "
        "SpaceToDepth ReverseSequence Einsum Cast CastLike",
        "element by element",
    ),
)
