"""What no runtime takes is repaired where that is exact, and reported; what is not exact is said and left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import bnfold
from bnfold import ir
from bnfold.converting.repairing import repair
from bnfold.errors import ConversionBlocked

T = onnx.TensorProto
HALF = np.array([1, 1, 2, 2], np.float16)


def parsed(body: str, weights: dict[str, Any], opset: int = 13, ir_version: int = 8) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> g {body}')
    for name, array in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return proto


def loads(proto: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - whatever it raises
        return False
    return True


RESIZE = '(float16[1,3,8,8] x) => (float16[1,3,16,16] y) { y = Resize <mode = "linear"> (x, "", %s) }'
BRANCH = "y = If (c) <then_branch = t () => (float[2] %s) {}, else_branch = e () => (float[2] e) { e = Relu (x) }>"
IN_BRANCH = """(float16[1,3,8,8] x, bool c) => (float16[1,3,16,16] y) {
    y = If (c) <then_branch = t () => (float16[1,3,16,16] p) { p = Resize (x, "", sc) },
        else_branch = e () => (float16[1,3,16,16] q) { q = Resize <mode = "linear"> (x, "", sc) }> }"""
LOOP = """(float[2] x) => (float[3,2] y) { a = Abs (x)  n = Constant <value_int = 3> ()
    y = Loop (n, "") <body = b (int64 i, bool k) => (bool o, float[2] a) { o = Identity (k) }> }"""
CONSTANT = """(float16[1,3,8,8] x) => (float16[1,3,32,32] y) {
    sc = Constant <value = float16[4] {15360, 15360, 16384, 16384}> ()
    h = Resize (x, "", sc)  y = Resize (h, "", sc) }"""
CASES = {
    "float16 scales": (parsed(RESIZE % "sc", {"sc": HALF}), ["operand-type"]),
    "double scales": (parsed(RESIZE % "sc", {"sc": HALF.astype(np.float64)}, 18), ["operand-type"]),
    "empty float16 scales": (
        parsed(RESIZE % "sc, sz", {"sc": np.zeros(0, np.float16), "sz": np.array([1, 3, 16, 16])}),
        ["operand-type"],
    ),
    "scales in a Constant, read twice": (parsed(CONSTANT, {}), ["operand-type"] * 2),
    "scales in both branches": (parsed(IN_BRANCH, {"sc": HALF}), ["operand-type"] * 2),
    "Upsample of IR version 3": (
        parsed(
            "(float[1,3,8,8] x, float16[4] sc) => (float[1,3,16,16] y) { y = Upsample (x, sc) }", {"sc": HALF}, 9, 3
        ),
        ["operand-type"],
    ),
    "int32 shape": (
        parsed("(float[2,3] x) => (float[3,2] y) { y = Reshape (x, s) }", {"s": np.array([3, 2], np.int32)}),
        ["operand-type"],
    ),
    "int32 repeats": (
        parsed("(float[2,3] x) => (float[4,3] y) { y = Tile (x, s) }", {"s": np.array([2, 1], np.int32)}),
        ["operand-type"],
    ),
    "int32 axes": (
        parsed("(float[2,3] x) => (float[2,1] y) { y = ReduceSum (x, s) }", {"s": np.array([1], np.int32)}),
        ["operand-type"],
    ),
    "int32 sizes": (
        parsed('(float[1,2] x) => (float[1,4] y) { y = Resize (x, "", "", s) }', {"s": np.array([1, 4], np.int32)}),
        ["operand-type"],
    ),
    "int32 amounts": (
        parsed("(float[2,3] x) => (float[2,5] y) { y = Pad (x, s) }", {"s": np.array([0, 1, 0, 1], np.int32)}),
        ["operand-type"],
    ),
    "outer value": (
        parsed(f"(float[2] x, bool c) => (float[2] y) {{ a = Abs (x)  {BRANCH % 'a'} }}", {}),
        ["outer-output"],
    ),
    "outer input": (parsed(f"(float[2] x, bool c) => (float[2] y) {{ {BRANCH % 'x'} }}", {}), ["outer-output"]),
    "outer value of a domain that inference does not know": (
        parsed(
            """(float[1,1,4,4] x, float[1,1,1,1] w, bool c) => (float[1,1,4,4] y) {
                a = com.microsoft.FusedConv (x, w)
                y = If (c) <then_branch = t () => (float[1,1,4,4] a) {},
                            else_branch = e () => (float[1,1,4,4] e) { e = Relu (x) }> }""",
            {},
        ),
        ["outer-output"],
    ),
    "outer weight": (
        parsed(f"(float[2] x, bool c) => (float[2] y) {{ {BRANCH % 'w'} }}", {"w": np.ones(2, np.float32)}),
        ["outer-output"],
    ),
    "outer value of a body": (parsed(LOOP, {}), ["outer-output"]),
    "inner type": (
        parsed("(float[2] x) => (float[2] y) <float16[2] a> { a = Abs (x)  y = Neg (a) }", {}),
        ["false-type"],
    ),
    "output type": (parsed("(float[2] x) => (float16[2] y) { y = Abs (x) }", {}), ["false-type"]),
    "type of an element of a sequence": (
        parsed("(float[2] x) => (float16[1] y) { s = SplitToSequence (x) y = SequenceAt (s, i) }", {"i": np.array(0)}),
        ["false-type"],
    ),
    "both types": (
        parsed("(float16[2] x) => (float[2] y) <float[2] a> { a = Abs (x)  y = Neg (a) }", {}),
        ["false-type"] * 2,
    ),
    "type behind values that nothing declares": (
        parsed(
            """(float[2] x) => (float[2] y) <float16[2] c> {
                a = Abs (x)  b = Neg (a)  c = Mul (b, b)  d = Abs (c)  y = Neg (d) }""",
            {},
        ),
        ["false-type"],
    ),
    "type behind an If": (
        parsed(
            """(float[2] x, bool k) => (float[2] y) <float16[2] b> {
                a = If (k) <then_branch = t () => (float[2] t) { t = Neg (x) },
                            else_branch = e () => (float[2] e) { e = Abs (x) }>
                b = Mul (a, a)  c = Abs (b)  y = Neg (c) }""",
            {},
        ),
        ["false-type"],
    ),
    "type of a second output": (
        parsed(
            """(float[4] x) => (float[2] y, float[2] z) <float16[2] b> {
                a, b = Split <axis = 0> (x)  y = Neg (a)  c = ArgMax (b)  d = Cast <to = 1> (c)  z = Add (a, d) }""",
            {},
        ),
        ["false-type"],
    ),
    "type of a Cast": (
        parsed("(float[2] x) => (float[2] y) <float[2] a> { a = Cast <to = 10> (x)  y = Cast <to = 1> (a) }", {}),
        ["false-type"],
    ),
    "type of a Constant": (
        parsed(
            "(float[1] x) => (float[1] y) <double[1] a> { a = Constant <value = float[1] {2}> ()  y = Add (x, a) }", {}
        ),
        ["false-type"],
    ),
}  # fmt: skip


COMMANDS: dict[str, Any] = {
    "optimize": {},
    "fold": {"target_opset": "keep"},
    "convert": {"target_opset": 17, "fold": False},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_exact_is_repaired(name: str, command: str) -> None:
    proto, kinds = CASES[name]
    assert not loads(proto) or name == "type of a Constant", "which onnxruntime reads as a weight"
    outcome = bnfold.optimize(proto, **COMMANDS[command])
    assert outcome.status == "verified", outcome.verdict
    assert [row.kind for row in outcome.report.repairs if row.kind in {*kinds}] == kinds
    assert loads(outcome.to_proto())
    assert not repair(ir.load(outcome.to_proto())), "once is enough"


UNTAKEN = {
    "a scale that float32 lacks": parsed(
        RESIZE.replace("16,16] y", "16,18] y") % "sc", {"sc": np.array([1, 1, 2, 7 / 3])}
    ),
    "scales that are fed": parsed(
        '(float16[1,3,8,8] x, float16[4] sc) => (float16[A,B,C,D] y) { y = Resize (x, "", sc) }', {}
    ),
    "scales and sizes": parsed(
        RESIZE % "sc, sz", {"sc": HALF.astype(np.float32), "sz": np.array([1, 3, 16, 16])}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNTAKEN)
def test_what_is_not_exact_is_left_and_the_verdict_says_that_nothing_loads_it(name: str) -> None:
    outcome = bnfold.optimize(UNTAKEN[name])
    assert not {row.kind for row in outcome.report.repairs} & {"operand-type", "outer-output", "false-type"}
    assert outcome.verdict is not None
    assert f"onnxruntime {onnxruntime.__version__} loads neither file: " in outcome.verdict.reason
    silent = bnfold.optimize(UNTAKEN[name], verify=bnfold.VerifyOptions(runtime="none"))
    assert silent.verdict is not None
    assert "onnxruntime" not in silent.verdict.reason


def test_a_default_that_callers_may_override_is_left() -> None:
    body = "(float[1,3,8,8] x, float16[4] sc) => (float[1,3,16,16] y) { y = Upsample (x, sc) }"
    assert not repair(ir.load(parsed(body, {"sc": HALF}, 9)))


def test_what_is_right_stays_as_it_is() -> None:
    text = '(float[1,3,8,8] x, bool c) => (float[1,3,16,16] y) { y = Resize (x, "", sc) }'
    model = ir.load(parsed(text, {"sc": HALF.astype(np.float32)}))
    before = model.proto.SerializeToString()
    assert not repair(model)
    model.sync()
    assert model.proto.SerializeToString() == before


def test_sizes_that_are_fixed_are_not_asked_for() -> None:
    body = '(float[1,3,8,8] x, float[4] r) => (float[A,B,C,D] y) { y = Resize <mode = "cubic"> (x, "", r) }'
    proto = parsed(body, {})
    with pytest.raises(ConversionBlocked) as blocked:
        bnfold.upgrade(proto, target_opset=10)
    assert "--fix-shapes" not in str(blocked.value)
