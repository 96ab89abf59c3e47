from pathlib import Path

import onnx
import onnx.parser
import pytest

import bnfold
from bnfold.errors import BadSetting, ConversionBlocked, Unsupported, WrongUsage
from bnfold.settings import VerifyOptions
from tests.conftest import MODELS

UNCHECKED = VerifyOptions(depth="none")
NORM = """<ir_version: 10, opset_import: ["" : 18]> g (float[2, 3, 8] x, float[8] s) => (float[2, 3, 8] y) {
  n = LayerNormalization (x, s)  y = Softmax <axis = 1> (n)
}"""
SAMPLE = """<ir_version: 10, opset_import: ["" : 18]>
g (float[1, 2, 4, 4] x, float[1, 3, 3, 2] g) => (float[1, 2, 3, 3] y) {
  p = GridSample (x, g)  y = HardSwish (p)
}"""
CALLS = """<ir_version: 10, opset_import: ["" : 15, "my" : 1]> g (float[2, 3] x) => (float[2, 3] y) { y = my.plain (x) }
<domain: "my", opset_import: ["" : 15]> plain (x) => (y) { y = Relu (x) }"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("text", [NORM.replace("y =", "e = Erf (n)  y =").replace("> (n)", "> (e)"), SAMPLE])
def test_the_lowest_opset_is_reached_and_the_one_below_is_not(text: str) -> None:
    outcome = bnfold.convert(parsed(text), opset="lowest")
    assert outcome.verified
    found = outcome.report.lowest
    assert found is not None
    assert outcome.report.opset_after == found["opset"] < 18
    onnx.checker.check_model(outcome.to_proto(), full_check=True)
    for opset in range(1, found["opset"]):
        with pytest.raises(ConversionBlocked, match=f"lowest opset for this model: {found['opset']}"):
            bnfold.convert(parsed(text), opset=opset, verify=UNCHECKED)
    assert found["below"].startswith(f"cannot convert opset 18 to {found['opset'] - 1}: ")


LOWEST = {
    "y = Reshape <allowzero = 1> (x, s)": 5,
    "y = ReduceMean (x, s)": 9,
    "a = Constant <value_ints = [1]> () y = ReduceMean (x, a)": 1,
    "p = Erf (x) y = Where (b, p, x)": 9,
    "y = Trilu (x)": 9,
    'y = BitShift <direction = "LEFT"> (i, i)': 9,
    "p, q = TopK (x, k) y = Sub (p, p)": 10,
    "y = Expand (x, s)": 8,
    "y = Mul (x, x)": 1,
    "y = Relu (x)": 1,
}


@pytest.mark.parametrize(("body", "lowest"), LOWEST.items())
def test_one_below_is_really_impossible(body: str, lowest: int) -> None:
    """What is in the way one opset below is an operator, a size or an axis that does not exist there."""
    inputs = "float[2, 3] x, bool[2, 3] b, uint32[2, 3] i, int64[2] s, int64[1] k"
    kind = "uint32" if "BitShift" in body else "float"
    text = f'<ir_version: 10, opset_import: ["" : 18]> g ({inputs}) => ({kind}[a, b] y) {{ {body} }}'
    report = bnfold.convert(parsed(text), opset="lowest", verify=UNCHECKED).report
    assert report.lowest is not None
    assert (report.opset_after, report.lowest["opset"]) == (lowest, lowest)
    assert bool(report.lowest["below"]) == (lowest > 1)


def test_what_the_checker_has_against_the_original_is_no_reason() -> None:
    model = parsed(NORM)
    expected = bnfold.convert(model, opset="lowest", verify=UNCHECKED).report.lowest
    model.graph.name = ""
    assert bnfold.convert(model, opset="lowest", verify=UNCHECKED).report.lowest == expected


def test_a_model_that_cannot_go_down_stays() -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (string[2] x) => (string[2] y) { y = StringConcat (x, x) }'
    report = bnfold.convert(parsed(text), opset="lowest", verify=UNCHECKED).report
    assert (report.opset_after, report.lowest and report.lowest["opset"]) == (20, 20)


def test_what_became_of_each_operator() -> None:
    report = bnfold.convert(parsed(NORM), opset=11, verify=UNCHECKED).report
    assert report.conversion == [
        {"operator": "LayerNormalization", "as_is": 0, "respelled": 0, "spelled_out": 1, "added": 7},
        {"operator": "Softmax", "as_is": 0, "respelled": 0, "spelled_out": 1, "added": 2},
    ]
    assert (report.ir_before, report.ir_after) == (10, 6)


def test_an_ir_version_alone() -> None:
    report = bnfold.convert(parsed(CALLS), ir_version=8).report
    assert (report.opset_after, report.ir_after, report.repairs) == (15, 8, [])
    outcome = bnfold.convert(parsed(CALLS), ir_version=7)
    assert outcome.verified
    assert not outcome.to_proto().functions
    assert [repair.kind for repair in outcome.report.repairs] == ["inlined-function", "opset-imports"]
    assert outcome.report.notes == [
        "opset 15 came with IR version 8: a runtime that stops at IR version 7 may lack its operators"
    ]


def test_the_ir_version_is_kept_on_request() -> None:
    assert bnfold.convert(parsed(NORM), opset=11, ir_version="keep", verify=UNCHECKED).report.ir_after == 10
    assert bnfold.upgrade(parsed(NORM), target_opset=20, ir_version="keep", verify=UNCHECKED).report.ir_after == 10


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        ('<ir_version: 10, opset_import: ["" : 19]> g (float8e4m3fn[2] x) => (float[2] y) { y = Cast <to = 1> (x) }',
         8, "the type float8e4m3fn of 'x' came with IR version 9"),
        ('<ir_version: 8, opset_import: ["" : 9]> g () => (float[2] y) <float[2] w = {1, 2}> { y = Abs (w) }',
         3, "a weight that is no input, such as 'w', came with IR version 4"),
    ],
)  # fmt: skip
def test_an_ir_version_that_lacks_what_the_file_uses_is_refused(text: str, version: int, why: str) -> None:
    with pytest.raises(Unsupported, match=f"cannot be of IR version {version}: {why}"):
        bnfold.convert(parsed(text), ir_version=version, verify=UNCHECKED)


@pytest.mark.skipif(onnx.IR_VERSION < 11, reason="this onnx has no devices")
def test_devices_are_dropped_and_said_so() -> None:
    proto = parsed(NORM)
    proto.ir_version = 11
    proto.configuration.add(name="two", num_devices=2)
    assert "the assignment of nodes to devices is gone" in bnfold.convert(proto, ir_version=9).report.notes


def test_convert_wants_one_target() -> None:
    path = MODELS / "bn15.onnx"
    with pytest.raises(WrongUsage, match="give an opset or an ir_version"):
        bnfold.convert(path)
    with pytest.raises(BadSetting, match="opset"):
        bnfold.convert(path, opset=13, target_opset=12)
    assert bnfold.convert(path, opset=13, target_opset=13, verify=UNCHECKED).report.opset_after == 13
    with pytest.raises(BadSetting, match="ir_version: 99 is not possible"):
        bnfold.convert(path, ir_version=99)


def test_convert_folds_nothing(tmp_path: Path) -> None:
    outcome = bnfold.convert(MODELS / "bn15.onnx", tmp_path / "out.onnx", opset=11)
    assert outcome.verified
    assert [event.verdict for event in outcome.report.batchnorms] == ["upgraded"]


def test_a_version_of_another_domain_that_is_in_the_way_is_named() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]> g (double[N, 2] x) => (double[N, 1] y) {
        y = ai.onnx.ml.TreeEnsemble <n_targets = 1, nodes_featureids = [0], nodes_falseleafs = [1],
            nodes_falsenodeids = [1], nodes_trueleafs = [1], nodes_truenodeids = [0], tree_roots = [0],
            leaf_targetids = [0, 0],
            nodes_modes = uint8[1] {0}, nodes_splits = double[1] {0.5}, leaf_weights = double[2] {1, 2}> (x) }"""
    proto = onnx.parser.parse_model(text)
    with pytest.raises(ConversionBlocked, match="ml_opset=3 is in the way, and without it target_opset=13 gets there"):
        bnfold.convert(proto, opset=13, ml_opset=3)
    assert bnfold.convert(proto, opset=13).verified
