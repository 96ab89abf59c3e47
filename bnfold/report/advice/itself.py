"""Advice on reasons that are about what the BatchNormalization itself is."""

from __future__ import annotations

from bnfold.report.advice.example import KEEP, ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

ITSELF: dict[Reason, Advice] = {
    Reason.TRAINING_MODE: Advice(
        "In training mode the operator normalises by the mean and variance of each batch, so there is no constant to "
        "fold. Most such models were exported by mistake, while the framework was still in training mode.",
        "Export the model again in evaluation mode (model.eval(), training=False). If the stored statistics are the "
        "right ones, use --force-inference: it reads each BatchNormalization as inference, except where its batch "
        "statistics are used. The model's results change, and verification compares with the original read in the same "
        "way.",
        model(ONE, "c = Conv (x, w)", norm("c", "y", " <training_mode = 1>")),
    ),
    Reason.INSTANCE_UNPROVEN: Advice(
        "A Reshape to one row stands before the BatchNormalization, and another Reshape behind it. If the first one "
        "gives each channel of each image a channel of its own, this is an InstanceNormalization, as older exporters "
        "wrote it, and becomes one. Here the sizes, or the parameters, do not prove it; the report says which.",
        "Fix the sizes that are open, the batch size above all: --fix-shapes NAME=SHAPE. Evaluation mode changes "
        "nothing here, and --force-inference would compute something else. --decompose remaining replaces the operator "
        "by primitive ones.",
        model(
            "(float[N,1,4,4] x) => (float[K,1,4,4] y)",
            "r = Reshape (x, one)",
            norm("r", "n", " <training_mode = 1>"),
            "y = Reshape (n, back)",
            constants=f"int64[3] one = {{1, 2, -1}}, int64[4] back = {{-1, 1, 4, 4}}, {PARAMETERS}",
        ),
    ),
    Reason.DYNAMIC_PARAMETERS: Advice(
        "A scale, bias, mean or variance is a graph input, or nodes compute it that bnfold does not evaluate, so its "
        "value is unknown when the model is rewritten.",
        "Export with the parameters as weights. If they are computed from constants, store them first: --simplify "
        "does. Functions that get them from each call are inlined, if a BatchNormalization folds then.",
        model(
            "(float[1,2,4,4] x, float[2] s) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.split('}, ', 1)[1]}",
        ),
    ),
    Reason.OVERRIDABLE_PARAMETER: Advice(
        "From IR version 4 on, an initializer that is also a graph input is only a default. A caller may feed another "
        "tensor, and the folded weights would not follow.",
        "If nobody feeds it, use --overridable freeze. Exporters can leave initializers off the inputs "
        "(keep_initializers_as_inputs=False in PyTorch).",
        model("(float[1,2,4,4] x, float[2] s) => (float[1,2,4,4] y)", "c = Conv (x, w)", norm("c", "y")),
    ),
    Reason.NON_FINITE: Advice(
        "The scale 1/sqrt(variance + epsilon) or the shift is not finite: a parameter is NaN or infinite, or variance "
        "+ epsilon is not positive. Folding would spread this over whole weights.",
        "The model already computes NaN or infinity here. Look at the checkpoint: the training probably diverged, or "
        "the parameters were stored in another order.",
        model(
            ONE,
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.replace('v = {1, 1}', 'v = {1, -1}')}",
        ),
    ),
    Reason.UNREADABLE: Advice(
        "The node has inputs, outputs or attributes that no version of the operator allows, so what it computes is "
        "undefined.",
        "Check the model with onnx.checker.check_model, and export it again. Report the problem to the exporter's "
        "authors.",
        model(ONE, "c = Conv (x, w)", "y = BatchNormalization (c, s, b, m)"),
        KEEP,
    ),
    Reason.REFERENCE_ATTRIBUTE: Advice(
        "The node is inside a function, and one of its attributes is a parameter of that function: its value differs "
        "from call to call.",
        "Nothing: bnfold inlines a function if more BatchNormalizations fold then, and in this one none does.",
        model(
            ONE,
            "y = local.Block <eps = 0.1> (x)",
            constants="float unused = {0}",
            more='<domain: "local", opset_import: ["": 15]>\nBlock <eps> (x) => (y)\n{\n'
            "  one = Constant <value = float[2] {1, 1}> ()\n"
            "  c = Sin (x)\n  y = BatchNormalization <epsilon: float = @eps> (c, one, one, one, one)\n}",
        ),
    ),
}
