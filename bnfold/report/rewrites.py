"""Every rewrite: the name that options and reports give it, a title for people, and how equal its result is.

A result is equal bit for bit, or up to rounding: the same sum in another order, or a number that is rounded elsewhere.
Finders and reports take a rewrite from here, and docs/rewrites.md and `bnfold explain NAME` are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

BIT_FOR_BIT, UP_TO_ROUNDING = "equal bit for bit", "equal up to rounding"


class Rewrite(NamedTuple):
    """One rewrite.

    Attributes:
        name: Its identity, in lower case with hyphens.
        title: What people read; each ``{}`` stands for an operator, which `of` fills in.
        what: What it does, as a sentence.
        rounds: Why numbers may differ in their last digits; empty if no bit does.
    """

    name: str
    title: str
    what: str
    rounds: str = ""

    @property
    def is_bitwise(self) -> bool:
        """Whether results are equal bit for bit; a NaN stays a NaN."""
        return not self.rounds

    @property
    def statement(self) -> str:
        """How equal the result is, and why."""
        return statement(self.rounds)

    @property
    def general_title(self) -> str:
        """The title for any operator."""
        return self.of("…", "…").title

    def of(self, *operators: str) -> Rewrite:
        """Return the same with the operators in its title."""
        return self._replace(title=self.title.format(*operators))


def statement(rounds: str) -> str:
    """Return how equal a result is, and why."""
    return f"{UP_TO_ROUNDING}: {rounds}" if rounds else BIT_FOR_BIT


_SUM = "runtimes add the numbers of a sum in another order"
_WEIGHTS = "each new weight is computed in float64 and rounded once"

SIMPLIFYING: list[Rewrite] = []
"""What leaves fewer nodes."""
FOLDING: list[Rewrite] = []
"""What changes weights, or writes a normalization in another way."""


def _registered(rewrites: list[Rewrite], name: str, title: str, what: str, rounds: str = "") -> Rewrite:
    """Register a rewrite among those of its kind."""
    rewrites.append(Rewrite(name, title, what, rounds))
    return rewrites[-1]


_simplifies = partial(_registered, SIMPLIFYING)
_folds = partial(_registered, FOLDING)

IDENTITY = _simplifies("remove-identity", "Identity", "An Identity is left out.")
DROPOUT = _simplifies(
    "inference-dropout", "Dropout of inference", "A Dropout that is not in training mode is left out."
)
CAST_TO_OWN = _simplifies(
    "cast-to-own-type", "Cast to its own type", "A Cast to the type that its input has is left out."
)
CAST_PAIR = _simplifies(
    "cast-pair", "Cast pair", "Two Casts go, the first to a type that has every number, the second back."
)
CAST_AFTER_CAST = _simplifies(
    "cast-after-cast", "Cast after another", "Two Casts become one, if the first loses no number."
)
CAST_LIKE = _simplifies("castlike-cast", "CastLike → Cast", "A CastLike becomes a Cast, if the type is known.")
FILL_CAST = _simplifies(
    "fill-cast",
    "ConstantOfShape + Cast → ConstantOfShape",
    "A ConstantOfShape makes the type to which a Cast brings it, if that type has the number.",
)
BOUNDS = _simplifies(
    "bounds-clip",
    "Clip of two bounds",
    "Two of Relu, Clip, Max and Min, one from below and one from above, are one Clip.",
)
NEUTRAL = _simplifies(
    "neutral-operand", "{} without effect", "Arithmetic goes whose constant returns the other operand."
)
WHERE = _simplifies(
    "where-one-side", "Where without effect", "A Where that takes all elements from one operand is left out."
)
ALONE = _simplifies(
    "single-operand", "{} without effect", "Concat, Sum, Mean, Max, Min or Split of one value is left out."
)
SLICE_ALL = _simplifies("slice-all", "Slice without effect", "A Slice that takes everything is left out.")
PAD_NOTHING = _simplifies("pad-nothing", "Pad without effect", "A Pad that adds nothing is left out.")
SAME_SHAPE = _simplifies("same-shape", "{} without effect", "Reshape and the like go, if the shape is the one before.")
EXPAND_NOTHING = _simplifies(
    "expand-nothing", "{} without effect", "An Expand or Tile that repeats nothing is left out."
)
TRANSPOSE_NOTHING = _simplifies(
    "transpose-nothing", "Transpose without effect", "A Transpose that moves no axis is left out."
)
SIZE_KNOWN = _simplifies(
    "size-known", "{} size known", "The target of a Reshape or Expand is stored, as far as it is known."
)
RESHAPE_PAIR = _simplifies(
    "reshape-pair", "Reshape pair", "Reshapes in a row go, if the last one restores the first shape."
)
RESHAPE_AFTER_RESHAPE = _simplifies(
    "reshape-after-reshape", "Reshape after another", "Two Reshapes in a row become one."
)
SQUEEZE_PAIR = _simplifies("squeeze-pair", "{} pair", "Two Squeezes, or two Unsqueezes, in a row become one.")
TRANSPOSE_PAIR = _simplifies("transpose-pair", "Transpose pair", "Two Transposes go, if the second undoes the first.")
TRANSPOSE_AFTER_TRANSPOSE = _simplifies(
    "transpose-after-transpose", "Transpose after another", "Two Transposes in a row become one."
)
JOINED_AXES = _simplifies(
    "transpose-joined-axes",
    "Transpose of joined axes",
    "A Reshape that joins axes, a Transpose, and a Reshape that parts them again become one Transpose.",
)
SLICE_AFTER_SLICE = _simplifies("slice-after-slice", "Slice after another", "Two Slices in a row become one.")
PICKED = _simplifies(
    "pick-one", "{} + {} → Gather", "One element along an axis, whose axis goes or comes behind it, is one Gather."
)
CONCAT_AFTER_CONCAT = _simplifies(
    "concat-after-concat", "Concat after another", "Two Concats along one axis become one."
)
STACKED = _simplifies(
    "unsqueeze-concat",
    "Unsqueeze + Concat → Concat + Reshape",
    "Values that each get the axis along which they are joined are joined first; one Reshape parts the axis.",
)
EMPTY_OPERAND = _simplifies(
    "empty-operand", "empty operand of Concat", "A Concat loses constants that have no elements."
)
REDUCTION_AXES = _simplifies(
    "reduction-axes", "{0} + {1} → {0}", "A reduction keeps its axes, or drops them, as the node behind it does."
)
EXPAND_BROADCAST = _simplifies(
    "expand-broadcast", "Expand before {}", "An Expand goes before an operator that broadcasts to the same shape."
)
ZERO_STATES = _simplifies("zero-states", "{} from zeros", "An RNN, GRU or LSTM loses initial states that are zero.")
DUPLICATE = _simplifies("duplicate-node", "duplicate node", "Of two equal nodes with equal inputs one is left out.")
IF_DECIDED = _simplifies("if-decided", "If decided", "An If whose condition is known becomes the branch that it takes.")
SHAPE_STORED = _simplifies(
    "known-integers", "shape computation known", "Integers that follow from known sizes are stored."
)
UNREAD_NODE = _simplifies("unread-node", "unread node", "A node whose outputs nothing reads is left out.")
UNREAD_RESULT = _simplifies(
    "unread-result",
    "unread result of {}",
    "Results of If, Loop, Scan and functions that nothing reads go, with what only they need in the bodies.",
)
UNREAD_WEIGHT = _simplifies("unread-weight", "unread weight", "A weight that nothing reads is left out.")
CONSTANT_STORED = _simplifies("constant-node", "Constant → initializer", "A Constant node becomes an initializer.")
RESULT_STORED = _simplifies(
    "constant-result",
    "result of constants stored",
    "What is computed from constants only is stored.",
    "it is computed in float64 and rounded once, where a runtime rounds at every step",
)
EXPAND_MATMUL = _simplifies(
    "expand-matmul",
    "Expand + MatMul → MatMul",
    "An Expand goes whose result a MatMul would broadcast anyway.",
    _SUM,
)
MATMUL_RESHAPED = _simplifies(
    "matmul-reshaped",
    "{} + MatMul → MatMul",
    "A MatMul by a matrix takes the axes in front as they are: what joins them, and parts them behind it, goes.",
    _SUM,
)
MATMUL_ADD = _simplifies(
    "matmul-add-gemm", "MatMul + Add → Gemm", "A MatMul and the Add of a bias become one Gemm.", _SUM
)
CONVOLUTION_ADD = _simplifies(
    "conv-add-bias", "{0} + Add → {0}", "What is added behind a Conv or ConvTranspose becomes its bias.", _SUM
)
PAD_CONV = _simplifies(
    "pad-conv",
    "Pad + Conv → Conv",
    "A Conv takes over the zeros that a Pad puts around its input.",
    "runtimes compute a padded convolution in another order",
)
PAD_POOL = _simplifies(
    "pad-pool",
    "Pad + {0} → {0}",
    "A MaxPool or AveragePool takes over what a Pad puts around its input.",
    "runtimes compute a padded average in another order",
)
GROUP_NORM = _simplifies(
    "group-normalization",
    "GroupNormalization",
    "Reshape, InstanceNormalization, Reshape, Mul and Add become one GroupNormalization.",
    "its factors are multiplied, and its sums added, in another order",
)

FOLD = _folds(
    "batchnorm-fold",
    "BatchNormalization folded",
    "The scale and shift of a BatchNormalization go into weights near it; with --exchange, an Add may stay.",
    _WEIGHTS,
)
ARITHMETIC_FOLD = _folds(
    "arithmetic-fold",
    "constant arithmetic folded",
    "Mul, Div, Add, Sub and Neg by constants go into weights.",
    _WEIGHTS,
)
MERGE = _folds("branch-merge", "branches merged", "Parallel convolutions that are added up become one.", _WEIGHTS)
PRODUCTS = _folds("product-merge", "products merged", "Two matrix products in a row become one.", _WEIGHTS)
SPLIT = _folds(
    "batchnorm-split",
    "BatchNormalization behind Concat split",
    "The channels that a weight in front of a Concat can take are folded; a smaller BatchNormalization stays.",
    _WEIGHTS,
)
DEAD_SHIFT = _folds(
    "dead-shift",
    "bias without effect",
    "A bias goes that an InstanceNormalization behind it subtracts again.",
    "a mean is subtracted that has the bias in it, and its sum is rounded",
)
INSTANCE = _folds(
    "training-instancenorm",
    "BatchNormalization → InstanceNormalization",
    "A BatchNormalization in training mode between two Reshapes becomes the InstanceNormalization that it is.",
    _SUM,
)
EQUALIZE = _folds(
    "equalize-channels",
    "channels equalized",
    "A factor for each channel goes into one layer, and its inverse into the next.",
    _WEIGHTS,
)
CHANNELS = _folds(
    "dead-channels",
    "channels removed",
    "Channels go that are constant, or that every weight which reads them multiplies by zero.",
    "it is equal for finite values, and what a channel added to a sum is in a bias",
)
DECOMPOSE = _folds(
    "decompose-normalization",
    "{} decomposed",
    "A BatchNormalization or InstanceNormalization is written in primitive operators.",
    "each of the operators rounds its result",
)

NAMED = {rewrite.name: rewrite for rewrite in (*SIMPLIFYING, *FOLDING)}
"""All rewrites but conversions, which are named after their operator."""


def _named(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


BITWISE_FORMS = _named(
    "ArgMax ArgMin Clip Compress Concat DepthToSpace Dropout Flatten Hardmax LogSoftmax ReduceL1 ReduceL2",
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Slice",
    "Softmax SpaceToDepth Split Squeeze Unsqueeze",
)
"""Operators whose versions differ in form only: attributes become inputs, and the like."""
BITWISE_COMPOSITIONS = _named(
    "Add ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CastLike CenterCropPad Clip",
    "DepthToSpace Div Equal GatherElements GatherND GreaterOrEqual Hardmax IsInf IsNaN LessOrEqual Max",
    "Min Mul Pad ReduceMax ReduceMin Reshape Scatter ScatterElements ScatterND Shape Slice Split Squeeze Sub",
    "Trilu Unsqueeze",
)
"""Operators whose other forms move, choose and compare elements, or compute with integers (the arithmetic ones)."""
_ROUNDS = "runtimes compute the other form in other steps"


def conversion(operator: str, *, decomposed: bool) -> Rewrite:
    """Return the conversion of an operator to another version of itself, or of nodes into other operators."""
    if decomposed:
        what = f"{operator} is written in other operators, which the wanted opset has."
        rounds = "" if operator in BITWISE_COMPOSITIONS else _ROUNDS
        return Rewrite(f"decompose-{operator.lower()}", f"{operator} in other operators", what, rounds)
    what = f"{operator} is written as the wanted opset has it."
    rounds = "" if operator in BITWISE_FORMS else _ROUNDS
    return Rewrite(f"convert-{operator.lower()}", f"{operator} converted", what, rounds)


def rewrite_named(name: str, operator: str) -> Rewrite | None:
    """Return the rewrite of a name, which may be a conversion of ``operator``."""
    kinds = (conversion(operator, decomposed=decomposed) for decomposed in (False, True)) if operator else ()
    return NAMED.get(name) or next((rewrite for rewrite in kinds if rewrite.name == name), None)


def how_to_disable(name: str) -> str:
    """Say how a rewrite is left out, or that it cannot be."""
    if name not in NAMED:
        return "It cannot be left out: the opset needs it."
    return f'Leave it out with --disable {name}, or Options(disable={{"{name}"}}).'


def unknown_name(name: str) -> str:
    """Say why there is no such rewrite to leave out, and what the name is like; empty if there is one."""
    if name in NAMED:
        return ""
    kind, _, operator = name.partition("-")
    names = {known.lower() for known in _operators()} if kind in _CONVERSIONS else set()
    if operator in names:
        return f"{name!r} is a conversion, which the opset needs; choose another opset"
    near = get_close_matches(name.lower(), NAMED, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`bnfold explain` lists the names"
    return f"there is no rewrite {name!r}; {hint}"


_CONVERSIONS = ("convert", "decompose")


def _operators() -> set[str]:
    """Return the names of ONNX's operators."""
    import onnx

    return {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}


def equality(row: Mapping[str, Any]) -> str:
    """Return how equal the result of a rewrite is, from its row in a report."""
    return BIT_FOR_BIT if row["bitwise"] else UP_TO_ROUNDING


def wrong_rewrites(names: Sequence[str]) -> str:
    """Say that rewrites were left out because the result differed: of several, at least two are wrong."""
    one = len(names) == 1
    what = f"the rewrite {names[0]} gives" if one else f"at least two of the rewrites {', '.join(names)} give"
    left = "It was" if one else "All were"
    return f"{what} a wrong result for this model. {left} left out. This is a bug in bnfold; please report it"
