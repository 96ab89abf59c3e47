"""Every option of the command line does something: on some model what is printed or written is another with it.

Options that offer a choice have a table of their own, in tests/test_choices.py.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner

from bnfold.cli.commands import main
from tests.conftest import MODELS, ROOT
from tests.test_choices import CASES, PARAMETERS, WEIGHT, text


class Row(NamedTuple):
    """A command, and what is added to it; ``first`` is run before either."""

    command: str
    added: str
    first: str = ""


SHARED = text(
    15,
    "(float[2,3,5] x) => (float[2,3,5] y, float[2,3,5] z)",
    "c = Conv (x, w) y = BatchNormalization (c, s, b, m, v) d = Conv (y, w) z = BatchNormalization (d, t, b, m, v)",
    f"{WEIGHT}, {PARAMETERS}, float[3] t = {{3, 1, 2}}",
)
SCALED = text(
    15, "(float[2,3,5] x) => (float[2,3,5] y)", "c = Conv (x, w) y = Mul (c, k)", f"{WEIGHT}, float[1] k = {{2}}"
)
TWO = text(
    15,
    "(float[2,3,5] x) => (float[2,3,5] y)",
    "c = Conv (x, w) d = Conv (x, u) y = Add (c, d)",
    f"{WEIGHT}, {WEIGHT.replace(' w ', ' u ')}",
)
UNEQUAL = text(
    15,
    "(float[2,3,5] x) => (float[2,3,5] y)",
    "c = Conv (x, w) r = Relu (c) y = Conv (r, u)",
    f"{WEIGHT}, {WEIGHT.replace(' w ', ' u ')}",
)
ROUNDABOUT = text(15, "(float[2,3,5] x) => (float[2,3,5] y)", "i = Identity (x) y = Relu (i)", WEIGHT)
GROUPED = text(
    21,
    "(float[2,3,5] x) => (float[2,3,5] y)",
    "f = Reshape (x, g) n = InstanceNormalization (f, s, t) r = Reshape (n, d) m = Mul (r, k) y = Add (m, k)",
    f"{WEIGHT}, int64[3] g = {{0, 1, -1}}, int64[3] d = {{2, 3, 5}}, float[1] s = {{1}}, float[1] t = {{0}},"
    "float[3,1] k = {1, 2, 3}",
)
TEXTS = {
    "grouped": GROUPED,
    "roundabout": ROUNDABOUT,
    "shared": SHARED,
    "scaled": SCALED,
    "two": TWO,
    "unequal": UNEQUAL,
}
OUT = "optimize dense.onnx out.onnx"
RUN = "run dense.onnx out.onnx"
ROWS: Mapping[str, Row] = {
    "target_opset": Row(OUT, "--opset 17"),
    "ir_version": Row("convert dense.onnx out.onnx --opset 15", "--ir-version 9"),
    "fix_shapes": Row(OUT, "--fix-shapes N=2"),
    "assert_none": Row(OUT, "--assert-none BatchNormalization"),
    "decompose_ops": Row("optimize in1.onnx out.onnx --decompose all", "--decompose-ops InstanceNormalization"),
    "no_simplify": Row("optimize roundabout.onnx out.onnx", "--no-simplify"),
    "group_norm": Row("optimize grouped.onnx out.onnx", "--group-norm"),
    "max_growth": Row("optimize shared.onnx out.onnx", "--max-growth 0"),
    "only": Row(OUT, "--only Gemm"),
    "excluded": Row(OUT, "--except Conv"),
    "disable": Row(OUT, "--disable batchnorm-fold"),
    "all_affines": Row("fold scaled.onnx out.onnx", "--all-affines"),
    "merge_branches": Row("optimize two.onnx out.onnx", "--merge-branches"),
    "equalize": Row("optimize unequal.onnx out.onnx", "--equalize"),
    "force_inference": Row("optimize bn9_training.onnx out.onnx", "--force-inference"),
    "inputs": Row(f"{OUT} --json", "--input x=3,3,22,18"),
    "data": Row(f"{OUT} --json", "--data x.npz"),
    "samples": Row(f"{OUT} --json --verify full", "--samples 12"),
    "seed": Row(f"{OUT} --json", "--seed 1"),
    "explain": Row(OUT, "--explain"),
    "save": Row(f"{OUT} --explain batchnormalization2", "--save part"),
    "report": Row(OUT, "--report why.json"),
    "as_json": Row(OUT, "--json"),
    "external_data": Row(OUT, "--external-data weights"),
    "size_threshold": Row(f"{OUT} --external-data weights", "--size-threshold 0"),
    "in_place": Row("optimize dense.onnx dense.onnx", "--in-place"),
    "no_verify": Row(OUT, "--no-verify"),
    "require_verified": Row(f"{OUT} --no-verify", "--require-verified"),
    "exclude": Row("optimize many out", "--exclude bn9.onnx"),
    "force": Row("optimize many out", "--force", "optimize many out"),
    "quiet": Row(OUT, "--quiet"),
    "verbose": Row(OUT, "--verbose"),
    "dry_run": Row(OUT, "--dry-run"),
    "as_is": Row("inspect dense.onnx", "--as-is"),
    "quantization": Row("inspect dense.onnx", "--quantization"),
    "values": Row("diff dense.onnx out.onnx", "--no-values", OUT),
    "step_seconds": Row(f"{RUN} -- PYTHON -c 'import time; time.sleep(2)' {{input}} {{output}}", "--step-seconds 1"),
    "tolerance": Row(f"{RUN} -- PYTHON half.py {{input}} {{output}}", "--tolerance float16"),
}
ELSEWHERE = {
    "frozen": "tests/pipeline/test_overridable.py",
    "verify_seconds": "tests/verification/test_verify.py",
    "keep_failed": "tests/pipeline/test_job.py",
    "ml_opset": "tests/converting/adapters/test_tree_ensemble.py",
    "domain_opsets": "tests/converting/test_registered.py",
    "plugin": "tests/operators/test_plugins.py",
    "jobs": "tests/test_machines.py",
    "latency": "tests/cli/test_latency.py",
    "scheduler": "tests/batch/test_cluster.py",
}
"""Options that need trees, a failure, a cluster, a runtime or a long run to matter: where they are tried."""

HALF = """
import sys, numpy, onnx
model = onnx.load(sys.argv[1])
for tensor in model.graph.initializer:
    if tensor.data_type == 1:
        rounded = onnx.numpy_helper.to_array(tensor).astype(numpy.float16).astype(numpy.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
onnx.save(model, sys.argv[2])
"""


def options() -> Iterator[str]:
    for command in main.commands.values():
        yield from (each.name for each in command.params if isinstance(each, click.Option) and each.name is not None)


def seen(folder: Path, command: str, added: str, first: str) -> str:
    """The exit code, what was printed and every file, but for times; ``folder`` is made for it."""
    (folder / "many").mkdir(parents=True)
    for path in MODELS.glob("*.onnx"):
        shutil.copy(path, folder)
    for name, body in TEXTS.items():
        onnx.save(onnx.parser.parse_model(body), folder / f"{name}.onnx")
    shutil.copy(MODELS / "bn9.onnx", folder / "many")
    (folder / "half.py").write_text(HALF, encoding="utf-8")
    np.savez(folder / "x.npz", x=np.ones((1, 3, 22, 18), np.float32))
    with contextlib.chdir(folder):
        if first:
            CliRunner().invoke(main, shlex.split(first))
        head, mark, tail = command.partition(" -- ")
        result = CliRunner().invoke(main, shlex.split(f"{head} {added}{mark}{tail.replace('PYTHON', sys.executable)}"))
        files = {str(path): path.read_bytes().hex() for path in sorted(Path().rglob("*")) if path.is_file()}
    said = re.sub(r"\d+\.\d+ s|\"seconds\": \{[^}]*\}|\"seconds\": [\d.]+", "", result.output)
    return f"{result.exit_code} {said} {files}"


def test_every_option_has_a_row() -> None:
    assert {*options()} == ROWS.keys() | CASES.keys() | ELSEWHERE.keys()
    for name, place in ELSEWHERE.items():
        assert name in (ROOT / place).read_text(encoding="utf-8").replace("-", "_"), name


@pytest.mark.parametrize("option", ROWS)
def test_an_option_makes_a_difference(option: str, tmp_path: Path) -> None:
    command, added, first = ROWS[option]
    assert seen(tmp_path / "with", command, added, first) != seen(tmp_path / "without", command, "", first)


def test_the_same_command_twice_makes_none(tmp_path: Path) -> None:
    """Else the test above would pass whatever an option does."""
    assert seen(tmp_path / "1", OUT, "--json", "") == seen(tmp_path / "2", OUT, "--json", "")
