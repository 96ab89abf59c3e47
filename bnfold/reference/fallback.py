"""Operators without a kernel: by the function that onnx defines them as, or by onnx's reference implementation.

A row is added only after its versions were checked against the operator text and the onnx package's own test cases,
or against onnxruntime; `tests/reference/test_fallback.py` repeats the comparison.
"""

# ruff: noqa: ARG005 - every condition takes the call and all inputs, whether it asks about them or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.reference.precision import Datum
from bnfold.reference.registry import Attribute, Call, EvaluateModel, Kernel, KernelDeclined, KernelResult, require

PROVEN: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "BlackmanWindow"): (17,),
    ("", "CenterCropPad"): (18,),
    ("", "Col2Im"): (18,),
    ("", "DFT"): (17, 20),
    ("", "Det"): (11, 22),
    ("", "HammingWindow"): (17,),
    ("", "HannWindow"): (17,),
    ("", "MelWeightMatrix"): (17,),
    ("", "MaxUnpool"): (9, 11, 22),
    ("", "NonMaxSuppression"): (10, 11),
    ("", "ReverseSequence"): (10, 28),
    ("", "RoiAlign"): (10, 16, 22),
    ("", "RotaryEmbedding"): (23,),
    ("", "STFT"): (17,),
    ("", "StringConcat"): (20,),
    ("", "StringSplit"): (20,),
    ("", "TensorScatter"): (24,),
    ("", "TfIdfVectorizer"): (9,),
}


LATER: dict[tuple[str, int], tuple[int, dict[str, Attribute]]] = {
    ("RoiAlign", 10): (16, {"coordinate_transformation_mode": "output_half_pixel"}),
}
"""Versions that onnx's implementation gets wrong or has not, but which are another version with attributes fixed."""


FUNCTIONS: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "AffineGrid"): (20,),
    ("", "Attention"): (23, 24, 25),
    ("", "CausalConvWithState"): (27,),
    ("", "DynamicQuantizeLinear"): (11,),
    ("", "LinearAttention"): (27,),
    ("", "MeanVarianceNormalization"): (9, 13),
    ("", "NegativeLogLikelihoodLoss"): (12, 13, 22),
    ("", "SoftmaxCrossEntropyLoss"): (12, 13),
    ("", "Shrink"): (9,),
    ("", "SwiGLU"): (28,),
    ("", "Swish"): (24,),
    ("", "ThresholdedRelu"): (10, 22),
}
"""Operators whose schema holds a function of other operators, which the evaluator runs by its own kernels."""


LEGAL: dict[str, Callable[..., bool]] = {
    "AffineGrid": lambda call, theta, size: theta.shape == (size[0], len(size) - 2, len(size) - 1),
    "Attention": lambda call, q, k, v, *rest: (
        len(q) == len(k) == len(v) and k.shape[1:-1] == v.shape[1:-1] and (q.ndim == 3 or q.shape[3] == k.shape[3])
    ),
    "MaxUnpool": lambda call, x, places, *rest: places.min(initial=0) >= 0,
    "NegativeLogLikelihoodLoss": lambda call, x, classes, *rest: (
        ((classes >= 0) | (classes == call.attr("ignore_index"))).all() and classes.shape == x.shape[:1] + x.shape[2:]
    ),
    "ReverseSequence": lambda call, x, lengths: lengths.min() >= 0 and lengths.max() <= x.shape[call.attr("time_axis")],
    "RoiAlign": lambda call, x, rois, images: images.min(initial=0) >= 0,
    "TensorScatter": lambda call, cache, update, starts=None: (
        starts is None or call.attr("mode") == "circular" or starts.min() >= 0
    ),
}
LEGAL["SoftmaxCrossEntropyLoss"] = LEGAL["NegativeLogLikelihoodLoss"]
"""What the text asks of the inputs, and neither of the two looks at."""


def is_listed(domain: str, op: str, version: int) -> bool:
    """Whether there is a kernel around onnx's function, or its implementation."""
    return version in FUNCTIONS.get((domain, op), ()) or version in PROVEN.get((domain, op), ())


def find_fallback(domain: str, op: str, version: int, evaluate: EvaluateModel) -> Kernel | None:
    """Return a kernel around onnx's function, or its implementation, if that version is on a list."""
    if version in FUNCTIONS.get((domain, op), ()):
        return partial(run_function, evaluate)
    return run_fallback if version in PROVEN.get((domain, op), ()) else None


def run_fallback(call: Call, *inputs: Datum) -> KernelResult:
    """Evaluate a one-node model with onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    opset, fixed = LATER.get((call.op, call.version), (call.opset, {}))
    model, feeds = _one_node(call, inputs, opset, fixed)
    try:
        results = iter(ReferenceEvaluator(model).run(None, feeds))
    except (RuntimeError, AssertionError, AttributeError) as error:
        raise KernelDeclined(f"onnx's reference implementation fails: {' '.join(str(error).split())}") from error
    return tuple(next(results) if name else None for name in model.graph.node[0].output)


def run_function(evaluate: EvaluateModel, call: Call, *inputs: Datum) -> KernelResult:
    """Evaluate the function in the operator's schema."""
    defaults = {name: value for name, value in call.defaults.items() if not call.has(name)}  # functions have none
    model, feeds = _one_node(call, inputs, call.opset, defaults)
    node = model.graph.node[0]
    schema: Any = onnx.defs.get_schema(call.op, call.opset, call.domain)  # onnx's stubs lack two of its members
    if schema.has_function:
        model.functions.append(schema.function_body)
    else:
        types = [_type(value).SerializeToString() for value in inputs]
        text = schema.get_context_dependent_function(node.SerializeToString(), types)
        require(text, "onnx has no function for its types", KernelDeclined)
        model.functions.append(onnx.FunctionProto.FromString(text))
    results = evaluate(ir.load(model), feeds, precision=call.precision, policy=call.policy)
    return tuple(results.get(name) for name in node.output)


def _type(value: Datum) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _one_node(
    call: Call, inputs: Sequence[Datum], opset: int, fixed: dict[str, Attribute]
) -> tuple[onnx.ModelProto, dict[str, Datum]]:
    """Return a model of the call's node alone, and what to feed it; ``fixed`` are attributes besides its own."""
    require(call.op not in LEGAL or LEGAL[call.op](call, *inputs), "inputs that its text does not allow")
    names = ["" if value is None else f"x{index}" for index, value in enumerate(inputs)]
    outputs = [f"y{index}" if named else "" for index, named in enumerate(call.named)]
    node = onnx.helper.make_node(call.op, names, outputs, domain=call.domain, **_attributes(call), **fixed)
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names if name],
        [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in outputs if name],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(call.domain, opset)])
    return model, {name: value for name, value in zip(names, inputs, strict=True) if name}


def _attributes(call: Call) -> dict[str, Attribute]:
    attrs = dict(call.attrs)
    for name, value in attrs.items():
        if isinstance(value, np.ndarray):
            attrs[name] = onnx.numpy_helper.from_array(value)
        elif not isinstance(value, (int, float, str, list, onnx.TensorProto)):
            raise KernelDeclined(f"attribute {name!r} cannot be handed on")
    return attrs
