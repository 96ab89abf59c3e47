"""What a refusal tells a user to type: each step is taken, and works."""

import re
import shlex
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (float[{dims}] y) '
DATA = "float[n, 3, h, w] x"
SCALES = "<float[4] s = {1, 1, 1.5, 1.5}>"
STEPS = "<int64[1] b = {0}, int64[1] e = {9}, int64[1] a = {3}, int64[1] t = {2}>"

REFUSED = {
    "a dynamic size": (13, 9, DATA, SCALES + ' { y = Resize <mode = "linear"> (x, , s) }', ["--fix-shapes"]),
    "a name with a space": (13, 9, DATA, SCALES + " { y = Resize (x, , s) }", ["--fix-shapes"]),
    "a size that two inputs share": (
        13, 9, "float[n, 3, h, w] x, float[n, 3, h, w] z", STEPS + " { v = Add (x, z) y = Slice (v, b, e, a, t) }",
        ["--fix-shapes"],
    ),
    "a weight that is an input": (
        13, 9, "float[2, 3, 4, 4] x, int64[8] p", "<int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { y = Pad (x, p) }",
        ["--overridable freeze"],
    ),
    "both": (
        13, 9, f"{DATA}, float[4] s", SCALES + " { y = Resize (x, , s) }", ["--overridable freeze", "--fix-shapes"],
    ),
    "computed from data": (13, 9, "float[2, 3, 4, 4] x, int64[8] p", "{ y = Pad (x, p) }", []),
    "computed from data, of dynamic sizes": (13, 9, f"{DATA}, int64[8] p", "{ y = Pad (x, p) }", []),
    "an operator that is newer": (13, 9, DATA, "{ y, i = Unique <axis = 0> (x) }", []),
    "a type that nothing says": (14, 13, DATA, "{ p = my.Op (x) q = Relu (p) y = my.Op (q) }", []),
    "upwards": (7, 13, DATA, "{ z, m = Dropout (x) y = Upsample (z) }", []),
}  # fmt: skip


def command(folder: Path, opset: int, *options: str) -> Result:
    given = [str(folder / "in.onnx"), str(folder / "out.onnx"), "--opset", str(opset), "--no-verify", *options]
    return CliRunner().invoke(main, ["convert", *given])


@pytest.mark.parametrize("case", REFUSED)
def test_each_step_works(tmp_path: Path, case: str) -> None:
    opset, target, inputs, body, expected = REFUSED[case]
    text = HEAD.format(opset=opset, inputs=inputs, dims="a, c, d, e") + body
    proto = onnx.parser.parse_model(text.replace('"" : 14]', '"" : 14, "my" : 1]'))
    if "space" in case:
        proto.graph.input[0].name = proto.graph.node[0].input[0] = "the image"
    onnx.save(proto, tmp_path / "in.onnx")
    refused = command(tmp_path, target)
    assert refused.exit_code == 1
    assert not (tmp_path / "out.onnx").exists()
    advice = re.findall(r"`(--[^`]*)`", refused.stderr)
    assert [each.startswith(start) for each, start in zip(advice, expected, strict=True)] == [True] * len(expected)
    for options in [shlex.split(" ".join(advice))] if advice else []:
        assert command(tmp_path, target, *options).exit_code == 0
    (direction, reached) = re.findall(r"(lowest|highest) opset for this model: (\d+)", refused.stderr)[0]
    assert (direction == "lowest") == (target < opset)
    assert command(tmp_path, int(reached)).exit_code == 0
    beyond = int(reached) + (1 if target > opset else -1)
    assert command(tmp_path, beyond).exit_code == 1


def test_shapes_that_were_given_are_not_asked_for(tmp_path: Path) -> None:
    text = HEAD.format(opset=13, inputs=f"{DATA}, float[4] s", dims="a, c, d, e") + "{ y = Resize (x, , s) }"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    result = command(tmp_path, 9, "--fix-shapes", "x=1,3,4,4")
    assert result.exit_code == 1
    assert "--fix-shapes" not in result.stderr


@pytest.mark.parametrize("name", ["convert", "upgrade", "optimize"])
def test_weights_that_are_inputs_and_decide_sizes_are_named(tmp_path: Path, name: str) -> None:
    text = (
        HEAD.format(opset=13, inputs="float[2, 6] x, int64[2] s", dims="a, c")
        + "<int64[2] s = {3, 4}> { y = Reshape (x, s) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    given = [name, str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "11"]
    told = CliRunner().invoke(main, given)
    assert "weights that are also inputs (s) decide sizes of Reshape" in told.stderr + told.stdout
    frozen = CliRunner().invoke(main, [*given, "--overridable", "freeze"])
    assert frozen.exit_code == 0
    assert [info.name for info in onnx.load(tmp_path / "out.onnx").graph.input] == ["x"]
    assert "decide sizes" not in frozen.stderr + frozen.stdout
