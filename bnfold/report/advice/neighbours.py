"""Advice on reasons that concern other producers, consumers or owners of a value that a fold would change."""

from __future__ import annotations

from bnfold.report.advice.example import ONE, PARAMETERS, WEIGHT, Advice, model, norm
from bnfold.report.reasons import Reason

NEIGHBOURS: dict[Reason, Advice] = {
    Reason.GRAPH_INPUT: Advice(
        "The search towards earlier layers reached a graph input. No weight before it could take the scale and shift.",
        "Usually nothing is wrong: a BatchNormalization at the model's input can only fold into later layers. Look up "
        "in the report what stopped the search in that direction. You can also normalise the data before feeding it.",
        model(ONE, "y = BatchNormalization (x, s, b, m, v)", constants=PARAMETERS),
    ),
    Reason.GRAPH_OUTPUT: Advice(
        "The value is a graph output. Callers see it, so it must not change, and no scale or shift can move past it.",
        "If nobody needs that output, remove it from the graph's outputs. Often it was added for debugging.",
        model("(float[1,2,4,4] x) => (float[1,2,4,4] c, float[1,2,4,4] y)", "c = Conv (x, w)", norm("c", "y")),
    ),
    Reason.SHARED_VALUE: Advice(
        "Another node reads the same value. Folding into the layer that computes it would change the input of that "
        "node too, and it cannot undo that: the detail says what is in the way. In DenseNets and pre-activation "
        "ResNets one BatchNormalization of each stage folds all the same; the signs of the others differ from it.",
        "Usually nothing: the network is built that way. If your toolchain does not accept BatchNormalization, "
        "--decompose remaining replaces what is left by Mul and Add.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z)",
            "c = Conv (x, w)",
            norm("c", "y"),
            "z = Sin (c)",
        ),
    ),
    Reason.BARRIER: Advice(
        "The value is computed in one graph and read in another: the body of an If, Loop or Scan, or a function. A "
        "body may run many times or never, so nothing moves across its boundary.",
        "If the control flow is constant, remove it first (onnxruntime's offline optimisation or another simplifier "
        "does this), and run bnfold again. Functions are inlined, if a BatchNormalization folds then.",
        model(
            "(float[1,2,4,4] x, bool p) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            "y = If (p) <",
            "  then_branch = yes () => (float[1,2,4,4] a) { a = BatchNormalization (c, s, b, m, v) },",
            "  else_branch = no () => (float[1,2,4,4] d) { d = Sin (c) }>",
        ),
    ),
    Reason.NO_HANDLER: Advice(
        "bnfold knows no weights of the operator that it could fold into, and a scale and shift before it is not the "
        "same as one behind it. This holds for most activation functions, Softmax, and operators of other domains, "
        "whatever weights these have.",
        "Usually nothing: next to the BatchNormalization there is nothing to fold into. --decompose remaining "
        "replaces it by Mul and Add. For an operator of another domain that bnfold does not know, "
        "bnfold.register_operator says how a scale and shift pass it.",
        model(ONE, "c = Sigmoid (x)", norm("c", "n"), "y = Sigmoid (n)", constants=PARAMETERS),
    ),
    Reason.DYNAMIC_WEIGHT: Advice(
        "The layer's weight is a graph input, or nodes compute it that bnfold does not evaluate, so it cannot be "
        "multiplied in advance.",
        "Export with the weights stored in the model. If the weight is a default that nobody overrides, use "
        "--overridable freeze. If it is computed from constants, store it first: --simplify does.",
        model(
            "(float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y)",
            "c = Conv (x, w)",
            norm("c", "y"),
            constants=PARAMETERS,
        ),
    ),
    Reason.QUANTIZED_WEIGHT: Advice(
        "The weight is stored as integers or float16, and folding would enlarge it or round it again. A quantization "
        "scale per channel can take any positive factor. A single scale can become one per channel only from opset 13 "
        "on. A negative factor needs integers that can all be negated (not -128 in int8). A quantization scale along "
        "another axis, or a weight behind a Cast, takes no factor.",
        "Fold the float model first, then quantize it: the quantizer then sees one layer instead of two. Quantize "
        "weights symmetrically, with one scale per output channel and without -128.",
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
        "A QuantizeLinear and a DequantizeLinear stand between the BatchNormalization and the layer, as quantizers put "
        "them around every layer that they know. Folding would make them round other numbers. A DequantizeLinear in "
        "front of the BatchNormalization can take one positive factor for all channels, a QuantizeLinear behind it a "
        "power of two; neither can take a shift, or a factor per channel.",
        "Fold the float model first, then quantize it: the quantizer then sees one layer instead of two.",
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
        "Several layers use one weight, and only one of them is followed by this BatchNormalization. Folding needs a "
        "second copy of the weight, which would enlarge the model beyond the limit. Or the weight is computed from "
        "smaller constants, or from some that others need too, and is stored nowhere so far.",
        "Raise the limit with --max-growth BYTES; the report says how many bytes are needed.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,3,3] y, float[1,2,3,3] z)",
            "c = Conv (x, w)",
            norm("c", "y"),
            "d = Sin (x)",
            "z = Conv (d, w)",
            constants=f"float[2,2,2,2] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, {PARAMETERS}",
        ),
        "bnfold inspect model.onnx --max-growth 0",
    ),
    Reason.SUBGRAPH_STATISTICS: Advice(
        "A node that reads the value computes statistics from it, or several outputs that depend on it in different "
        "ways. Moving the scale and shift would change them.",
        "Nothing: one normalisation behind another is part of the network's design.",
        model(
            ONE,
            "a = Sin (x)",
            norm("a", "n"),
            "y = InstanceNormalization (n, s, b)",
            constants=PARAMETERS,
        ),
    ),
    Reason.UNUSED_OUTPUT: Advice(
        "An operator on the way has a second output that is used, or at least named, such as the indices of a MaxPool. "
        "The rewrite would change it, or bnfold cannot prove that it does not.",
        "If nobody reads that output, remove it; some exporters leave unused outputs behind.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,2,2] y, int64[1,2,2,2] where)",
            "c = Conv (x, w)",
            "p, where = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)",
            norm("p", "y"),
        ),
    ),
    Reason.UNEQUAL_BRANCHES: Advice(
        "Convolutions of one value that are added up can be one convolution, as in RepVGG and MobileOne. These cannot: "
        "they differ in groups, strides or channels, or the window of one does not lie inside that of the largest. A "
        "branch without a convolution needs as many channels behind the sum as before it, and no stride.",
        "Usually nothing: the network is built that way. If the branches come from a training form whose paper merges "
        "them, compare their pads, strides and dilations in the exported file with the original code.",
        model(
            ONE,
            "c = Conv (x, w)",
            "g = Conv <group = 2> (x, d)",
            norm("x", "n"),
            "y = Sum (c, g, n)",
            constants=f"{WEIGHT}, float[2,1,1,1] d = {{1, 2}}, {PARAMETERS}",
        ),
    ),
    Reason.EXCLUDED: Advice(
        "--only or --except keeps this operator out of folding.",
        "Remove --except for this operator, or add the operator to --only.",
        model(ONE, "c = Conv (x, w)", norm("c", "y")),
        "bnfold inspect model.onnx --except Conv",
    ),
    Reason.DISABLED: Advice(
        "--disable names the rewrite that would take the BatchNormalization out.",
        "Remove the rewrite's name from --disable.",
        model(ONE, "c = Conv (x, w)", norm("c", "y")),
        "bnfold inspect model.onnx --disable batchnorm-fold",
    ),
    Reason.NO_GAIN: Advice(
        "The scale finds a weight, but the shift does not: an Add would take the BatchNormalization's place, which is "
        "one operator on as many elements too. Runtimes are no faster with it; many are slower, because they fuse a "
        "BatchNormalization with the Relu behind it. An Add on fewer elements, behind a pooling or a stride, is put "
        "there by default. The same reason stands where nothing reads the result.",
        "Usually nothing: there is nothing to save here. If your target knows no BatchNormalization, --decompose "
        "remaining puts the Add there.",
        model(
            "(float[1,2,4,4] x) => (float[1,2,4,4] y)",
            norm("x", "n"),
            "y = Conv <pads = [1, 1, 1, 1]> (n, w)",
            constants=f"float[2,2,3,3] w = {{{', '.join(map(str, range(1, 37)))}}}, {PARAMETERS}",
        ),
    ),
    Reason.TOO_FAR: Advice(
        "The search gave up after following the value over more nodes than a useful fold should need.",
        "Simplify chains of reshapes and identities first. If this happens in a real network, please report it.",
        model(
            ONE,
            "c0 = Conv (x, w)",
            *(f"c{index} = AveragePool <kernel_shape = [1, 1]> (c{index - 1})" for index in range(1, 70)),
            norm("c69", "y"),
        ),
    ),
}
