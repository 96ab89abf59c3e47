"""What a run imports: what it needs, and what only other ways of using bnfold need not before they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS
from tests.machine import unmeasured

pytestmark = pytest.mark.large

CORE = {"numpy", "onnx", "ml_dtypes"}
LATER = {
    *("onnx_ir", "onnxscript", "sympy", "rich", "jinja2", "click", "onnxruntime"),
    *("dask", "distributed", "fsspec", "openvino", "torch"),
}
PLAIN = """
import pickle
assert bnfold.optimize("in.onnx", "o.onnx").verified
assert bnfold.convert("in.onnx", "c.onnx", opset=13).verified
assert bnfold.decompose("in.onnx", target_opset=15).verified
assert bnfold.verify("in.onnx", "o.onnx")
bnfold.inspect("in.onnx").to_json(), bnfold.diff("in.onnx", "o.onnx")
pickle.loads(pickle.dumps(bnfold.fold("in.onnx"))).save("f.onnx")
bnfold.types, bnfold.errors, bnfold.pytorch
"""
COMMAND = "import bnfold.cli.commands\nbnfold.cli.commands.main({!r})"
RUNS = {
    PLAIN: {"threadpoolctl"},
    "bnfold.inspect('in.onnx').to_onnx_ir()": {"onnx_ir"},
    "bnfold.passes": {"onnx_ir"},
    COMMAND.format(["optimize", "in.onnx", "o.onnx"]): {"click", "threadpoolctl"},
    COMMAND.format(["fold", "in.onnx", "o.onnx", "-q", "--report", "r.html"]): {"click", "threadpoolctl", "jinja2"},
    COMMAND.format(["inspect", "in.onnx", "in.onnx"]): {"click", "rich"},
}
"""Code to run, and the packages that are imported in its process besides the core."""


def imports(code: str, folder: Path) -> set[str]:
    """The modules of the process that ran the code, in a folder with a model."""
    (folder / "in.onnx").write_bytes((MODELS / "bn9.onnx").read_bytes())
    lines = "\n    ".join(code.strip().splitlines())
    whole = f"import sys, bnfold\ntry:\n    {lines}\nexcept SystemExit as end:\n    assert not end.code\n"
    command = [sys.executable, "-c", f"{whole}print()\nprint(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured(), cwd=folder)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("code", RUNS)
def test_a_run_imports_what_it_needs(code: str, tmp_path: Path) -> None:
    if "jinja2" in RUNS[code]:
        pytest.importorskip("jinja2")
    found, expected = imports(code, tmp_path), CORE | RUNS[code]
    assert expected <= found, expected - found
    by_onnx_ir = {"sympy"} if "onnx_ir" in expected else set()
    assert not (LATER - expected - by_onnx_ir) & found


def test_the_functions_work_without_what_they_do_not_use(tmp_path: Path) -> None:
    """As if it were not installed: an import of it raises."""
    imports(f"sys.modules.update(dict.fromkeys({sorted(LATER - {'onnxruntime'})!r}))\n{PLAIN}", tmp_path)
    with pytest.raises(AssertionError, match="import of onnx_ir halted"):
        imports("sys.modules['onnx_ir'] = None; bnfold.passes", tmp_path)
