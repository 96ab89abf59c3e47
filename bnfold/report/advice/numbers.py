"""Advice on reasons that are about sizes, types and numbers that a fold depends on."""

from __future__ import annotations

from bnfold.report.advice.example import KEEP, ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

NUMBERS: dict[Reason, Advice] = {
    Reason.AXIS: Advice(
        "The affine differs along one axis and the layer there has one factor for each position of another: a "
        "MatMul over the last axis cannot scale channels on axis 1.",
        "Nothing in most models. Where a Transpose puts the channels back a little later, the search goes through"
        " it by itself; the detail names the operator that mixes the axes.",
        model(
            "(float[1,2,4] x) => (float[1,2,4] y)",
            "c = MatMul (x, k)",
            norm("c", "y"),
            constants=f"float[4,4] k = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, {PARAMETERS}",
        ),
    ),
    Reason.NOT_STATIC: Advice(
        "Whether the rewrite is right depends on a size, a shape or an index that is only known when the model runs.",
        "Fix the dims of the inputs before folding (onnxruntime.tools.make_dynamic_shape_fixed, or export with "
        "static shapes), so that shape inference knows the sizes in between.",
        model(
            "(float[1,2,4,4] x, int64[4] size) => (float[A,B,C,D] y)",
            "c = Conv (x, w)",
            "r = Reshape (c, size)",
            norm("r", "y"),
        ),
    ),
    Reason.RANK_UNKNOWN: Advice(
        "How many axes the value has is not known, so nobody can say which one the channel is. Operators of other"
        " domains hide it from shape inference.",
        "Add the missing annotation to the graph's value_info, or run the exporter's symbolic shape inference first.",
        model("(float[1,2,4,4] x) => (float y)", "c = local.Plugin (x)", norm("c", "y"), constants=PARAMETERS),
    ),
    Reason.SHIFT_THROUGH_PADDING: Advice(
        "A border of constants (mostly zeros) is put around the value on the way. Moved past it, the shift would "
        "act on the border too, and along the edges the result would be wrong; many tools fold here all the same."
        " A border that could take the shift itself would need one value for each channel, and it has one for "
        "all.",
        "Nothing without changing the network: normalise after the padding, or let the convolution do the "
        "padding, which bnfold folds with an Add in the place of the BatchNormalization.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,6,6] y)",
            norm("x", "n"),
            "i = Identity (n)",
            "p = Pad (i, pads)",
            "y = Conv (p, w)",
            constants=f"int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}, {WEIGHT}, {PARAMETERS}",
        ),
    ),
    Reason.SHIFT_NO_ROOM: Advice(
        "The scale could move on, but the shift has nowhere to go: what is there sums, multiplies or quantizes, "
        "so that a constant added before it is not a constant added behind it.",
        "Nothing without changing the network. --decompose residual spells the BatchNormalization out.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,1,1] y)",
            "a = Sin (x)",
            norm("a", "n"),
            "r = ReduceSum <keepdims = 1> (n, axes)",
            "y = Conv (r, w)",
            constants=f"int64[2] axes = {{2, 3}}, {WEIGHT}, {PARAMETERS}",
        ),
    ),
    Reason.NEGATIVE_SCALE: Advice(
        "A channel's scale is negative, and the operator on the way takes maxima or cuts at zero: turning the "
        "sign before it is not the same as turning it behind it. In DenseNets and pre-activation ResNets this is "
        "what ends the way down, at the Relu, while upward the value has other readers.",
        "Nothing without retraining. The detail counts the channels and names the first; where they are dead "
        "anyway, setting their scale to zero or above in the checkpoint makes the fold possible. Where it would not, "
        "because something behind the operator takes no affine either, that is the reason told.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,2,2] y)",
            "c = Conv (x, w)",
            "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)",
            norm("p", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.replace('s = {2, 3}', 's = {2, -3}')}",
        ),
    ),
    Reason.ZERO_SCALE: Advice(
        "A channel's scale is exactly zero (it was pruned), and the shift has to be divided by the scale on this way.",
        "Remove the dead channel from the network, or give it a tiny scale in the checkpoint.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y)",
            "a = Sin (x)",
            norm("a", "n"),
            "p = PRelu (n, slope)",
            "y = Conv (p, w)",
            constants=f"float[2,1,1] slope = {{0.5, 0.25}}, {WEIGHT}, {PARAMETERS.replace('s = {2, 3}', 's = {2, 0}')}",
        ),
    ),
    Reason.RANGE: Advice(
        "The folded weight would not fit its type: a number overflows to infinity, or so many become tiny that "
        "rounding loses more than the type's own precision. float16 weights behind a large or small scale are the"
        " usual case.",
        "Fold the float32 model first and convert it to float16 afterwards.",
        model(
            "(float16[1,2,4,4] x) => (float16[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants="float16[2,2,1,1] w = {1000, 2000, 3000, 4000}, "
            + PARAMETERS.replace("float[2]", "float16[2]").replace("s = {2, 3}", "s = {200, 300}"),
        ),
    ),
    Reason.TYPE: Advice(
        "The element types there do not allow the rewrite: the weight is an integer, or a Cast on the way rounds.",
        "Fold the float32 model first and convert it afterwards.",
        model(
            "(float[1,2,4,4] x) => (float16[1,2,4,4] y)",
            "c = Sin (x)",
            norm("c", "n"),
            "h = Cast <to = 10> (n)",
            "y = Conv (h, w)",
            constants=f"float16[2,2,1,1] w = {{1, 2, 3, 4}}, {PARAMETERS}",
        ),
    ),
    Reason.TYPE_UNKNOWN: Advice(
        "What element type the value has is not known, so a constant beside it cannot be made in the right one.",
        "Add the missing annotation to the graph's value_info, or run the exporter's symbolic shape inference first.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y)",
            "c = local.Plugin (x)",
            norm("c", "n"),
            "y = local.Plugin (n)",
            constants=PARAMETERS,
        ),
        "bnfold inspect model.onnx --decompose residual",
    ),
    Reason.OPSET: Advice(
        "The rewrite needs an operator, or a form of one, that does not exist at the model's opset, and the opset"
        " was to stay.",
        "Let bnfold raise the opset: leave out --target-opset keep, or give a number.",
        model(
            "(float[3,2] x) => (float[3,2] y)",
            "c = MatMul (x, k)",
            norm("c", "y", " <is_test = 1>"),
            constants=f"float[2,2] k = {{1, 2, 3, 4}}, {PARAMETERS}",
            opset=6,
        ),
        KEEP,
    ),
    Reason.LEGACY_BROADCAST: Advice(
        "Before opset 7 Add, Mul and the like broadcast by attributes of their own, and the opset was to stay.",
        "Let bnfold raise the opset: leave out --target-opset keep. Folding follows the upgrade.",
        model(
            ONE,
            "a = Sigmoid (x)",
            norm("a", "n", " <is_test = 1>"),
            "y = Mul <broadcast = 1, axis = 1> (n, s)",
            constants=PARAMETERS,
            opset=6,
        ),
        KEEP,
    ),
}
