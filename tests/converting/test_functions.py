"""Functions that are inlined: of the model's opset or of another one, with what they import."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold
from bnfold import ir
from bnfold.converting import convert
from bnfold.errors import ConversionBlocked
from bnfold.ir.storage.save import encode
from tests.converting.conftest import run

MAIN = """<ir_version: 9, opset_import: ["" : {opset}, "my" : 1]>
g (float[2, 3] x) => (float[n, m] y) {{ {calls} }}
"""
REDUCING = """<domain: "my", opset_import: ["" : 13]>
f <over> (x) => (y) { a = Constant <value_ints: ints = @over> () s = ReduceSum (x, a) y = Softmax <axis = 0> (s) }
"""
NESTED = """<domain: "my", opset_import: ["" : 18, "my" : 1]>
outer <by> (x) => (y) { r = Relu (x) y = my.f <over: ints = @by> (r) }
"""

Lowered = Callable[..., Any]


def load(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("target", [9, 11, 15])
def test_a_function_of_an_older_opset_is_converted_for_each_call(lowered: Lowered, target: int) -> None:
    calls = "a = my.f <over = [0]> (x) b = my.f <over = [1]> (x) y = Add (a, b)"
    outcome = lowered(load(MAIN.format(opset=17, calls=calls) + REDUCING), target)
    assert not outcome.model.proto.functions or target == 15
    assert [entry.domain for entry in outcome.model.proto.opset_import] == ["", *(["my"] if target == 15 else [])]


def test_equal_calls_share_one_conversion() -> None:
    calls = "a = my.f <over = [0]> (x) b = my.f <over = [0]> (x) y = Add (a, b)"
    model = ir.load(load(MAIN.format(opset=17, calls=calls) + REDUCING))
    report = convert(model, 11)
    assert [(repair.kind, repair.node) for repair in report.repairs][:1] == [("inlined-function", "f")]
    assert [node.op_type for node in model.graph.nodes].count("ReduceSum") == 2


def test_functions_of_several_opsets_that_call_each_other(lowered: Lowered) -> None:
    text = MAIN.format(opset=17, calls="y = my.outer <by = [1]> (x)") + NESTED + REDUCING
    outcome = lowered(load(text), 10)
    assert "ReduceSum" in outcome.ops
    assert not outcome.model.proto.functions


def test_an_input_that_a_call_leaves_out(lowered: Lowered) -> None:
    function = """<domain: "my", opset_import: ["" : 13]> f (x, low, high) => (y) { y = Clip (x, low, high) }"""
    calls = "h = Constant <value_float = 0.5> () y = my.f (x, , h)"
    outcome = lowered(load(MAIN.format(opset=17, calls=calls) + function), 10)
    assert outcome.model.graph.nodes[-1].attr("max") == 0.5


def test_constants_that_a_conversion_adds_to_a_function() -> None:
    function = (
        """<domain: "my", opset_import: ["" : 12]> f <over> (x) => (y) { y = ReduceSum <axes: ints = @over> (x) }"""
    )
    model = ir.load(load(MAIN.format(opset=17, calls="y = my.f <over = [1]> (x)") + function))
    convert(model, 16)
    assert [node.op_type for node in model.graph.nodes] == ["Constant", "ReduceSum"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    model.sync()
    np.testing.assert_array_equal(run(model.proto, {"x": x})["y"], x.sum(1, keepdims=True))


def test_a_function_in_a_branch(lowered: Lowered) -> None:
    calls = """c = Constant <value = bool {1}> () y = If (c) <
        then_branch = t () => (float[n, m] p) { p = my.f <over = [0]> (x) },
        else_branch = e () => (float[n, m] q) { q = my.f <over = [0]> (x) }>"""
    assert lowered(load(MAIN.format(opset=17, calls=calls) + REDUCING), 11).ops[-1] == "If"


def test_what_an_inlined_function_imports_becomes_the_models() -> None:
    function = """<domain: "my", opset_import: ["" : 18, "com.microsoft" : 1]>
        f (x) => (y) { h = com.microsoft.Gelu (x) y = ReduceMean <keepdims = 1> (h) }"""
    model = ir.load(load(MAIN.format(opset=18, calls="y = my.f (x)") + function))
    convert(model, 13)
    assert {(entry.domain, entry.version) for entry in model.proto.opset_import} == {("", 13), ("com.microsoft", 1)}
    onnx.checker.check_model(onnx.ModelProto.FromString(bytes(encode(model))))


def test_a_function_of_another_version_of_a_domain_is_an_error() -> None:
    function = """<domain: "my", opset_import: ["" : 18, "com.other" : 2]>
        f (x) => (y) { h = com.other.Op (x) y = ReduceMean <keepdims = 1> (h) }"""
    text = MAIN.format(opset=18, calls="z = com.other.Op (x) y = my.f (z)").replace(
        '"my" : 1', '"my" : 1, "com.other" : 1'
    )
    with pytest.raises(ConversionBlocked, match="'f' cannot be inlined: it imports version 2 of com"):
        convert(ir.load(load(text + function)), 13)


def test_a_function_without_a_form_in_the_opset_of_the_model_is_an_error() -> None:
    function = """<domain: "my", opset_import: ["" : 20]> f (x) => (y) { y = StringConcat (x, x) }"""
    text = MAIN.format(opset=17, calls="y = my.f (x)").replace("float", "string")
    with pytest.raises(
        ConversionBlocked, match="'f' is of another opset than the model, and cannot convert opset 20 to 17"
    ):
        convert(ir.load(load(text + function)), 13)


PER_CALL = """<ir_version: 8, opset_import: ["" : 15, "my" : 1]>
g (float[1, 3, 8, 8] x) => (float[1, 3, 4, 4] y)
<float[3, 3, 3, 3] w, float[3] s = {1, 2, 3}, float[3] v = {0.5, 1, 2}>
{ c = Conv (x, w) n = my.norm (c, s, v) d = Conv (n, w) y = my.norm (d, v, s) }
<domain: "my", opset_import: ["" : %d]> norm (x, s, v) => (y) { y = BatchNormalization (x, s, v, s, v) }
"""


def with_weight(text: str) -> onnx.ModelProto:
    proto = load(text)
    weight = np.random.default_rng(0).normal(size=(3, 3, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return proto


def per_call(opset: int = 15) -> onnx.ModelProto:
    return with_weight(PER_CALL % opset)


@pytest.mark.parametrize("opset", [15, 13])
@pytest.mark.parametrize("target", ["keep", 11, 18])
def test_a_batch_normalization_with_parameters_per_call_folds(opset: int, target: Any) -> None:
    outcome = bnfold.optimize(per_call(opset), target_opset=target, verify=bnfold.VerifyOptions(depth="full"))
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    result = outcome.to_proto()
    assert [node.op_type for node in result.graph.node] == ["Conv", "Conv"]
    assert not result.functions
    assert [entry.domain for entry in result.opset_import] == [""]


WHOLE = """<ir_version: 8, opset_import: ["" : 15, "my" : 1]>
g (float[1, 3, 8, 8] x) => (float[1, 3, 6, 6] y) <float[3, 3, 3, 3] w> { c = Conv (x, w) y = my.norm <e = 0.25> (c) }
<domain: "my", opset_import: ["" : 15]> norm <e> (x) => (y) {
  s = Constant <value_floats = [1.0, 2.0, 3.0]> () y = BatchNormalization <epsilon: float = @e> (x, s, s, s, s)
}
"""


def test_a_function_with_parameters_of_its_own_is_inlined_where_the_conv_before_its_call_takes_them() -> None:
    outcome = bnfold.fold(with_weight(WHOLE))
    assert outcome.verified
    assert [node.op_type for node in outcome.to_proto().graph.node][-1] == "Conv"
    assert not outcome.to_proto().functions


FOLDING_INSIDE = """<ir_version: 8, opset_import: ["" : 15, "my" : 1]>
g (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) { y = my.norm (x) }
<domain: "my", opset_import: ["" : 15]> norm (x) => (y) {
  w = Constant <value = float[3, 3, 1, 1] {1, 2, 3, 4, 5, 6, 7, 8, 9}> () c = Conv (x, w)
  s = Constant <value_floats = [1.0, 2.0, 3.0]> () y = BatchNormalization (c, s, s, s, s)
}
"""


def test_a_function_in_which_all_folds_stays() -> None:
    outcome = bnfold.fold(load(FOLDING_INSIDE))
    assert outcome.verified
    assert [function.name for function in outcome.to_proto().functions] == ["norm"]
    assert "BatchNormalization" not in [node.op_type for node in outcome.to_proto().functions[0].node]


def test_it_stays_a_function_where_nothing_folds() -> None:
    proto = per_call()
    for node in proto.graph.node:
        if node.op_type == "Conv":
            node.op_type, node.domain = "Other", "com.other"
    proto.opset_import.add(domain="com.other", version=1)
    outcome = bnfold.optimize(proto, target_opset="keep", verify=bnfold.VerifyOptions(depth="none"))
    assert [function.name for function in outcome.to_proto().functions] == ["norm"]
    assert not bnfold.convert(per_call(), opset=17).to_proto().functions[1:]


@pytest.mark.parametrize("stated", ['opset_import: ["" : 11]', ""])
def test_a_function_inside_another_one_is_inlined_there(stated: str) -> None:
    """Whether or not the inner one states its opset; the outer one stays, and calls nothing that is gone."""
    inner = (
        f'<domain: "my"{", " if stated else ""}{stated}> f <by> (x) => (y) {{ y = Dropout <ratio: float = @by> (x) }}\n'
    )
    outer = (
        '<domain: "my", opset_import: ["" : 11, "my" : 1]> outer (x) => (y) { r = Relu (x) y = my.f <by = 0.5> (r) }'
    )
    before = load(MAIN.format(opset=11, calls="y = my.outer (x)") + inner + outer)
    outcome = bnfold.upgrade(before)
    assert outcome.verdict is not None
    assert outcome.verdict.status != "failed"
    after = outcome.to_proto()
    known = {function.name for function in after.functions}
    nodes = [*after.graph.node, *(node for function in after.functions for node in function.node)]
    assert {node.op_type for node in nodes if node.domain} <= known
    assert "Dropout" in {node.op_type for node in nodes}
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2}
    assert np.array_equal(run(after, feeds)["y"], np.maximum(feeds["x"], 0))
