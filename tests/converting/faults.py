"""Seeded faults of conversion: a converted model, damaged at a node or a constant that the conversion made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
QKV = "float[2, 3, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v"
MODELS: tuple[tuple[int, int, str, str], ...] = (
    (17, 15, "float[2, 3, 8] x, float[8] s, float[8] b", "y = LayerNormalization <epsilon = 0.1> (x, s, b)"),
    (17, 11, "float16[2, 3, 8] x, float16[3, 8] s", "y = LayerNormalization <axis = 1> (x, s)"),
    (23, 13, "float[2, 3, 8] x, float[8] s", "y = RMSNormalization <epsilon = 0.2> (x, s)"),
    (21, 17, "float[2, 6, 4] x, float[6] s, float[6] b", "y = GroupNormalization <num_groups = 3> (x, s, b)"),
    (18, 13, "float[2, 6, 4] x, float[2] s, float[2] b", "y = GroupNormalization <num_groups = 2> (x, s, b)"),
    (20, 13, "float[3, 40] x", "y = Gelu (x)"),
    (20, 11, "float[3, 40] x", 'y = Gelu <approximate = "tanh"> (x)'),
    (14, 13, "float[3, 40] x", "p = HardSwish (x) y = Neg (p)"),
    (18, 13, "float[3, 40] x", "y = Mish (x)"),
    (24, 13, "float[3, 40] x", "y = Swish <alpha = 1.7> (x)"),
    (12, 11, "float[3, 40] x", "y = Celu <alpha = 0.6> (x)"),
    (14, 13, "float[3, 4, 5] x", "y = Trilu <upper = 0> (x)"),
    (14, 13, "float[n, n] x", "y = Trilu (x)"),
    (12, 11, "float[2, 3, 4] x, float[4, 2, 5] z", 'y = Einsum <equation = "bij,jbk->kib"> (x, z)'),
    (23, 17, f"{QKV}, float[4, 5] m", "y = Attention <is_causal = 1> (q, k, v, m)"),
    (23, 13, "float[2, 4, 24] q, float[2, 5, 24] k, float[2, 5, 18] v",
     "y = Attention <q_num_heads = 3, kv_num_heads = 3> (q, k, v)"),
    (13, 11, "float[2, 3, 4] x", "y = Softmax <axis = 1> (x)"),
    (13, 12, "float[2, 3, 4] x", "y = LogSoftmax <axis = 0> (x)"),
    (18, 13, "float[7, 3] x", "a, c, d = Split <num_outputs = 3> (x) e = Concat <axis = 0> (d, a) y = Add (e, e)"),
    (18, 11, "float[2, n] x", "a, c = Split <axis = 1, num_outputs = 2> (x) y = Concat <axis = 1> (c, a)"),
    (18, 13, "float[2, 3, 4] x", "a = Constant <value_ints = [1]> () y = ReduceMean <keepdims = 0> (x, a)"),
    (18, 11, "float[2, 3, 4] x", "a = Constant <value_ints = [0, 2]> () y = ReduceL2 (x, a)"),
    (13, 11, "float[1, 3, 1, 4] x", "a = Constant <value_ints = [2]> () p = Squeeze (x, a) y = Neg (p)"),
    (13, 11, "float[3, 4] x", "a = Constant <value_ints = [1]> () p = Unsqueeze (x, a) y = Neg (p)"),
    (18, 13, "float[2, 3, 4] x",
     ("a = Constant <value_ints = [2, 1]> () d = Constant <value_ints = [1, 0, 2, 3]> () "
      "z = Constant <value_float = 0.5> () y = Pad (x, d, z, a)")),
    (12, 10, "float[3, 40] x",
     "a = Constant <value_float = -0.5> () c = Constant <value_float = 0.7> () y = Clip (x, a, c)"),
    (12, 11, "int64[3, 40] x, int64[40] z", "y = Max (x, z)"),
    (12, 11, "int32[3, 40] x, int32 z, int32 w", "y = Clip (x, z, w)"),
    (12, 11, "float[3, 40] x, float[40] z", "c = GreaterOrEqual (x, z) y = Where (c, x, z)"),
    (18, 13, "float[1, 2, 4, 6] x",
     "s = Constant <value_floats = [2.0, 1.5]> () y = Resize <axes = [2, 3], mode = \"linear\"> (x, , s)"),
    (13, 11, "float[2, 3, 4] x",
     ("s = Constant <value_floats = [0.1, 0.2, 0.3]> () q = QuantizeLinear <axis = 1> (x, s) "
      "y = DequantizeLinear <axis = 1> (q, s)")),
    (11, 10, "float[2, 3, 4] x", "i = Constant <value = int64[2, 2] {0, 1, 1, 2}> () y = GatherND (x, i)"),
    (11, 10, "float[4, 3] x, float[2, 3] u",
     "i = Constant <value = int64[2, 1] {3, 0}> () y = ScatterND (x, i, u)"),
    (11, 9, "float[1, 8, 2, 3] x", 'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)'),
    (10, 9, "float[5, 6] x",
     ("s = Constant <value = int64[2] {3, 0}> () e = Constant <value = int64[2] {-6, 6}> () "
      "a = Constant <value = int64[2] {0, 1}> () t = Constant <value = int64[2] {-1, 2}> () "
      "y = Slice (x, s, e, a, t)")),
    (10, 9, "int64[3, 40] x", "d = Constant <value = int64[1] {-3}> () y = Mod (x, d)"),
    (18, 17, "int32[3, 40] x", "y = BitwiseNot (x)"),
    (20, 17, "float[2, 2, 3] t", "s = Constant <value_ints = [2, 1, 3, 4]> () y = AffineGrid (t, s)"),
    (18, 17, "float[4, 7] x", "s = Constant <value_ints = [6, 3]> () y = CenterCropPad (x, s)"),
    (13, 11, "float[3, 5] x, int64[3] t", 'y = SoftmaxCrossEntropyLoss <reduction = "mean"> (x, t)'),
    (23, 17, "float[1, 2, 3, 8] x, float[1, 3, 4] c, float[1, 3, 4] s", "y = RotaryEmbedding (x, c, s)"),
    (18, 11, "float[2, 3, 4] x, int64[1] a", "y = ReduceMean (x, a)"),
    (18, 13, "float[2, 3, 4] x, int64[2] a", "y = ReduceL2 <keepdims = 0> (x, a)"),
    (18, 11, "float[2, 3, 4] x, int64[0] a", "y = ReduceMax (x, a)"),
    (13, 7, "float[2, 1, 3] x, float[4, 1] z", "y = Max (x, z)"),
    (13, 7, "float[2, 1, 3] x", "s = Constant <value_ints = [4, 1]> () y = Expand (x, s)"),
    (15, 13, "float[2, 3, 4, 5] x", "p = Shape <start = 1, end = 3> (x) y = Cast <to = 1> (p)"),
)  # fmt: skip
SIZES = (5, 3, 7)


class Fault(NamedTuple):
    """A damaged model, and how the damage is called."""

    name: str
    model: onnx.ModelProto


class DamagedNode(NamedTuple):
    """A node, the model that it is in, and what is drawn from."""

    model: onnx.ModelProto
    node: onnx.NodeProto
    rng: np.random.Generator


def parsed(opset: int, inputs: str, body: str) -> onnx.ModelProto:
    """Return the model, whose output has the type of its first input."""
    kind = inputs.split("[", maxsplit=1)[0]
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({kind} y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


def damaged(before: onnx.ModelProto, converted: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Make one change where the conversion has changed something; None if nothing was drawn that can be changed."""
    model = onnx.ModelProto.FromString(converted.SerializeToString())
    old = {node.SerializeToString() for node in before.graph.node}
    made = [node for node in model.graph.node if node.SerializeToString() not in old]
    for place in rng.permutation(len(made)):
        for change in rng.permutation(np.array(CHANGES, dtype=object)):
            if (what := change(DamagedNode(model, made[place], rng))) is not None:
                return Fault(f"{made[place].op_type}: {what}", model)
    return None


def _attribute(at: DamagedNode) -> str | None:
    """Change one attribute: an axis, the order of a permutation, keepdims, pads, a factor."""
    if not at.node.attribute:
        return None
    found = at.node.attribute[int(at.rng.integers(len(at.node.attribute)))]
    if found.type == onnx.AttributeProto.INT:
        found.i = 1 - found.i if found.name in ("keepdims", "is_test") else found.i + int(at.rng.choice([-1, 1]))
    elif found.type == onnx.AttributeProto.INTS and len(found.ints) > 1 and len(set(found.ints)) > 1:
        found.ints[:] = [*found.ints[1:], found.ints[0]]
    elif found.type == onnx.AttributeProto.INTS and found.ints:
        found.ints[0] += int(at.rng.choice([-1, 1]))
    elif found.type == onnx.AttributeProto.FLOAT:
        found.f = float(at.rng.choice([-found.f, found.f * 1.5, found.f + 0.25]))
    else:
        return None
    return f"attribute {found.name}"


def _constant(at: DamagedNode) -> str | None:
    """Change a constant that the node reads: its sign, its order, one element, its axes."""
    stored = {tensor.name: tensor for tensor in at.model.graph.initializer}
    read = [stored[name] for name in at.node.input if name in stored]
    if not read:
        return None
    tensor = read[int(at.rng.integers(len(read)))]
    array, name = numpy_helper.to_array(tensor).copy(), tensor.name
    if array.dtype == bool:
        changed, what = (array.T, "transposed") if array.shape == array.T.shape else (~array, "inverted")
    elif array.size > 1 and len(np.unique(array)) > 1 and at.rng.random() < 0.5:
        changed, what = array.reshape(-1)[::-1].reshape(array.shape), "reversed"
    elif array.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            changed, what = [(-array, "sign"), (array * 1.5, "factor"), (array * 0, "zero")][int(at.rng.integers(3))]
    else:
        changed, what = array + array.dtype.type(1), "one more"
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changed).astype(array.dtype), name))
    return f"constant {what}"


_OTHERS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Less": "Greater", "Greater": "Less", "And": "Or",
    "Or": "And", "ReduceMean": "ReduceSum", "ReduceSum": "ReduceMean", "Round": "Floor", "Floor": "Ceil",
    "Max": "Min", "Min": "Max", "Sqrt": "Abs", "Tanh": "Sigmoid", "Sigmoid": "Tanh", "Erf": "Tanh",
    "Softmax": "Identity",
}  # fmt: skip


def _operator(at: DamagedNode) -> str | None:
    """Write another operator of the same operands."""
    other = _OTHERS.get(at.node.op_type)
    if other is None:
        return None
    at.node.op_type = other
    if other == "Identity":
        del at.node.attribute[:]
    return f"{other} instead"


def _order(at: DamagedNode) -> str | None:
    """Exchange operands: of a difference, of bounds, of branches."""
    if len(at.node.input) < 2 or at.node.op_type in ("Add", "Mul", "And", "Or", "Equal", "Max", "Min", "Xor"):
        return None
    first, last = (1, 2) if len(at.node.input) > 2 else (0, 1)
    if not at.node.input[first] or not at.node.input[last]:
        return None
    at.node.input[first], at.node.input[last] = at.node.input[last], at.node.input[first]
    return "operands exchanged"


def _left_out(at: DamagedNode) -> str | None:
    """Leave the node out: consumers read its first input."""
    kept = ("Neg", "Not", "Abs", "Sqrt", "Transpose", "Cast", "Add", "Sub", "Mul", "Div", "Where", "Clip", "Gather")
    if at.node.op_type not in kept or not at.node.input[0]:
        return None
    source = at.node.input[1] if at.node.op_type == "Where" else at.node.input[0]
    at.node.CopyFrom(onnx.helper.make_node("Identity", [source], [*at.node.output], at.node.name))
    return "left out"


def _freedom(at: DamagedNode) -> str | None:
    """Divide by one element less, as an unbiased variance does."""
    if at.node.op_type != "ReduceMean":
        return None
    raw = f"{at.node.output[0]}_raw"
    factor = numpy_helper.from_array(np.array(8 / 7, np.float32), f"{at.node.output[0]}_freedom")
    output, at.node.output[0] = at.node.output[0], raw
    place = next(place for place, each in enumerate(at.model.graph.node) if each is at.node or each.output[0] == raw)
    at.model.graph.initializer.append(factor)
    at.model.graph.node.insert(place + 1, onnx.helper.make_node("Mul", [raw, factor.name], [output]))
    return "degrees of freedom"


Change = Callable[[DamagedNode], "str | None"]
CHANGES: tuple[Change, ...] = (_attribute, _constant, _operator, _order, _left_out, _freedom)


def shows(before: onnx.ModelProto, after: onnx.ModelProto, rng: np.random.Generator) -> bool | None:
    """Whether onnxruntime computes other numbers with the changed model, or none; None where it cannot be asked."""
    first, second = _session(before), _session(after)
    if first is None:
        return None
    if second is None:
        return True
    asked = None
    for feeds in _feeds(before, rng):
        expected = _run(first, feeds)
        if expected is None:
            continue
        asked, found = False, _run(second, feeds)
        if found is None or not _alike(expected, found):
            return True
    return asked


def _feeds(model: onnx.ModelProto, rng: np.random.Generator) -> Iterator[dict[str, Array]]:
    for scale in (1, 1, 4, 0.05, 30):
        feeds, sizes = {}, dict[str, int]()
        for value in model.graph.input:
            kind = value.type.tensor_type
            dims = [dim.dim_value or sizes.setdefault(dim.dim_param, SIZES[len(sizes)]) for dim in kind.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            drawn = rng.normal(size=dims) * scale if dtype.kind == "f" else rng.integers(0, 5, dims)
            feeds[value.name] = np.asarray(drawn).astype(dtype)
        yield feeds


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - it raises what it likes
        return None


def _run(session: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> Array | None:
    try:
        return np.asarray(session.run(None, feeds)[0])
    except Exception:  # noqa: BLE001 - as above
        return None


def _alike(expected: Array, found: Array) -> bool:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if expected.dtype.kind != "f":
        return bool((expected == found).all())
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-30))
    tolerance = 2e-2 if expected.dtype == np.float16 else 2e-4
    return bool(np.allclose(found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
