"""Advice on reasons that are about who else makes, reads or holds what a fold would change."""

from __future__ import annotations

from bnfold.report.advice.example import ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

NEIGHBOURS: dict[Reason, Advice] = {
    Reason.GRAPH_INPUT: Advice(
        "The search went up and came to a value that is fed from outside. There is no weight before it that could"
        " take the affine.",
        "Usually nothing is wrong: a BatchNormalization at the very front can only fold into what reads it. See "
        "the other direction of the search for what stopped it there. Normalising the data before feeding it is "
        "the other way.",
        model(ONE, "y = BatchNormalization (x, s, b, m, v)", constants=PARAMETERS),
    ),
    Reason.GRAPH_OUTPUT: Advice(
        "The value is an output of the graph. Callers see it, so it must stay what it is, and an affine cannot be"
        " moved past it.",
        "If nobody needs that output, remove it from the graph's outputs. Feature taps that exporters add for "
        "debugging are the usual case.",
        model("(float[1,2,4,4] x) => (float[1,2,4,4] c, float[1,2,4,4] y)", "c = Conv (x, w)", norm("c", "y")),
    ),
    Reason.SHARED_VALUE: Advice(
        "Another node reads the same value and wants it as it is; were the affine folded into what makes it, that"
        " node would see other numbers. DenseNets and pre-activation ResNets have one in every block.",
        "Mostly nothing: the network is built that way. --decompose residual turns what is left into a Mul and an"
        " Add where a toolchain cannot stand BatchNormalization at all.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z)",
            "c = Conv (x, w)",
            norm("c", "y"),
            "z = Sin (c)",
        ),
    ),
    Reason.BARRIER: Advice(
        "The value is made in one graph and read in another: the body of an If, Loop or Scan, or a function. A "
        "body may run many times or never, so nothing is moved across its edge.",
        "Simplify the control flow away if it is constant (onnxruntime's offline optimisation or another "
        "simplifier does this), or inline the function, and run bnfold again.",
        model(
            "(float[1,2,4,4] x, bool p) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            "y = If (p) <",
            "  then_branch = yes () => (float[1,2,4,4] a) { a = BatchNormalization (c, s, b, m, v) },",
            "  else_branch = no () => (float[1,2,4,4] d) { d = Sin (c) }>",
        ),
    ),
    Reason.NO_HANDLER: Advice(
        "The operator that the search came to has no weights that could take the affine, and does not commute "
        "with one either: most activation functions, Softmax, operators of other domains.",
        "Mostly nothing: a BatchNormalization behind an activation is part of the network's design. Fold from the"
        " other side is tried by itself. --decompose residual spells it out as Mul and Add.",
        model(ONE, "c = Sigmoid (x)", norm("c", "n"), "y = Sigmoid (n)", constants=PARAMETERS),
    ),
    Reason.DYNAMIC_WEIGHT: Advice(
        "The layer that could take the affine has a weight that is an input of the graph or computed at run time,"
        " so it cannot be multiplied in advance.",
        "Export with the weights stored in the model. If the weight is a default that nobody overrides, use "
        "--overridable freeze; if it is computed from constants, run a constant folder first.",
        model(
            "(float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=PARAMETERS,
        ),
    ),
    Reason.QUANTIZED_WEIGHT: Advice(
        "The weight is stored as integers or float16, and folding would make it larger or round it again. A scale for "
        "each channel takes any positive factor; one for all needs opset 13 to become one for each; a negative factor "
        "needs integers that have negatives; a scale along another axis, or a weight behind a Cast, takes none.",
        "Fold before quantizing: the float model first, then the quantizer, which then sees one layer in place of two. "
        "A quantized model is best made with a scale for each output channel, symmetric and without -128.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y)",
            "w = DequantizeLinear (q, d)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants="int8[2,2,1,1] q = {1, 2, 3, -128}, float d = {0.1}, "
            + PARAMETERS.replace("s = {2, 3}", "s = {2, -3}"),
        ),
    ),
    Reason.QUANTIZED_ACTIVATION: Advice(
        "A QuantizeLinear and a DequantizeLinear stand between the affine and the layer, as quantizers put them around "
        "every layer that they know. What they round would be rounded elsewhere. One positive factor for all channels "
        "goes into a DequantizeLinear before it, a power of two into a QuantizeLinear behind it; a shift, or a factor "
        "for each channel, into neither.",
        "Fold before quantizing: bnfold first, then the quantizer, which then sees one layer in place of two.",
        model(
            ONE,
            "c = Conv (x, w)",
            "q = QuantizeLinear (c, d)",
            "e = DequantizeLinear (q, d)",
            norm("e", "y"),
            constants=f"{WEIGHT}, float d = {{0.1}}, {PARAMETERS}",
        ),
    ),
    Reason.SHARED_WEIGHT: Advice(
        "Several layers use one weight, and only one of them is followed by this affine. Folding needs a second "
        "copy of the weight, which makes the model larger than the limit allows.",
        "--max-growth BYTES says how much larger the model may become; the report names the bytes.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z)",
            "c = Conv (x, w)",
            norm("c", "y"),
            "d = Sin (x)",
            "z = Conv (d, w)",
        ),
        "bnfold inspect model.onnx --max-growth 0",
    ),
    Reason.SUBGRAPH_STATISTICS: Advice(
        "What reads the value computes statistics of its own from it, or makes several outputs that depend on it "
        "in different ways; they would not be what they were.",
        "Nothing: two normalisations behind each other are part of the network's design.",
        model(
            ONE,
            "a = Sin (x)",
            norm("a", "n"),
            "y = InstanceNormalization (n, s, b)",
            constants=PARAMETERS,
        ),
    ),
    Reason.UNUSED_OUTPUT: Advice(
        "The operator on the way has a second output that somebody reads or that is at least named, such as the "
        "indices of a MaxPool, and the rewrite would change it or cannot say that it does not.",
        "Remove the output if nobody reads it; exporters leave it behind.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,2,2] y, int64[1,2,2,2] where)",
            "c = Conv (x, w)",
            "p, where = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)",
            norm("p", "y"),
        ),
    ),
    Reason.EXCLUDED: Advice(
        "You asked that this operator take no part in folding.",
        "Leave out --except OP, or add the operator to --only.",
        model(ONE, "c = Conv (x, w)", norm("c", "y")),
        "bnfold inspect model.onnx --except Conv",
    ),
    Reason.NO_GAIN: Advice(
        "The fold is possible, but would leave as many operations in the graph as it takes out, or nothing reads "
        "the result at all.",
        "Nothing: the model is as cheap as it gets here.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] z)",
            "z = Sin (x)",
            "c = Conv (x, w)",
            norm("c", "y"),
            "u = Sin (c)",
        ),
    ),
    Reason.TOO_FAR: Advice(
        "The search followed the value over more nodes than any sensible fold needs, and gave up.",
        "Simplify chains of reshapes and identities first. If a real network comes to this, please report it.",
        model(
            ONE,
            *(f"c{index} = Identity (c{index - 1})" if index else "c0 = Conv (x, w)" for index in range(70)),
            norm("c69", "y"),
        ),
    ),
}
