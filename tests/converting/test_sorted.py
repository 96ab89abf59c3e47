"""Files whose nodes stand before what they read run in some runtimes; what bnfold writes is in order."""

import onnx
import pytest

import bnfold

UNCHECKED = bnfold.VerifyOptions(depth="none")
HEAD = '<ir_version: 8, opset_import: ["" : 13]> g (float[2, 3] x, bool c) => (float[2, 3] y)'
INNER = """{
  y = If (c) <
    then_branch = t () => (float[2, 3] a) { a = Neg (q)  q = Abs (z) },
    else_branch = e () => (float[2, 3] b) { b = Exp (x) }
  >
  z = Relu (x)
}"""


@pytest.mark.parametrize("opset", [15, 13, 11])
@pytest.mark.parametrize("body", ["{ y = Neg (p)  p = Abs (q)  q = Relu (x) }", INNER])
def test_comes_out_in_order(body: str, opset: int) -> None:
    source = onnx.parser.parse_model(f"{HEAD} {body}")
    with pytest.raises(onnx.checker.ValidationError, match="topologically sorted"):
        onnx.checker.check_model(source)
    outcome = bnfold.convert(source, opset=opset, verify=UNCHECKED)
    onnx.checker.check_model(outcome.to_proto(), full_check=True)
    assert [repair.kind for repair in outcome.report.repairs] == ["unsorted"]


def test_a_function_too() -> None:
    function = '<domain: "my", opset_import: ["" : 13]> f (a) => (b) { b = Neg (p)  p = Abs (a) }'
    source = onnx.parser.parse_model(f"{HEAD} {{ y = my.f (x) }}\n{function}")
    source.opset_import.add(domain="my", version=1)
    made = bnfold.convert(source, opset=15, verify=UNCHECKED).to_proto()
    assert [node.op_type for node in made.functions[0].node] == ["Abs", "Neg"]


def test_what_is_in_order_stays_in_its_order() -> None:
    source = onnx.parser.parse_model(
        f"{HEAD} {{ r = Exp (x)  p = Abs (x)  q = Relu (x)  s = Add (q, p)  y = Add (s, r) }}"
    )
    outcome = bnfold.convert(source, opset=15, verify=UNCHECKED)
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["Exp", "Abs", "Relu", "Add", "Add"]
    assert not outcome.report.repairs
