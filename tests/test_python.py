"""What people write in Python: models of every kind, keywords, verdicts as truth values, and their own type checker."""

from __future__ import annotations

import inspect
import pydoc
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import bnfold
from bnfold.settings import OptionFields, Options
from tests import documents
from tests.conftest import MODELS, ROOT
from tests.machine import unmeasured

QUICK = bnfold.VerifyOptions(samples=1, runtime="none")


def faulty(path: Path) -> onnx.ModelProto:
    proto = onnx.load(path)
    weight = next(tensor for tensor in proto.graph.initializer if len(tensor.dims) == 4)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * np.float32(1.5), weight.name))
    return proto


KINDS: dict[str, Callable[[Path], Any]] = {
    "text": str,
    "path": Path,
    "bytes": Path.read_bytes,
    "message": onnx.load,
    "onnx_ir": onnx_ir.load,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_taken_in_every_form(kind: str) -> None:
    source = KINDS[kind](MODELS / "bn9.onnx")
    for function in (bnfold.optimize, bnfold.fold, bnfold.upgrade):
        outcome = function(source, verify=QUICK)
        assert (outcome.status, outcome.verified) == ("verified", True)
    assert bnfold.decompose(source, target_opset=15, verify=QUICK).verified
    assert bnfold.inspect(source).status == "unchecked"
    assert bnfold.verify(source, MODELS / "bn9.onnx", options=QUICK)
    assert bnfold.verify(MODELS / "bn9.onnx", source, options=QUICK)
    assert bnfold.diff(source, source)["equal"]


def test_a_verdict_is_true_if_it_is_verified() -> None:
    assert bnfold.verify(MODELS / "bn9.onnx", MODELS / "bn9.onnx", options=QUICK)
    failed = bnfold.verify(MODELS / "bn9.onnx", faulty(MODELS / "bn9.onnx"), options=QUICK)
    assert failed.status == "failed"
    assert not failed


def test_optimize_takes_the_fields_of_its_options() -> None:
    kept = bnfold.optimize(MODELS / "bn9.onnx", fold=False, target_opset=17, verify=QUICK)
    assert (kept.report.left, kept.report.opset_after) == (1, 17)
    both = bnfold.optimize(
        MODELS / "bn9.onnx", options=Options(fold=False, target_opset=17), target_opset=18, verify=QUICK
    )
    assert (both.report.left, both.report.opset_after) == (1, 18)
    assert bnfold.inspect(MODELS / "bn9.onnx", excluded={"Conv"}).report.left == 1
    assert bnfold.inspect(MODELS / "bn9.onnx", disable=["batchnorm-fold"]).report.left == 1
    assert bnfold.optimize(MODELS / "bn9.onnx", simplify="onnxscript", verify=QUICK).steps[-1].name == "onnxscript"


def test_the_keywords_are_the_fields() -> None:
    hints, keywords = typing.get_type_hints(Options), typing.get_type_hints(OptionFields)
    hints["opset"] = hints["target_opset"]  # another name for it
    assert set(keywords) == set(hints) - {"simplify"}  # a parameter of its own
    for name in keywords:
        wider = str(hints[name]).replace("frozenset", "collections.abc.Iterable")
        assert str(keywords[name]) in (str(hints[name]), wider), name


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: bnfold.optimize(3),
            "source: a path, bytes, onnx.ModelProto, onnx_ir.Model or torch.onnx.ONNXProgram is wanted, not int",
        ),
        (lambda: bnfold.verify("a.onnx", None), "after: a path, bytes"),
        (lambda: bnfold.optimize("a.onnx", options={"fold": True}), "options: a bnfold.Options is wanted, not dict"),  # type: ignore[arg-type]
        (lambda: bnfold.optimize("a.onnx", verify="full"), "verify: a bnfold.VerifyOptions is wanted, not str"),  # type: ignore[arg-type]
        (lambda: bnfold.verify("a.onnx", "b.onnx", options="full"), "options: a bnfold.VerifyOptions is wanted"),  # type: ignore[arg-type]
        (lambda: bnfold.fold("a.onnx", max_growht=3), "no option max_growht; did you mean max_growth"),  # type: ignore[call-arg]
        (lambda: bnfold.convert("a.onnx", opset=13, zzz=1), "no option zzz; bnfold.Options has those"),  # type: ignore[call-arg]
        (lambda: bnfold.upgrade("a.onnx", samples=3), "verify=bnfold.VerifyOptions(samples="),  # type: ignore[call-arg]
    ],
)
def test_an_argument_of_another_type_is_a_plain_type_error(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call()


def test_an_outcome_is_saved(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    shutil.copy(MODELS / "bn9.onnx", source)
    outcome = bnfold.optimize(source, verify=QUICK)
    outcome.save(tmp_path / "new" / "out.onnx")
    assert bnfold.verify(source, tmp_path / "new" / "out.onnx", options=QUICK)
    with pytest.raises(bnfold.errors.SameFile, match="OUT is the input file"):
        outcome.save(source)
    outcome.save(source, in_place=True, external_data="none")
    assert onnx.load(source) == outcome.to_proto()


def test_other_tools_run(tmp_path: Path) -> None:
    row = bnfold.run(MODELS / "bn9.onnx", tmp_path / "out.onnx", ["cp", "{input}", "{output}"])
    assert row.status == "verified"
    assert (tmp_path / "out.onnx").exists()
    with pytest.raises(bnfold.errors.BadCommand):
        bnfold.run(MODELS / "bn9.onnx", tmp_path / "out.onnx", ["cp"])


def test_submodules_are_there_after_the_import_and_cost_nothing() -> None:
    code = (
        "import sys, bnfold; assert 'onnx_ir' not in sys.modules and 'numpy' not in sys.modules; "
        "assert 'passes' in dir(bnfold); print(bnfold.passes.FoldBatchNormPass, bnfold.pytorch.__name__)"
    )
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=unmeasured()).stdout
    assert "FoldBatchNormPass" in told
    assert "bnfold.pytorch" in told


def test_what_is_printed_fits_a_screen() -> None:
    outcome = bnfold.optimize(MODELS / "dense.onnx", verify=QUICK)
    for thing in (outcome, outcome.report, outcome.verdict):
        assert len(repr(thing)) < 600, thing
        assert "verified" in repr(thing) or "BatchNormalization 8 → 3" in repr(thing)
    assert len(dir(bnfold)) <= 29
    assert [name for name in dir(bnfold) if name.startswith("_")] == ["__version__"]
    first = "\n".join(pydoc.plain(pydoc.render_doc(bnfold)).splitlines()[:30])
    assert all(name in first for name in bnfold.__all__ if inspect.isfunction(getattr(bnfold, name)))


CLIENT = ROOT / "tests" / "clients" / "toolchain.py"
WRONG = {
    "bnfold.fold('m.onnx', max_growht=3)": "max_growht",
    "bnfold.optimise('m.onnx')": "optimise",
    "bnfold.convert('m.onnx', opset='newest')": "newest",
    "bnfold.optimize('m.onnx', opset=1.5)": "float",
    "bnfold.optimize('m.onnx', progress=3)": "int",
    "bnfold.Options(opset='old')": "old",
    "bnfold.optimize('m.onnx').model": "model",
    "bnfold.optimize('m.onnx').verdict.code": "code",
    "bnfold.verify('a', 'b').code == 'tested' and bnfold.verify('a', 'b').code.upper(1)": "upper",
    "bnfold.errors.Typo": "Typo",
    "bnfold.types.Verdict": "Verdict",
}
"""What a type checker has to refuse, and what it names."""


def test_the_type_checker_of_a_user_agrees_with_the_documents(tmp_path: Path) -> None:
    """All blocks of README and the docs, and a client, each as a file of its own, with mypy as strict as it gets."""
    blocks = [block for part in documents.parts() for block in part.blocks if block.language == "python"]
    for number, block in enumerate(blocks):
        (tmp_path / f"block_{number}.py").write_text(block.body, encoding="utf-8")
    shutil.copy(CLIENT, tmp_path)
    (tmp_path / "typing_error.py").write_text("\n".join(["import bnfold", *WRONG]), encoding="utf-8")
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nignore_missing_imports = True\ndisallow_subclassing_any = False\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=unmeasured())
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in errors if "typing_error" not in line] == []
    lines = [line for line in errors if "typing_error" in line]
    for number, name in enumerate(WRONG.values(), 2):
        assert any(f":{number}: " in line and name in line for line in lines), (name, lines)


@pytest.mark.measures_children
def test_the_client_runs(tmp_path: Path) -> None:
    shutil.copy(MODELS / "bn9.onnx", tmp_path / "model.onnx")
    command = [sys.executable, str(CLIENT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("verified tested")
    assert "gate 0 " in done.stdout
    assert done.stderr == ""
