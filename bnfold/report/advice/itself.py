"""Advice on reasons that are about what the BatchNormalization itself is."""

from __future__ import annotations

from bnfold.report.advice.example import KEEP, ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

ITSELF: dict[Reason, Advice] = {
    Reason.TRAINING_MODE: Advice(
        "In training mode the operator normalises by the mean and variance of the batch it is given, not by "
        "stored numbers, so there is nothing constant to fold. Models for inference seldom mean it: most were "
        "exported while the framework was still in training mode.",
        "Export the model again in evaluation mode (model.eval(), training=False). If you know that the stored "
        "statistics are meant, --force-inference reads every BatchNormalization whose statistics nobody reads "
        "that way; the numbers change, and verification compares with the model so read.",
        model(ONE, "c = Conv (x, w)", norm("c", "y", " <training_mode = 1>")),
    ),
    Reason.DYNAMIC_PARAMETERS: Advice(
        "A scale, bias, mean or variance is computed while the model runs, or is handed in from outside, so the "
        "affine is not known when the model is rewritten.",
        "Export with the parameters as weights. In a function they are often the function's inputs: inline the "
        "functions first, then each call has its own constants.",
        model(
            "(float[1,2,4,4] x, float[2] s) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.split('}, ', 1)[1]}",
        ),
    ),
    Reason.OVERRIDABLE_PARAMETER: Advice(
        "From IR version 4 on, an initializer that is listed among the graph's inputs too is only a default: a "
        "caller may feed another tensor, and the folded weights would not follow.",
        "If nobody feeds it, say so with --overridable freeze. Exporters have a switch to leave initializers off "
        "the inputs (keep_initializers_as_inputs=False in PyTorch).",
        model("(float[1,2,4,4] x, float[2] s) => (float[1,2,4,4] y)", "c = Conv (x, w)", norm("c", "y")),
    ),
    Reason.NON_FINITE: Advice(
        "The scale 1/sqrt(variance + epsilon) or the shift is not a finite number, because a parameter is NaN or "
        "infinite or the variance is negative beyond epsilon. Folding would spread it over whole weights.",
        "The model gives NaN or infinity at this place already. Look at the checkpoint: the training probably "
        "diverged, or the parameters were stored in another order.",
        model(
            ONE,
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=f"{WEIGHT}, {PARAMETERS.replace('v = {1, 1}', 'v = {1, -1}')}",
        ),
    ),
    Reason.UNREADABLE: Advice(
        "The node has inputs, outputs or attributes that no version of the operator allows, so nobody can say "
        "what it computes.",
        "Check the model with onnx.checker.check_model and export it again. Tell the exporter's authors.",
        model(ONE, "c = Conv (x, w)", "y = BatchNormalization (c, s, b, m)"),
        KEEP,
    ),
    Reason.REFERENCE_ATTRIBUTE: Advice(
        "The node stands in a function, and one of its attributes is a parameter of that function: its value "
        "differs from call to call.",
        "Inline the function (onnx.inliner.inline_local_functions) and run bnfold again.",
        model(
            ONE,
            "y = local.Block <eps = 0.1> (x)",
            constants="float unused = {0}",
            more='<domain: "local", opset_import: ["": 15]>\nBlock <eps> (x) => (y)\n{\n'
            "  w = Constant <value = float[2,2,1,1] {1, 2, 3, 4}> ()\n  one = Constant <value = float[2] {1, 1}> ()\n"
            "  c = Conv (x, w)\n  y = BatchNormalization <epsilon: float = @eps> (c, one, one, one, one)\n}",
        ),
    ),
}
