"""Where nothing but names differs nothing has to be run; whatever else differs is left to who compares numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import ir
from bnfold.ir.tensor import CHUNK, InMemory
from bnfold.verification import verdict_on_names
from bnfold.verification.tolerance.bits import same
from tests.verification.graphs import model

BODY = """(float[2,3] x) => (float[2,3] y, float[2,3] z) {
    target = Shape (w)
    k = Constant <value = float[3] {1., 2., 3.}> ()
    a = Gemm <alpha = 0.5> (x, w, k)
    s = ReduceSum <keepdims = 0> (a)
    on = Cast <to = 9> (s)
    b = If (on) <then_branch = t () => (float[2,3] u) { v = Relu (a)  u = Add (v, x) },
                 else_branch = e () => (float[2,3] u) { v = Neg (a)  u = Add (v, x) }>
    one, two, three = Split <axis = 1> (b)
    c = Concat <axis = 1> (three, one, two)
    n = RandomNormalLike (c)
    m = RandomNormalLike (b)
    y = Sub (n, m)
    z = Reshape (c, d)
}"""
RENAMED = str.maketrans({"a": "p", "b": "q", "c": "r", "k": "l", "w": "W", "u": "U", "v": "V", "d": "D"})
WEIGHTS = {"w": np.arange(9.0).reshape(3, 3), "d": np.array([2, 3])}


def before() -> onnx.ModelProto:
    return model(BODY, WEIGHTS)


def after() -> onnx.ModelProto:
    """Other names, no dead node, and types that follow."""
    proto = before()
    del proto.graph.node[0]

    def rename(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            node.input[:] = [name.translate(RENAMED) for name in node.input]
            node.output[:] = [name.translate(RENAMED) for name in node.output]
            for attribute in node.attribute:
                rename(attribute.g)
        for value in (*graph.initializer, *graph.output):
            value.name = value.name.translate(RENAMED)

    rename(proto.graph)
    proto.graph.value_info.append(helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, [2, 3]))
    return proto


def is_proven(old: onnx.ModelProto, new: onnx.ModelProto) -> bool:
    verdict = verdict_on_names(ir.load(old), ir.load(new))
    assert verdict is None or verdict.verified
    return verdict is not None


def node(proto: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    found: onnx.NodeProto = next(each for each in proto.graph.node if each.op_type == op_type)
    return found


def branch(proto: onnx.ModelProto, name: str) -> onnx.GraphProto:
    found: onnx.GraphProto = next(each.g for each in node(proto, "If").attribute if each.name == name)
    return found


def shifted(tensor: onnx.TensorProto) -> None:
    array = numpy_helper.to_array(tensor).copy()
    array.flat[-1] = np.nextafter(array.flat[-1], np.float32(9))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def merged(proto: onnx.ModelProto) -> None:
    """One random number in place of two: what is drawn twice is not the same."""
    node(proto, "Sub").input[:] = ["n", "n"]


def added(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["unread"]))


CHANGES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "an attribute": lambda proto: setattr(node(proto, "Gemm").attribute[0], "f", 0.25),
    "an attribute more": lambda proto: node(proto, "Gemm").attribute.append(helper.make_attribute("transA", 0)),
    "an attribute of a constant": lambda proto: node(proto, "Constant").attribute.append(
        helper.make_attribute("axis", 0)
    ),
    "a weight": lambda proto: shifted(proto.graph.initializer[0]),
    "a constant": lambda proto: shifted(node(proto, "Constant").attribute[0].t),
    "dims": lambda proto: proto.graph.initializer[0].dims.append(1),
    "an input": lambda proto: node(proto, "Reshape").input.__setitem__(0, "q"),
    "an input less": lambda proto: node(proto, "Gemm").input.pop(),
    "an output": lambda proto: node(proto, "Concat").input.__setitem__(0, "two"),
    "what a branch reads": lambda proto: branch(proto, "then_branch").node[1].input.__setitem__(1, "p"),
    "a branch": lambda proto: setattr(branch(proto, "then_branch").node[0], "op_type", "Neg"),
    "branches": lambda proto: branch(proto, "then_branch").CopyFrom(branch(proto, "else_branch")),
    "draws": merged,
    "a dead node": added,
    "a domain": lambda proto: setattr(node(proto, "Concat"), "domain", "other"),
    "an opset": lambda proto: setattr(proto.opset_import[0], "version", 14),
    "an IR version": lambda proto: setattr(proto, "ir_version", 9),
    "a default": lambda proto: proto.graph.input.append(
        helper.make_tensor_value_info("W", onnx.TensorProto.FLOAT, [3, 3])
    ),
    "outputs": lambda proto: proto.graph.output.reverse(),
    "a type of an output": lambda proto: setattr(proto.graph.output[0].type.tensor_type.shape.dim[0], "dim_value", 4),
    "a type inside": lambda proto: setattr(proto.graph.value_info[0].type.tensor_type.shape.dim[0], "dim_value", 4),
    "a name that is taken": lambda proto: branch(proto, "then_branch").node[0].output.__setitem__(0, "p"),
}


def test_a_renamed_copy_is_verified_without_running_it() -> None:
    assert is_proven(before(), after())


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_else_differs_is_not_proven(change: str) -> None:
    changed = after()
    CHANGES[change](changed)
    assert changed != after()
    assert not is_proven(before(), changed)


def test_a_constant_may_be_stored_that_was_computed_and_not_the_other_way_round() -> None:
    text = "(float[3] x) => (float[3] y) { t = Add (w, w)  y = Mul (x, t) }"
    computed = model(text, {"w": np.arange(3.0)})
    stored = model(text.replace("t = Add (w, w)", ""), {"t": np.arange(3.0) * 2})
    assert is_proven(computed, stored)
    assert not is_proven(stored, computed)


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        ('auto_pad = "VALID"', 'auto_pad = "NOTSET"', True),
        ('auto_pad = "VALID"', "group = 1", False),
        ('auto_pad = "VALID"', 'auto_pad = "SAME_UPPER"', False),
        ('auto_pad = "NOTSET", pads = [1, 1]', 'auto_pad = "VALID", pads = [1, 1]', False),
        ('auto_pad = "NOTSET", pads = [0, 0]', 'auto_pad = "VALID", pads = [0, 0]', True),
        ("kernel_shape = [3]", "group = 1", False),
        ("kernel_shape = [3], group = 1", "group = 1", True),
        ("kernel_shape = [2], group = 1", "group = 1", False),
    ],
)
def test_a_convolution_says_the_same_in_two_ways(old: str, new: str, proven: bool) -> None:
    models = [
        model(f"(float[1,2,9] x) => (float[1,2,N] y) {{ y = Conv <{attributes}> (x, w) }}", {"w": np.ones((2, 2, 3))})
        for attributes in (old, new)
    ]
    assert is_proven(*models) is proven


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[3] x) => (float[3] y) { y = own.F <alpha = 0.5> (x) }
<domain: "own", opset_import: ["" : 17]>
F <alpha> (a) => (b) { c = LeakyRelu <alpha: float = @alpha> (a)  b = Neg (c) }"""


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        ("c", "d", True),
        ("Neg", "Abs", False),
        ("@alpha", "@beta", False),
        ('F <alpha>', 'F <alpha: float = 0.5>', False),
        ('"own", opset_import: ["" : 17]', '"own", opset_import: ["" : 16]', False),
        ("Neg (c)", "Neg (a)", False),
    ],
)  # fmt: skip
def test_functions_are_compared_too(old: str, new: str, proven: bool) -> None:
    text = FUNCTION.replace(" c = ", " d = ").replace("(c)", "(d)") if old == "c" else FUNCTION.replace(old, new)
    assert text != FUNCTION
    assert is_proven(onnx.parser.parse_model(FUNCTION), onnx.parser.parse_model(text)) is proven


def test_a_sparse_constant_is_not_looked_into() -> None:
    proto = model("(float[3] x) => (float[3] y) { y = Mul (x, w) }", {})
    values, places = np.ones(1, np.float32), np.array([1])
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "p"), [3])
    proto.graph.sparse_initializer.append(sparse)
    assert not is_proven(proto, proto)


def test_a_large_tensor_in_memory_is_the_same_as_one_in_a_file(tmp_path: object) -> None:
    array = np.arange(CHUNK // 4 + 3, dtype=np.float32)
    path = f"{tmp_path}/m.onnx"
    onnx.save(model("(float[3] x) => (float[3] y) { y = Neg (x) }", {"w": array}), path)
    stored, array = ir.load(path).graph.values["w"].tensor, array.copy()
    assert stored is not None
    assert stored.can_read
    assert same(InMemory(onnx.TensorProto.FLOAT, array), stored)
    array[-1] += 1
    assert not same(InMemory(onnx.TensorProto.FLOAT, array), stored)
