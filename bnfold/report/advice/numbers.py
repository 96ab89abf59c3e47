"""Advice on reasons that are about sizes, types and numbers that a fold depends on."""

from __future__ import annotations

from bnfold.report.advice.example import KEEP, ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

NUMBERS: dict[Reason, Advice] = {
    Reason.AXIS: Advice(
        "The BatchNormalization scales one axis, and the operator there mixes the elements along it or can only scale "
        "another one. For example, a MatMul over the last axis cannot scale channels on axis 1.",
        "Usually nothing. If a Transpose soon moves the channels back, the search goes through it by itself. The "
        "detail names the operator that mixes the axes.",
        model(
            "(float[1,2,4] x) => (float[1,2,4] y)",
            "c = MatMul (x, k)",
            norm("c", "y"),
            constants=f"float[4,4] k = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, {PARAMETERS}",
        ),
    ),
    Reason.NOT_STATIC: Advice(
        "Whether the rewrite is correct depends on a size, a shape or an index that is known only at run time.",
        "Fix the input shapes (--fix-shapes NAME=1,3,224,224, or export with static "
        "shapes), so that shape inference can find the sizes in between.",
        model(
            "(float[1,2,4,4] x, int64[4] size) => (float[A,B,C,D] y)",
            "c = Conv (x, w)",
            "r = Reshape (c, size)",
            norm("r", "y"),
        ),
    ),
    Reason.RANK_UNKNOWN: Advice(
        "The number of axes of the value is unknown, so bnfold cannot tell which axis holds the channels. Shape "
        "inference cannot see through operators of other domains.",
        "If the reason says that shape inference fails, shapes contradict each other there, and the model most likely "
        "cannot run at all: export it again. Else add the missing annotation to the graph's value_info, or run the "
        "exporter's symbolic shape inference first.",
        model("(float[1,2,4,4] x) => (float y)", "c = local.Plugin (x)", norm("c", "y"), constants=PARAMETERS),
    ),
    Reason.SHIFT_THROUGH_PADDING: Advice(
        "The value is padded with a constant (usually zero) on the way. If the shift moved past the padding, it would "
        "not apply to the border, and results along the edges would be wrong. Many tools fold here all the same. A "
        "border could take the shift only with one value per channel, and it has a single one.",
        "Nothing without changing the network: normalise after the padding, or let the convolution do the padding. "
        "With --exchange always, bnfold then folds and leaves an Add in place of the BatchNormalization.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,6,6] y)",
            norm("x", "n"),
            "i = Identity (n)",
            "p = Pad (i, pads)",
            "r = Relu (p)",
            "y = Conv (r, w)",
            constants=f"int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}, {WEIGHT}, {PARAMETERS}",
        ),
    ),
    Reason.SHIFT_NO_ROOM: Advice(
        "The scale could move on, but the shift could not: the next operator sums, multiplies or quantizes, and adding "
        "a constant before it is not the same as adding one behind it.",
        "Nothing without changing the network. --decompose remaining replaces the BatchNormalization by primitive "
        "operators.",
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
        "A channel's scale is negative, and the operator on the way takes a maximum or clips at zero: flipping the "
        "sign before it is not the same as flipping it behind it. In DenseNets and pre-activation ResNets, the Relu "
        "stops folding into later layers in this way, and other readers of the value stop folding into earlier ones.",
        "Nothing without retraining. The detail counts these channels and lists the first. If they are dead "
        "anyway, set their scale to zero or above in the checkpoint. If even that would not help, because a later "
        "operator blocks the fold too, bnfold reports that operator's reason instead.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,2,2] y)",
            "c = Conv (x, w)",
            "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)",
            norm("p", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.replace('s = {2, 3}', 's = {2, -3}')}",
        ),
    ),
    Reason.ZERO_SCALE: Advice(
        "A channel's scale is exactly zero (the channel was pruned), and this fold has to divide the shift by the "
        "scale.",
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
    Reason.ZERO_SIGN: Advice(
        "The BatchNormalization multiplies by 1 and adds 0. That still turns -0 into 0, and a node behind it shows the "
        "difference: 1 divided by -0 is minus infinity. A fold into a weight rounds, and a zero may have either sign "
        "then; here no weight is needed, and all else would stay the same to the bit.",
        "Remove the node from the network if no zero arrives there, or if infinities of both signs are alike to you.",
        model(
            ONE,
            "a = Tanh (x)",
            norm("a", "n", " <epsilon = 0.0>"),
            "y = Reciprocal (n)",
            constants=PARAMETERS.replace("s = {2, 3}, float[2] b = {1, 1}", "s = {1, 1}, float[2] b = {0, 0}"),
        ),
    ),
    Reason.RANGE: Advice(
        "The folded weight does not fit its type: a number overflows to infinity, or so many become tiny that rounding "
        "loses more than the type's own precision. This is common for float16 weights with a very large or small "
        "scale.",
        "Fold the float32 model first, then convert it to float16.",
        model(
            "(float16[1,2,4,4] x) => (float16[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants="float16[2,2,1,1] w = {1000, 2000, 3000, 4000}, "
            + PARAMETERS.replace("float[2]", "float16[2]").replace("s = {2, 3}", "s = {200, 300}"),
        ),
    ),
    Reason.TYPE: Advice(
        "The element types do not allow the rewrite: the weight is an integer, or a Cast on the way rounds.",
        "Fold the float32 model first, then convert it.",
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
        "The element type of the value is unknown, so bnfold cannot create a constant of the right type for it.",
        "Add the missing annotation to the graph's value_info, or run the exporter's symbolic shape inference first.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y)",
            "c = local.Plugin (x)",
            norm("c", "n"),
            "y = local.Plugin (n)",
            constants=PARAMETERS,
        ),
        "bnfold inspect model.onnx --decompose remaining",
    ),
    Reason.OPSET: Advice(
        "The rewrite needs an operator, or a version of one, that the model's opset does not have, and the opset was "
        "to be kept.",
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
        "Before opset 7, Add, Mul and similar operators broadcast by attributes of their own, and the opset was to be "
        "kept.",
        "Let bnfold raise the opset: leave out --target-opset keep. Folding then follows the upgrade.",
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
