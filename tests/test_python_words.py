"""What the public interface raises is written for Python: fields of the settings, no options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir
import pytest

import bnfold
from bnfold import Options, Policy, VerifyOptions
from bnfold.passes import FoldBatchNormPass
from bnfold.settings.python_words import in_python
from tests.conftest import MODELS

RESIZE = """<ir_version: 8, opset_import: ["" : 13]> g (float[n, 3, h, w] x) => (float[a,c,d,e] y)
    <float[4] s = {1, 1, 1.5, 1.5}> { y = Resize (x, , s) }"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Add --target-opset 21.", "Add target_opset=21."),
        ("(--opset 11 gets there)", "(target_opset=11 gets there)"),
        ("`--overridable freeze`, if", '`overridable="freeze"`, if'),
        ("with --verify full, or", 'with bnfold.VerifyOptions(depth="full"), or'),
        ("--samples 8 verifies it", "bnfold.VerifyOptions(samples=8) verifies it"),
        ("in `--fix-shapes x=1,3,8,8`", 'in `fix_shapes={"x": (1, 3, 8, 8)}`'),
        ("`--fix-shapes 'the image=1,3'`", '`fix_shapes={"the image": (1, 3)}`'),
        ("--input x=N,3, or", 'bnfold.VerifyOptions(inputs={"x": (N, 3)}), or'),
        ("with --data (an .npz file)", "with bnfold.VerifyOptions(data=…) (an .npz file)"),
        ("(--legacy-mode says which)", "(policy=bnfold.Policy(legacy_mode=…) says which)"),
        ("use --force-inference. For", "use policy=bnfold.Policy(force_inference=True). For"),
        ("--disable a-b,c-d verifies", 'disable={"a-b", "c-d"} verifies'),
        ("excluded by --only or --except", "excluded by only=… or excluded=…"),
        ("leave out --except Conv", 'leave out excluded={"Conv"}'),
        ("--max-growth 0 leaves", "max_growth=0 leaves"),
        ("or add --in-place.", "or add outcome.save(in_place=True)."),
        ("--values compares them", "values=True compares them"),
        ("--explain y --save DIR", 'bnfold.VerifyOptions(explain="y", save=DIR)'),
        ("`--explain --save DIR` writes", '`bnfold.VerifyOptions(explain="", save=DIR)` writes'),
        ("--explain 'a b/c' --save DIR", 'bnfold.VerifyOptions(explain="a b/c", save=DIR)'),
        ("--input x=1,3 --input y=2 verifies it", 'bnfold.VerifyOptions(inputs={"x": (1, 3), "y": (2,)}) verifies it'),
        ("--input a/b:0=1,3 verifies", 'bnfold.VerifyOptions(inputs={"a/b:0": (1, 3)}) verifies'),
        ("with --input 'a b'=n,3, or", 'with bnfold.VerifyOptions(inputs={"a b": (n, 3)}), or'),
        ("`--fix-shapes x=3 --fix-shapes y=1`", '`fix_shapes={"x": (3,), "y": (1,)}`'),
        ("--verify auto --tolerance bfloat16 works", 'bnfold.VerifyOptions(depth="auto"), tolerance="bfloat16" works'),
        ("--verify-seconds 60 --json", "bnfold.VerifyOptions(verify_seconds=60) --json"),
        ("--only, --except", "only=…, excluded=…"),
        ("python tool.py --what 3", "python tool.py --what 3"),
        ("a - b -- c", "a - b -- c"),
    ],
)
def test_an_option_is_named_as_its_field(text: str, expected: str) -> None:
    assert in_python(text) == expected


def blocked() -> object:
    return bnfold.convert(onnx.parser.parse_model(RESIZE), opset=9)


CALLS: dict[str, Callable[[], object]] = {
    "a blocked conversion": blocked,
    "an ambiguous node": lambda: bnfold.optimize(
        MODELS / "bn6_no_is_test.onnx", policy=Policy(legacy_mode="error"), target_opset=17
    ),
    "the input as output": lambda: bnfold.optimize(MODELS / "bn9.onnx", MODELS / "bn9.onnx"),
    "the input as output, later": lambda: bnfold.inspect(MODELS / "bn9.onnx").save(MODELS / "bn9.onnx"),
    "an opset that is none": lambda: bnfold.convert(MODELS / "bn9.onnx", opset=99),
    "a conversion that is disabled": lambda: bnfold.optimize(MODELS / "bn9.onnx", disable={"convert-gemm"}),
    "a size that is none": lambda: bnfold.optimize(MODELS / "bn9.onnx", fix_shapes={"zz": (1,)}),
    "an input that is none": lambda: bnfold.verify(
        MODELS / "bn9.onnx", MODELS / "bn9.onnx", options=VerifyOptions(inputs={"zz": (1,)})
    ),
    "a tolerance by parts": lambda: VerifyOptions(tolerance=0.1, depth="local"),
    "no opset": lambda: bnfold.convert(MODELS / "bn9.onnx"),
    "an IR version that is too low": lambda: bnfold.convert(MODELS / "in_function.onnx", ir_version=3, opset=15),
}


@pytest.mark.parametrize("case", CALLS)
def test_errors_speak_python(case: str) -> None:
    with pytest.raises(bnfold.errors.BnfoldError) as error:
        CALLS[case]()
    texts = [str(error.value), *getattr(error.value, "blockers", ())]
    assert not [text for text in texts if re.search(r"(?<![\w-])--[a-z]", text)], texts


def test_what_a_blocked_conversion_names_can_be_typed() -> None:
    with pytest.raises(bnfold.errors.ConversionBlocked) as error:
        blocked()
    (words,) = re.findall(r"`(fix_shapes=[^`]*)`", str(error.value))
    quick = VerifyOptions(depth="none")
    at_sizes = bnfold.convert(onnx.parser.parse_model(RESIZE), opset=9, verify=quick, **eval(f"dict({words})"))
    assert at_sizes.report.opset_after == 9
    (opset,) = re.findall(r"target_opset=(\d+) gets there", str(error.value))
    assert (
        bnfold.convert(onnx.parser.parse_model(RESIZE), target_opset=int(opset), verify=quick).report.opset_after == 11
    )


def test_the_command_line_keeps_its_options(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from bnfold.cli.commands import main

    onnx.save(onnx.parser.parse_model(RESIZE), tmp_path / "a.onnx")
    told = (
        CliRunner().invoke(main, ["convert", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--opset", "9"]).stderr
    )
    assert "`--fix-shapes x=1,3,224,224`" in told
    assert "--opset 11 gets there" in told


def test_a_setting_that_is_wrong_still_has_its_name() -> None:
    with pytest.raises(bnfold.errors.BadSetting) as error:
        bnfold.optimize(MODELS / "bn9.onnx", options=Options(), fix_shapes={"zz": (1,)})
    assert error.value.name == "fix_shapes"


def differing(folder: Path) -> tuple[Path, Path]:
    """Two models that compute different functions."""
    for name, op in (("a", "Relu"), ("b", "Tanh")):
        text = f'<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {{ y = {op} (x) }}'
        (folder / name).mkdir()
        onnx.save(onnx.parser.parse_model(text), folder / name / "m.onnx")
    return folder / "a" / "m.onnx", folder / "b" / "m.onnx"


COPY = "import shutil, sys; shutil.copy(*sys.argv[1:3])"


def test_what_helps_is_spelled_as_in_python(tmp_path: Path) -> None:
    before, after = differing(tmp_path)
    expected = 'bnfold.VerifyOptions(explain="y", save=DIR) writes two small models'
    verdict = bnfold.verify(before, after, options=VerifyOptions(explain=""))
    assert verdict.next is not None
    assert verdict.next.text.startswith(expected)
    assert not any("--" in line for each in verdict.explanation for line in each.lines)
    (row,) = bnfold.verify_folders(before.parent, after.parent).models
    assert expected in row.message
    assert row.verdict is not None
    assert row.verdict.next == verdict.next
    with pytest.raises(bnfold.errors.StepRefused) as refused:
        bnfold.run(before, tmp_path / "c.onnx", ["python", "-c", COPY, str(after), "{output}", "{input}"])
    assert refused.value.verdict is not None
    assert refused.value.verdict.next is not None
    assert "--" not in refused.value.verdict.next.text


def test_notes_of_an_outcome_and_of_a_pass_speak_python() -> None:
    """A weight is an input that callers may feed: little folds, and a note says what would help."""
    before = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15]> g (float[2,3,4,4] x, float[3,3,1,1] w) => (float[a,b,c,d] y)
        <float[3] s = {1, 2, 3}, float[3,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
        { c = Conv (x, w)  y = BatchNormalization (c, s, s, s, s) }"""
    )
    fold = FoldBatchNormPass(verify=VerifyOptions())
    fold(onnx_ir.serde.deserialize_model(before))
    for report in (bnfold.fold(before).report, fold.report):
        assert any('overridable="freeze"' in note for note in report.notes), report.notes
        assert not any("--" in note for note in report.notes)
