"""The command line as a user meets it: what is printed where, exit codes, and what is left on disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from bnfold.cli.commands import main
from tests.conftest import MODELS


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.onnx"


def test_optimize_upgrades_folds_verifies_and_says_so(out: Path) -> None:
    result = run("optimize", MODELS / "resnet_opset6.onnx", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert re.search(r"^opset +6 +15$", result.stderr, re.MULTILINE)
    assert re.search(r"^nodes +32 +23$", result.stderr, re.MULTILINE)
    assert re.search(r"^  BatchNormalization +9 +0  folded into 9 Conv$", result.stderr, re.MULTILINE)
    assert "verified" in result.stderr
    assert f"wrote {out}" in result.stderr
    assert "BatchNormalization" not in operators(out)
    assert onnx.load(out).opset_import[0].version == 15


def test_fold_keeps_the_opset(out: Path) -> None:
    assert run("fold", MODELS / "resnet_opset6.onnx", out).exit_code == 0
    assert onnx.load(out).opset_import[0].version == 6
    assert "BatchNormalization" not in operators(out)


def test_upgrade_changes_the_opset_only(out: Path) -> None:
    assert run("upgrade", MODELS / "resnet_opset6.onnx", out, "--target-opset", 17).exit_code == 0
    assert onnx.load(out).opset_import[0].version == 17
    assert operators(out).count("BatchNormalization") == 9


def test_two_paths_alone_mean_optimize(out: Path) -> None:
    assert run(MODELS / "bn6.onnx", out).exit_code == 0
    assert "BatchNormalization" not in operators(out)


def test_inspect_writes_nothing_and_shows_every_batchnormalization(tmp_path: Path) -> None:
    result = run("inspect", MODELS / "dense.onnx")
    assert result.exit_code == 0, result.stderr
    names = [node.name for node in onnx.load(MODELS / "dense.onnx").graph.node if node.op_type == "BatchNormalization"]
    assert names
    assert all(name in result.stdout for name in names)
    assert list(tmp_path.iterdir()) == []


def test_json_goes_to_stdout_with_the_stable_names(out: Path) -> None:
    result = run("optimize", MODELS / "bn6.onnx", out, "--json", "-q")
    document = json.loads(result.stdout)
    assert document["opset"] == {"before": 6, "after": 15}
    assert document["input"]["sha256"] != document["output"]["sha256"]
    (row,) = document["batchnorms"]
    assert row["verdict"] == "folded"
    assert set(row) >= {"name", "graph", "version", "mode", "verdict", "into", "reason"}
    assert document["verify"]["status"] == "verified"
    assert set(document["names"]) == {"removed", "renamed"}
    assert result.stderr == ""


def test_report_file(out: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert run("optimize", MODELS / "bn9.onnx", out, "--report", report).exit_code == 0
    assert json.loads(report.read_text())["batchnorms"][0]["verdict"] == "folded"


def test_verify_tells_equal_models_from_different_ones(out: Path) -> None:
    run("optimize", MODELS / "bn9.onnx", out, "--no-verify")
    assert run("verify", MODELS / "bn9.onnx", out).exit_code == 0
    model = onnx.load(out)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == "float32":
            tensor.CopyFrom(onnx.numpy_helper.from_array(array * 1.01, tensor.name))
    onnx.save(model, out)
    result = run("verify", MODELS / "bn9.onnx", out)
    assert result.exit_code == 1
    assert "FAILED: " in result.stderr


def test_verify_as_json(out: Path) -> None:
    run("optimize", MODELS / "bn9.onnx", out, "--no-verify")
    document = json.loads(run("verify", MODELS / "bn9.onnx", out, "--json").stdout)
    assert document["status"] == "verified"


def test_assert_none_lists_what_is_left_and_why(out: Path) -> None:
    result = run("optimize", MODELS / "bn15_training.onnx", out, "--assert-none", "BatchNormalization")
    assert result.exit_code == 4
    assert "training-mode" in result.stderr
    gone = run("optimize", MODELS / "bn15.onnx", out, "--assert-none", "BatchNormalization")
    assert gone.exit_code == 0


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"hello, I am a text file", "not an ONNX model"),
        ((MODELS / "bn9.onnx").read_bytes()[:-40], "is cut off: "),
        (b"\x08\x08", "holds no graph"),
    ],
    ids=["empty", "foreign", "truncated", "no graph"],
)
def test_a_bad_file_is_one_line(content: bytes, complaint: str, out: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "bad.onnx", content)
    result = run("optimize", source, out)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert str(source) in result.stderr
    assert complaint in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.onnx"]


@pytest.mark.parametrize("command", ["optimize", "fold", "upgrade"])
def test_a_missing_file(command: str, out: Path) -> None:
    result = run(command, "nowhere.onnx", out)
    assert result.exit_code == 1
    assert result.stderr == "bnfold: nowhere.onnx: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("command", ["verify", "diff"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_missing_file_of_two(command: str, place: int) -> None:
    models = [MODELS / "bn9.onnx", Path("nowhere.onnx")]
    result = run(command, models[1 - place], models[place])
    assert result.exit_code == (2 if command == "diff" else 1)
    assert result.stderr == "bnfold: nowhere.onnx: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("opset", ["99", "0", "-3"])
def test_an_impossible_opset(opset: str, out: Path) -> None:
    result = run("optimize", MODELS / "bn9.onnx", out, "--target-opset", opset)
    assert result.exit_code in (1, 2)
    assert "opset" in result.stderr
    assert not out.exists()


def test_a_usage_error_is_exit_code_2(out: Path) -> None:
    assert run("optimize", MODELS / "bn9.onnx").exit_code == 2
    assert run("optimize", MODELS / "bn9.onnx", out, "--target-opset", "newest").exit_code == 2
    assert run("optimize", MODELS / "bn9.onnx", out, "--input", "x-3").exit_code == 2


def test_the_input_is_not_overwritten_unasked(tmp_path: Path) -> None:
    source = write(tmp_path / "model.onnx", (MODELS / "bn9.onnx").read_bytes())
    before = source.read_bytes()
    result = run("optimize", source, source)
    assert result.exit_code == 2
    assert "--in-place" in result.stderr
    assert source.read_bytes() == before
    assert run("optimize", source, source, "--in-place").exit_code == 0
    assert "BatchNormalization" not in operators(source)


def test_a_model_that_cannot_be_upgraded_points_to_fold(out: Path, tmp_path: Path) -> None:
    graph = onnx.parser.parse_graph("g (float[2,3] x) => (float[2,3] y) { y = Identity (x) }")
    node = graph.node[0]
    node.op_type, node.name = "Upsample", "up"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 1)], ir_version=3)
    onnx.save(model, tmp_path / "blocked.onnx")
    result = run("optimize", tmp_path / "blocked.onnx", out)
    assert result.exit_code == 1
    assert "up" in result.stderr
    assert "bnfold fold" in result.stderr
    assert not out.exists()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A model that no machine can run whole: its input takes terabytes. An operator in it is one that nobody knows."""
    text = """<ir_version: 8, opset_import: ["": 13, "acme": 1]>
    g (float[1000000,2,1000,1000] x) => (float[1000000,2,1000,1000] y)
    <float[2] s = {2.0, 3.0}, float[2] b = {1.0, 4.0}, float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}>
    { c = Conv (x, w) n = BatchNormalization (c, s, b, b, s) y = acme.Secret (n) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "secret.onnx")
    return tmp_path / "secret.onnx"


def test_an_unverified_result_is_written_and_the_option_that_forbids_it_is_named(secret: Path, out: Path) -> None:
    result = run("optimize", secret, out, "--verify", "full")
    assert result.exit_code == 0
    assert "UNVERIFIED: " in result.stderr
    assert "--require-verified writes no such result" in result.stderr
    assert out.exists()


@pytest.mark.parametrize("checked", [("--no-verify",), ("--verify", "full"), ("--verify", "full", "--quiet")])
def test_require_verified_writes_nothing_and_is_exit_code_3(secret: Path, out: Path, checked: tuple[str, ...]) -> None:
    result = run("optimize", secret, out, *checked, "--require-verified", "--report", out.with_suffix(".json"))
    assert result.exit_code == 3
    assert "nothing was written, because --require-verified was given" in result.stderr
    assert not out.exists()
    assert json.loads(out.with_suffix(".json").read_text())["output"] is None


def test_require_verified_keeps_the_model_that_was_to_be_overwritten(secret: Path) -> None:
    before = secret.read_bytes()
    assert run("optimize", secret, "--in-place", "--no-verify", "--require-verified").exit_code == 3
    assert secret.read_bytes() == before


def test_require_verified_sends_nothing_to_standard_output(secret: Path) -> None:
    result = run("optimize", secret, "-", "--no-verify", "--require-verified")
    assert (result.exit_code, result.stdout_bytes) == (3, b"")


def test_require_verified_holds_for_each_model_of_many(secret: Path, out: Path) -> None:
    good = secret.with_name("good.onnx")
    good.write_bytes((MODELS / "bn9.onnx").read_bytes())
    for again in range(2):  # what was not written is not up to date the next time
        result = run("optimize", secret, good, out.parent / "many/", "--verify", "full", "--require-verified")
        assert result.exit_code == 3, again
        assert "1 unverified, 1 " in result.stderr
        assert [path.name for path in (out.parent / "many").glob("*.onnx")] == ["good.onnx"]


def test_require_verified_is_about_the_end_of_a_chain(secret: Path, out: Path) -> None:
    result = run("optimize", secret, out, "--simplify", "onnxruntime", "--no-verify", "--require-verified")
    assert result.exit_code == 3
    assert not out.exists()


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from bnfold.cli.commands import main;"
        "r = CliRunner().invoke(main, ['--help']); assert r.exit_code == 0, r.output;"
        "print(sorted({'onnx', 'numpy', 'onnxruntime', 'rich', 'onnx_ir', 'onnxscript'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_folding_without_verification_imports_no_runtime(out: Path) -> None:
    script = (
        f"import sys; from click.testing import CliRunner; from bnfold.cli.commands import main;"
        f"r = CliRunner().invoke(main, ['optimize', {str(MODELS / 'bn9.onnx')!r}, {str(out)!r}, '--no-verify', '-q']);"
        f"assert r.exit_code == 0, r.output;"
        f"print(sorted({{'onnxruntime', 'onnx_ir', 'onnxscript', 'onnx.reference'}} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_version_names_what_results_depend_on() -> None:
    output = run("--version").stdout
    assert all(f"{package} " in output for package in ("bnfold", "onnx", "numpy", "onnxruntime"))


def test_a_pipe_gets_whole_names_and_no_escape_codes() -> None:
    result = run("inspect", MODELS / "resnet_opset6.onnx")
    assert "\x1b" not in result.stdout + result.stderr
    assert "…" not in result.stdout


def test_a_dash_reads_standard_input_and_writes_standard_output() -> None:
    source = (MODELS / "bn9.onnx").read_bytes()
    result = CliRunner().invoke(main, ["optimize", "-", "-"], input=source)
    assert result.exit_code == 0, result.stderr
    assert all(
        node.op_type != "BatchNormalization" for node in onnx.ModelProto.FromString(result.stdout_bytes).graph.node
    )
    assert "verified" in result.stderr


def test_the_model_and_json_do_not_share_a_stream() -> None:
    result = CliRunner().invoke(main, ["optimize", "-", "-", "--json"], input=(MODELS / "bn9.onnx").read_bytes())
    assert result.exit_code == 2


def test_external_data_goes_where_it_was_asked_for(out: Path) -> None:
    arguments = (
        "optimize",
        MODELS / "resnet_opset6.onnx",
        out,
        "--external-data",
        "weights.bin",
        "--size-threshold",
        4096,
    )
    assert run(*arguments).exit_code == 0
    tensors = onnx.load(out, load_external_data=False).graph.initializer
    outside = {tensor.name for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL}
    large = {tensor.name for tensor in onnx.load(out).graph.initializer if len(tensor.raw_data) >= 4096}
    assert outside == large != set()
    assert (out.parent / "weights.bin").exists()
