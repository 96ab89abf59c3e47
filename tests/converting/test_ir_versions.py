"""The IR version that a conversion chooses is the one that was released with the opset."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import helper

import bnfold
from bnfold import ir
from bnfold.converting import convert
from bnfold.converting.ir_version import LOWEST, ir_version_in_use, ir_version_of

ROWS = [(opset, ir_version) for _, ir_version, opset, *_ in helper.VERSION_TABLE if ir_version >= LOWEST]
NEWEST_IR, NEWEST = max((ir_version, opset) for opset, ir_version in ROWS)
UNCHECKED = bnfold.VerifyOptions(depth="none")
Text = Callable[..., str]


def released_with(opset: int) -> int:
    """Return the IR version of the first release of onnx that had this opset."""
    return min(ir_version for other, ir_version in ROWS if other == opset)


@pytest.mark.parametrize(("opset", "ir_version"), ROWS)
def test_every_release_of_onnx(opset: int, ir_version: int) -> None:
    assert ir_version_of(opset) == released_with(opset)
    assert ir_version_of(opset) <= ir_version


@pytest.mark.parametrize("opset", dict(ROWS))
@pytest.mark.parametrize(("own", "own_ir"), [(7, LOWEST), (7, NEWEST_IR), (NEWEST, NEWEST_IR)])
def test_converted_models_are_of_a_row(text: Text, opset: int, own: int, own_ir: int) -> None:
    """From below and from above, whatever IR version the file had."""
    source = onnx.parser.parse_model(
        text(own, "float[2, 3] x", "p = Relu (x) y = Add (p, x)", outputs="float[2, 3] y", ir=own_ir)
    )
    made = bnfold.convert(source, opset=opset, verify=UNCHECKED).to_proto()
    assert (made.opset_import[0].version, made.ir_version) == (opset, released_with(opset))
    onnx.checker.check_model(made, full_check=True)


@pytest.mark.parametrize(("wanted", "ir_version"), [("auto", 8), ("keep", 10), (9, 9)])
def test_a_named_opset_brings_its_ir_version_upwards_too(text: Text, wanted: Any, ir_version: int) -> None:
    source = onnx.parser.parse_model(text(11, "float[2, 3] x", "y = Relu (x)", ir=10))
    made = bnfold.convert(source, opset=15, ir_version=wanted, verify=UNCHECKED).to_proto()
    assert made.ir_version == ir_version


def test_the_default_opset_leaves_the_ir_version(text: Text) -> None:
    model = ir.load(onnx.parser.parse_model(text(11, "float[2, 3] x", "y = Relu (x)", ir=10)))
    convert(model)
    assert (model.opset(""), model.proto.ir_version) == (15, 10)


def test_functions_stand_in_the_way_of_a_low_ir_version_upwards_too() -> None:
    source = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 11, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.f (x) }\n'
        '<domain: "my", opset_import: ["" : 11]> f (a) => (b) { b = Relu (a) }'
    )
    made = bnfold.convert(source, opset=13, verify=UNCHECKED).to_proto()
    assert (made.ir_version, len(made.functions)) == (7, 0)


@pytest.mark.parametrize("body", ["c = Cast <to = 17> (x)", "c = Constant <value = float8e4m3fn[1] {1}> ()"])
def test_a_type_that_no_annotation_names_counts(body: str) -> None:
    """A float8 between two Casts needs IR version 9, although opset 19 as such would not be lowered."""
    text = (
        f'<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) {{ {body} y = Cast <to = 1> (c) }}'
    )
    model = ir.load(onnx.parser.parse_model(text))
    assert ir_version_in_use(model) == 9


@pytest.mark.parametrize(
    ("kind", "opset", "note"),
    [
        ("uint4", 16, "IR version 10, and not 8: the type uint4 of 'q' came with it"),
        ("float8e4m3fn", 13, "IR version 9, and not 7: the type float8e4m3fn of 'q' came with it"),
        ("uint4", 21, None),  # which came with IR version 10 itself
        ("int8", 13, None),
    ],
)
def test_what_the_opset_does_not_need_is_said(text: Text, kind: str, opset: int, note: str | None) -> None:
    """No operator of the lower opset reads the input, but callers may feed it."""
    source = onnx.parser.parse_model(text(22, f"float[2, 3] x, {kind}[2] q", "y = Relu (x)", ir=10))
    outcome = bnfold.convert(source, opset=opset, verify=UNCHECKED)
    assert [each for each in outcome.report.notes if each.startswith("IR version")] == ([note] if note else [])
    assert outcome.to_proto().ir_version == (int(note.split()[2].rstrip(",")) if note else released_with(opset))
    kept = bnfold.convert(source, opset=opset, ir_version="keep", verify=UNCHECKED)
    assert not any(each.startswith("IR version") for each in kept.report.notes)
